"""Feature: one column of a table, what it may hold and how far it may move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from assay.errors import AssayError, nearest

KINDS = ("real", "integer", "category", "boolean")


@dataclass(frozen=True)
class Feature:
    """One column. `scale` is the range that counts as 1 in distances; default: its bounds."""

    name: str
    kind: str = "real"
    low: float | str | None = None
    high: float | str | None = None
    mutable: bool = True
    values: tuple[Any, ...] = ()
    group: str = ""
    unit: str = ""
    cost: float = 1.0
    scale: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if self.scale is not None:
            object.__setattr__(self, "scale", (float(self.scale[0]), float(self.scale[1])))
        self._check()

    def _check(self) -> None:
        def wrong(what: str) -> AssayError:
            return AssayError(f"feature '{self.name}': {what}")

        if self.kind not in KINDS:
            raise wrong(f"kind '{self.kind}'{nearest(self.kind, KINDS)}")
        if not isinstance(self.mutable, bool):
            raise wrong(f"mutable = {self.mutable!r}; expected true or false")
        if isinstance(self.cost, bool) or not isinstance(self.cost, int | float):
            raise wrong(f"cost = {self.cost!r}; expected a number")
        for side in (self.low, self.high):
            number = isinstance(side, int | float) and not math.isnan(side)
            if not (side is None or side == "original" or number):
                raise wrong(f'bound {side!r}; expected a number, "original" or nothing')
        low, high = self.low, self.high
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            raise wrong(f"low={low:g} lies above high={high:g}")
        if self.kind == "category" and len(self.values) < 1:
            raise wrong("a category needs values=(...), the labels or codes it can have")
        if len(set(self.values)) < len(self.values):
            raise wrong(f"values {self.values} hold one value twice")
        if self.group and self.kind != "boolean":
            raise wrong(f"a member of the one-hot group '{self.group}' must be of kind 'boolean'")
        if not (self.cost >= 0 and math.isfinite(self.cost)):
            raise wrong(f"cost={self.cost}: expected a number >= 0")

    @property
    def codes(self) -> tuple[float, ...]:
        """The numbers that stand for a category's values."""
        if any(isinstance(v, str) for v in self.values):
            return tuple(float(i) for i in range(len(self.values)))
        return tuple(float(v) for v in self.values)

    @property
    def range(self) -> tuple[float, float]:
        """The range by which it is scaled: `scale`, or what can be told from bounds and kind."""
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
            raise AssayError(
                f"feature '{self.name}': low={self.low}, high={self.high}: no range to scale by; "
                "give scale=(smallest, largest) or let schema.fit(df) take it from data"
            )
        return (float(low), float(high))

    @property
    def reach(self) -> tuple[float, float]:
        """The values it may take, which `scale` (what was seen in data) does not bound.

        A bound that is the record's own, or of a feature that cannot move, is taken from the range.
        """
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


def column(f: Feature, values: np.ndarray) -> np.ndarray:
    """One column as float64; labels become codes."""
    if any(isinstance(v, str) for v in f.values):
        codes = {str(v): c for v, c in zip(f.values, f.codes, strict=True)}
        if all(isinstance(v, str) for v in values):
            unseen = [v for v in values if v not in codes]
            if unseen:
                raise AssayError(
                    f"feature '{f.name}': category '{unseen[0]}' is not in values"
                    f"{nearest(unseen[0], codes)} ({len(unseen)} of {len(values)} rows)"
                )
            return np.array([codes[v] for v in values])
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise AssayError(f"feature '{f.name}': {error}; expected numbers") from None
    gaps = int((~np.isfinite(numbers)).sum())
    if gaps:
        row = int((~np.isfinite(numbers)).argmax())
        raise AssayError(
            f"feature '{f.name}': {gaps} of {len(numbers)} values are missing or infinite "
            f"(first: row {row}); fill or drop them first"
        )
    return numbers
