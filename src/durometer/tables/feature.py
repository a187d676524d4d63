"""Feature: one column of a table, what it may hold and how far it may move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from typing import Any, Literal

import numpy as np

from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import noun
from durometer.data.columns import Column, encode_labels

Kind = Literal["real", "integer", "category", "boolean"]


_ANY = {"least": -math.inf, "most": math.inf}


@noun
class Feature:
    """One column of a table: what it may hold, and how far an attacker may move it.

    Args:
        name: Name of the column.
        kind: "real", "integer", "category" or "boolean".
        low: Lowest value an attacker may set: a number, "original" (the record's own value: it may
            grow, not shrink) or None (no bound).
        high: Highest value, likewise.
        mutable: Whether an attacker may change it at all.
        values: Of a category: its labels or codes. Labels are coded by their position here.
        group: Name of the one-hot group it belongs to; exactly one member of a group is 1. Booleans
            only.
        unit: Unit, for reports, e.g. "$".
        cost: Price of a change by one unit, or of another value of a category. `TableSpace(cost=)`
            needs it of every feature that can change, except those that a relation computes from
            others, which are free.
        scale: (smallest, largest) value that counts as a distance of 1. Default: its bounds;
            `Schema.fit` takes it from data.
        missing: Whether a record may lack it.
        fill: Distance of filling in a missing cell. None: it stays missing.
        hide: Distance of leaving a known cell blank. None: not allowed.
        fill_cost: Price of filling in a missing cell. None: not allowed.
        hide_cost: Price of leaving a known cell blank. None: not allowed.

    Raises:
        DurometerError: A value is of the wrong type, bounds are swapped, or settings contradict
            each other.

    >>> import durometer as du
    >>> age = du.Feature('age', 'integer', low='original', high=120)
    >>> age.kind, age.low, age.high
    ('integer', 'original', 120)
    """

    name: str
    kind: Kind = "real"
    low: float | Literal["original"] | None = field(default=None, metadata=_ANY)
    high: float | Literal["original"] | None = field(default=None, metadata=_ANY)
    mutable: bool = True
    values: tuple[Any, ...] = ()
    group: str = ""
    unit: str = ""
    cost: float | None = None
    scale: tuple[float, float] | None = None
    missing: bool = False
    fill: float | None = None
    hide: float | None = None
    fill_cost: float | None = None
    hide_cost: float | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "values", tuple(self.values))
        if self.scale is not None:
            object.__setattr__(self, "scale", (float(self.scale[0]), float(self.scale[1])))
        self._check()

    def _check_kinds(self) -> None:
        """Each field is of its kind: a schema may come from a file."""

        def wrong(field: str, expected: str) -> DurometerError:
            value = repr(getattr(self, field))
            return DurometerError(
                f"feature '{self.name}': {field} = {value[:80]}; expected {expected}"
            )

        if not self.name:
            raise wrong("name", "a name")
        values = self.values
        if not isinstance(values, list | tuple) or not all(
            isinstance(v, str | bool) or _number(v) for v in values
        ):
            raise wrong("values", "a list of labels or numbers")
        pair = isinstance(self.scale, list | tuple) and len(self.scale) == 2
        if self.scale is not None and not (pair and all(_number(v) for v in self.scale)):
            raise wrong("scale", "two numbers, the smallest and the largest value")

    def _check(self) -> None:
        def wrong(what: str) -> DurometerError:
            return DurometerError(f"feature '{self.name}': {what}")

        low, high = self.low, self.high
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            raise wrong(f"low={low:g} lies above high={high:g}")
        if self.kind == "category" and len(self.values) < 1:
            raise wrong("a category needs values=(...), the labels or codes it can have")
        if len(set(self.values)) < len(self.values):
            raise wrong(f"values {self.values} hold one value twice")
        if self.group and self.kind != "boolean":
            raise wrong(f"a member of the one-hot group '{self.group}' must be of kind 'boolean'")
        if self.gaps and not self.missing:
            raise wrong("fill and hide are about missing cells: say missing=True as well")
        if self.missing and self.group:
            raise wrong(f"a member of the one-hot group '{self.group}' cannot be missing")

    @property
    def gaps(self) -> bool:
        """Whether an attacker may fill the cell in or leave it blank."""
        given = (self.fill, self.hide, self.fill_cost, self.hide_cost)
        return any(amount is not None for amount in given)

    @property
    def codes(self) -> tuple[float, ...]:
        """The numbers that stand for a category's values in tensors."""
        if any(isinstance(v, str) for v in self.values):
            return tuple(float(i) for i in range(len(self.values)))
        return tuple(float(v) for v in self.values)

    @property
    def range(self) -> tuple[float, float]:
        """The range it is scaled by: `scale`, else its bounds; raises `DurometerError` where
        neither gives one.
        """
        if self.scale is not None:
            return self.scale
        if self.kind == "category":
            return (min(self.codes), max(self.codes))
        low, high = self.low, self.high
        if self.kind == "boolean":
            low, high = 0.0, 1.0
        if isinstance(low, str) and isinstance(high, int | float):
            low = min(0.0, float(high))
        if not (isinstance(low, int | float) and isinstance(high, int | float)):
            raise DurometerError(
                f"feature '{self.name}': low={self.low}, high={self.high}: no range to scale by; "
                "give scale=(smallest, largest) or let schema.fit(df) take it from data"
            )
        try:
            return (float(low), float(high))
        except OverflowError:
            raise DurometerError(
                f"feature '{self.name}': its bounds are too large for a number of double precision"
            ) from None

    @property
    def has_range(self) -> bool:
        """Whether `range` is known: from `scale`, its kind or its bounds."""
        if self.scale is not None or self.kind in ("category", "boolean"):
            return True
        return isinstance(self.high, int | float) and self.low is not None

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest value that an attacker may set; infinite where there is no bound."""
        if self.kind in ("category", "boolean"):
            return self.range
        ends = []
        for given, seen, open_end in zip(
            (self.low, self.high), self.range, (-math.inf, math.inf), strict=True
        ):
            if isinstance(given, int | float):
                ends.append(float(given))
            else:
                ends.append(open_end if given is None and self.mutable else seen)
        return (ends[0], ends[1])


def plain(f: Feature) -> Mapping[str, Any]:
    """The fields of a feature that differ from their defaults."""
    defaults = {g.name: g.default for g in fields(Feature)}
    return {k: v for k, v in asdict(f).items() if k != "name" and v != defaults[k]}


def column(f: Feature, series: Any) -> np.ndarray:
    """One column of a frame as float64: labels become codes, dates days, missing cells NaN."""
    own = Column.of(f.name, series)
    if own.kind == "label":
        values, codes = own.values, own.codes
        if any(isinstance(v, str) for v in f.values) or f.values:
            values, codes = f.values, f.codes
        elif all(_number(v) for v in own.values):
            codes = tuple(float(v) for v in own.values)
        else:
            text = next(v for v in own.values if not _number(v))
            raise DurometerError(f"feature '{f.name}': {text!r}; expected numbers")
        numbers = _labelled(f, encode_labels(own, values, codes), series)
    else:
        numbers = own.encode(series)
    wrong = np.isinf(numbers) if f.missing else ~np.isfinite(numbers)
    if wrong.any():
        raise DurometerError(
            f"feature '{f.name}': {int(wrong.sum())} of {len(numbers)} values are missing or "
            f"infinite (first: row {int(wrong.argmax())}); fill or drop them, or say missing=True"
        )
    return numbers


def _labelled(f: Feature, own: Column, series: Any) -> np.ndarray:
    text = series.map(str, na_action="ignore") if len(series) else series
    plain = replace_values(own)
    known = set(plain.values)
    seen = [v for v in dict.fromkeys(text.dropna().tolist()) if v not in known]
    if seen:
        count = int(text.isin(seen).sum())
        raise DurometerError(
            f"feature '{f.name}': category '{seen[0]}' is not in values"
            f"{nearest(seen[0], known)} ({count} of {len(series)} rows)"
        )
    return plain.encode(text)


def replace_values(own: Column) -> Column:
    """The column with the text of its values in their place."""
    return replace(own, values=tuple(str(v) for v in own.values))


def _number(value: object) -> bool:
    """A number that can be computed with: no truth value, no NaN, not of 400 digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:
        return False
