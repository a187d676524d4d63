"""Schema: what the columns of a table are, how far each may move, and how they hang together.

    Schema(
        [Feature("loan_amnt", "real", 1000, 40000, unit="$"), Feature("term", "integer", 36, 60),
         Feature("grade", "category", values=("A", "B")),
         Feature("opened", "integer", "original", 90)],
        ["term in {36, 60}", F.opened <= F.loan_amnt / 100],
    )

A bound is a number or "original": the record's own value ("may grow, not shrink"). Columns that
share a `group` are a one-hot code: exactly one of them is 1.

What a reader would get wrong: a category is held in tensors by its code. Labels (text) are coded by
their position in `values`; numeric values stand for themselves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from durometer.core import notebook_html
from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import noun
from durometer.data.columns import DAYS, Column, Columns, as_frame, encode_labels
from durometer.relations import parse
from durometer.relations.expression import Const, Relation, columns, relation, walk
from durometer.relations.intervals import impossible
from durometer.relations.normal_form import Layout
from durometer.relations.program import Program
from durometer.relations.repair import Repair
from durometer.tables.feature import Feature, column

if TYPE_CHECKING:
    import pandas as pd

    from durometer.tables.space import TableSpace


@noun(eq=False)
class Schema:
    """What the columns of a table are, how far each may move, and the relations between them.

    Args:
        features: The features, in the order of the columns.
        relations: Relations that every valid record satisfies, in Python (`F.a <= F.b`) or as text
            ("a <= b").
        name: What reports call it.

    Raises:
        DurometerError: A name occurs twice, a relation names no feature, or a relation can never
            hold within the bounds.

    >>> import durometer as du
    >>> import torch
    >>> schema = du.Schema(
    ...     [du.Feature("a", low=0, high=9), du.Feature("b", low=0, high=9)], ["a <= b"]
    ... )
    >>> schema.validate(torch.tensor([[1.0, 2.0], [3.0, 2.0]]))["rule"].tolist()
    ['a <= b']
    """

    features: tuple[Feature, ...]
    relations: tuple[Relation, ...] = ()
    name: str = ""

    def __init__(
        self,
        features: Iterable[Feature],
        relations: Iterable[Relation | str] = (),
        name: str = "",
    ) -> None:
        read = tuple(parse.relation(r) if isinstance(r, str) else relation(r) for r in relations)
        for key, value in (("features", tuple(features)), ("relations", read), ("name", name)):
            object.__setattr__(self, key, value)
        try:
            self._check()
        except RecursionError:  # no relation is named: its text would be as deep
            raise DurometerError(
                "a relation of this schema is nested too deep (thousands of operations in one); "
                "split it, with a feature for each part"
            ) from None

    def _check(self) -> None:
        if not self.features:
            raise DurometerError("a schema needs at least one feature")
        if not isinstance(self.name, str):
            raise DurometerError(f"Schema(name={type(self.name).__name__}): expected text")
        seen: set[str] = set()
        for each in self.names:
            if each in seen:
                raise DurometerError(f"feature '{each}' occurs twice in the schema")
            seen.add(each)
        for group, members in self.one_hot_groups.items():
            kinds = {self.features[i].mutable for i in members}
            if len(kinds) > 1:
                raise DurometerError(
                    f"one-hot group '{group}': all members must be mutable, or none"
                )
        if not all(f.has_range for f in self.features):
            return  # `fit` gives the ranges, and makes a schema whose relations are checked
        for each_relation, never in zip(self.relations, self._impossible(), strict=True):
            if never:
                raise DurometerError(
                    f"relation '{each_relation}' holds for no record within its features' ranges; "
                    "correct the relation or the bounds"
                )

    def _impossible(self) -> list[bool]:
        self.program  # noqa: B018  (names and labels are checked first: their message is better)
        ranges = dict(self.layout.ranges)
        for f in self.features:
            if f.scale is not None or isinstance(f.low, str) or isinstance(f.high, str):
                low = f.low if isinstance(f.low, int | float) else -math.inf
                high = f.high if isinstance(f.high, int | float) else math.inf
                ranges[f.name] = (float(low), float(high))
        return [_has_no_label(r) and impossible(r, ranges) for r in self.relations]

    def __repr__(self) -> str:
        return (
            f"Schema({self.name or 'unnamed'}: {len(self.features)} features, "
            f"{int(self.mutable.sum())} mutable, {len(self.relations)} relations)"
        )

    def _repr_html_(self) -> str:
        head = ("feature", "kind", "from", "to", "unit", "may change")
        rows = [
            (f.name, f.kind, *(("" if v is None else v) for v in (f.low, f.high)), f.unit,
             "yes" if f.mutable else "no")
            for f in self.features
        ]  # fmt: skip
        rules = notebook_html.table(("relation",), ((r,) for r in self.relations))
        return notebook_html.text(repr(self)) + notebook_html.table(head, rows) + rules

    def __len__(self) -> int:
        return len(self.features)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        mine, theirs = ((s.features, s.name, [*map(str, s.relations)]) for s in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.features, self.name))

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of; what was compiled is compiled again."""
        return {"features": self.features, "relations": self.relations, "name": self.name}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(f.name for f in self.features)

    @cached_property
    def one_hot_groups(self) -> dict[str, list[int]]:
        """Name of each one-hot group -> positions of its columns."""
        found: dict[str, list[int]] = {}
        for i, f in enumerate(self.features):
            if f.group:
                found.setdefault(f.group, []).append(i)
        return found

    @cached_property
    def mutable(self) -> Tensor:
        """(d,) bool: which columns an attacker may change."""
        return torch.tensor([f.mutable for f in self.features])

    @cached_property
    def gaps(self) -> Tensor:
        """(d,) bool: which columns a record may lack."""
        return torch.tensor([f.missing for f in self.features])

    @cached_property
    def whole(self) -> Tensor:
        """(d,) bool: which columns hold whole numbers only."""
        return torch.tensor([f.kind in ("integer", "boolean") for f in self.features])

    @cached_property
    def layout(self) -> Layout:
        """Ranges, labels and kinds of the columns, as the compiler of relations needs them."""
        return Layout(
            {f.name: f.range for f in self.features},
            frozenset(
                f.name for f in self.features
                if f.kind in ("integer", "boolean")
                or (f.kind == "category" and all(c.is_integer() for c in f.codes))
            ),
            {
                f.name: {str(v): c for v, c in zip(f.values, f.codes, strict=True)}
                for f in self.features if f.values
            },
            {f.name: f.reach for f in self.features},
            frozenset(f.name for f in self.features if f.missing),
        )  # fmt: skip

    @cached_property
    def program(self) -> Program:
        """The relations, compiled."""
        return Program(self.relations, self.layout)

    @cached_property
    def repair(self) -> Repair:
        """How broken relations are repaired; categories are never changed by a repair."""
        amounts = [f.kind != "category" and not f.group for f in self.features]
        return Repair(self.program, self.mutable & torch.tensor(amounts))

    @cached_property
    def _sides(self) -> list[tuple[Tensor, Tensor]]:
        """(d,) the fixed bound and whether it is the record's own value, for low and high."""
        sides = []
        for side, open_end in (("low", -math.inf), ("high", math.inf)):
            given = [getattr(f, side) for f in self.features]
            for i, f in enumerate(self.features):
                if f.kind == "boolean" and given[i] is None:
                    given[i] = 0.0 if side == "low" else 1.0
            fixed = [open_end if g is None or isinstance(g, str) else float(g) for g in given]
            own = torch.tensor([g == "original" for g in given])
            sides.append((torch.tensor(fixed, dtype=torch.float64), own))
        return sides

    def bounds(self, x0: Tensor) -> tuple[Tensor, Tensor]:
        """Lowest and highest allowed values for each record.

        Args:
            x0: The original records (n, d).

        Returns:
            Two tensors (n, d), infinite where there is no bound.
        """
        low, high = (torch.where(own, x0, fixed) for fixed, own in self._sides)
        return low, high

    def select(self, names: Iterable[str]) -> Schema:
        """The schema of some columns, with the relations that name no other column.

        Args:
            names: The columns to keep, in the new order.

        Raises:
            DurometerError: There is no such column.
        """
        wanted = list(names)
        by_name = {f.name: f for f in self.features}
        for each in wanted:
            if each not in by_name:
                raise DurometerError(f"no feature '{each}'{nearest(each, by_name)}")
        kept = [r for r in self.relations if all(c.name in wanted for c in columns(r))]
        return Schema([by_name[n] for n in wanted], kept, self.name)

    def freeze(self, *names: str) -> Schema:
        """The same schema with some features immutable.

        Args:
            *names: The features to freeze.

        Raises:
            DurometerError: There is no such feature.
        """
        for each in names:
            if each not in self.names:
                raise DurometerError(f"no feature '{each}'{nearest(each, self.names)}")
        changed = [replace(f, mutable=False) if f.name in names else f for f in self.features]
        return Schema(changed, self.relations, self.name)

    def fit(self, table: pd.DataFrame | Tensor) -> Schema:
        """The same schema, with each numeric feature scaled by its smallest and largest value in
        the data.

        Args:
            table: A data frame, or records (n, d).
        """
        x = self.tensor(table)
        low = x.nan_to_num(nan=math.inf).amin(0)
        high = x.nan_to_num(nan=-math.inf).amax(0)
        changed = [
            f
            if f.kind in ("category", "boolean")
            else replace(f, scale=(float(low[i]), float(high[i])))
            for i, f in enumerate(self.features)
        ]
        return Schema(changed, self.relations, self.name)

    def tensor(self, table: Any) -> Tensor:
        """Records as a float64 tensor (n, d): labels become codes.

        Args:
            table: A table that holds the columns by name, or an array in their order.

        Raises:
            DurometerError: A column is missing, a label is unknown, or a cell is missing where it
                must not be.
        """
        if isinstance(table, Tensor | np.ndarray):
            x = torch.as_tensor(table).detach().to(torch.float64)
            if x.ndim != 2 or x.shape[1] != len(self):
                raise DurometerError(
                    f"table of shape {tuple(x.shape)}; expected (rows, {len(self)})"
                )
            return x
        frame = as_frame(table)
        if frame is None:
            raise DurometerError(
                f"a {type(table).__name__} is no table; expected a frame or an array"
            )
        missing = [n for n in self.names if n not in frame.columns]
        if missing:
            raise DurometerError(
                f"column '{missing[0]}' is missing ({len(missing)} of {len(self)} in all)"
                f"{nearest(missing[0], [str(c) for c in frame.columns])}"
            )
        columns = [column(f, frame[f.name]) for f in self.features]
        return torch.from_numpy(np.stack(columns, axis=1))

    def frame(self, x: Any) -> pd.DataFrame:
        """Records as a data frame: whole numbers as integers, categories as labels, dates as dates.

        Args:
            x: The records (n, d), a tensor or an array. `Dataset.frame` also restores the types of
                the original table.
        """
        rows = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
        dates = [
            Column(f.name, "date") if f.unit == DAYS else mine
            for f, mine in zip(self.features, self.columns.each, strict=True)
        ]
        return Columns(tuple(dates)).frame(rows.astype(np.float64, copy=False))

    @cached_property
    def columns(self) -> Columns:
        """How records of this schema are held in tensors."""
        return Columns(tuple(_column(f) for f in self.features))

    def columns_of(self, frame: pd.DataFrame) -> Columns:
        """How records of a data frame are held in tensors, with the frame's own types.

        Args:
            frame: The data frame.
        """
        own = []
        for f, mine in zip(self.features, self.columns.each, strict=True):
            theirs = Column.of(f.name, frame[f.name])
            if theirs.kind == "label" and mine.kind == "label":
                theirs = encode_labels(theirs, mine.values, mine.codes)
            own.append(mine if theirs.kind == "label" and mine.kind != "label" else theirs)
        return Columns(tuple(own))

    def space(self, eps: float | None = None, p: float = 2.0, **options: Any) -> TableSpace:
        """The `TableSpace` of this schema.

        Args:
            eps: Size of the ball in scaled coordinates. None: 0.5, unless a cost is given.
            p: The norm: 0, 1, 2 or infinity.
            **options: Further parameters of `TableSpace`, e.g. `cost=`.
        """
        from durometer.tables.space import TableSpace

        return TableSpace(self, eps, p, **options)

    def validate(self, table: Any, tolerance: float = 1e-6) -> pd.DataFrame:
        """Lists what the records of a table violate.

        Args:
            table: A table or records (n, d).
            tolerance: Relative slack of the relations.

        Returns:
            A data frame with `row`, `rule` and `found`; empty where all records are valid.
        """
        from durometer.tables.validation import breaches

        return breaches(self, table, tolerance)

    @staticmethod
    def suggest(table: pd.DataFrame, **options: Any) -> Any:
        """Proposes a schema from data: kinds, bounds, one-hot groups, and relations with their
        support.

        Args:
            table: The data frame.
            **options: Parameters of the search; see `durometer.tables.discovery.suggest`.

        Returns:
            A `Suggestion`, to be reviewed before it is used.
        """
        from durometer.tables.discovery.suggest import suggest

        return suggest(table, **options)

    @staticmethod
    def from_frame(table: pd.DataFrame, relations: Iterable[Relation | str] = ()) -> Schema:
        """A schema with kinds and bounds as found in data; every feature is mutable.

        Args:
            table: The data frame.
            relations: Relations between its columns.
        """
        from durometer.tables.discovery.suggest import features

        return Schema(features(table), relations)

    @staticmethod
    def read(path: Any, table: pd.DataFrame | None = None) -> Schema:
        """Reads a schema from a file.

        Args:
            path: A .toml file (see `toml`) or a .json file (see `json`); a .json or .yaml file of
                Great Expectations, pandera, Frictionless or Croissant, as far as it says types,
                ranges, sets of values and rules of a row; or a .csv of features in the format of
                the CAA authors.
            table: A data frame that gives the ranges a file of another tool does not say.

        Warns:
            UserWarning: A file of another tool says something that the schema cannot hold.
        """
        from durometer.tables import exchange, files

        if Path(path).suffix not in exchange.SUFFIXES:
            return files.read(path)
        found = exchange.read(Path(path), table)
        for each in found.left_out:
            warnings.warn(f"{path} ({found.source}): left out: {each}", stacklevel=2)
        return found.schema

    def json(self) -> str:
        """The schema as JSON text, which `Schema.read` reads back.

        The JSON Schema of such files is printed by `durometer schema --json-schema`.
        """
        from durometer.tables import exchange

        return exchange.to_json(self)

    def toml(self) -> str:
        """The schema as editable TOML text, which `Schema.read` reads back."""
        from durometer.tables import files

        return files.to_toml(self)


def _column(f: Feature) -> Column:
    if any(isinstance(v, str) for v in f.values):
        return Column(f.name, "label", None, f.values, f.codes)
    whole = f.kind in ("integer", "boolean") or (
        f.kind == "category" and all(c.is_integer() for c in f.codes)
    )
    return Column(f.name, "integer" if whole else "real")


def _has_no_label(r: Relation) -> bool:
    return not any(isinstance(e, Const) and isinstance(e.value, str) for e in walk(r))
