"""Small tables with whole numbers, categories, gaps and relations, and all records near one.

Membership is restated here: distances by the range of each column, gaps by their own price,
relations as three-valued functions (None, unknown, is accepted, as in SQL).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from prosecution.package import du

NAN = float("nan")
Record = tuple[float, ...]


def known(f: Callable[..., bool], *values: float) -> bool | None:
    return None if any(math.isnan(v) for v in values) else bool(f(*values))  # numpy's is no `False`


def either(*parts: bool | None) -> bool | None:
    return True if True in parts else None if None in parts else False


# Columns a, b: whole numbers, c: a category, d: 0 or 1, e: real. Each as text and as a function.
RELATIONS: dict[str, tuple[list[str], Callable[..., bool | None]]] = {
    "none": ([], lambda a, b, c, d, e: True),
    "sum": (["a + b <= 8"], lambda a, b, c, d, e: known(lambda u, v: u + v <= 8, a, b)),
    "or": (["a >= 2 or b <= 3"], lambda a, b, c, d, e: either(
        known(lambda u: u >= 2, a), known(lambda v: v <= 3, b))),
    "if": (["if d == 1 then b >= 1"], lambda a, b, c, d, e: either(
        known(lambda v: v != 1, d), known(lambda v: v >= 1, b))),
    "product": (["a * b <= 12"], lambda a, b, c, d, e: known(lambda u, v: u * v <= 12, a, b)),
    "real": (["e <= a + 3"], lambda a, b, c, d, e: known(lambda u, v: u <= v + 3, e, a)),
    "set": (["b in {0, 1, 3, 4}"], lambda a, b, c, d, e: known(lambda v: v in (0, 1, 3, 4), b)),
    "equality": (["a + d <= b + 3", "b != 2"], lambda a, b, c, d, e: _both(
        known(lambda u, v, w: u + w <= v + 3, a, b, d), known(lambda v: v != 2, b))),
}  # fmt: skip


def _both(*parts: bool | None) -> bool | None:
    return False if False in parts else None if None in parts else True


@dataclass(frozen=True)
class Column:
    """What a cell may hold and what a change of it costs."""

    name: str
    kind: str
    values: tuple[float, ...]  # of a real one: those that occur
    mutable: bool = True
    missing: bool = False
    fill: float | None = None
    hide: float | None = None

    def feature(self) -> Any:
        bounds: dict[str, Any] = {"low": min(self.values), "high": max(self.values)}
        if self.kind == "category":
            bounds = {"values": tuple(int(v) for v in self.values)}
        elif self.kind == "boolean":
            bounds = {}
        return du.Feature(self.name, self.kind, mutable=self.mutable, missing=self.missing,
                          fill=self.fill, hide=self.hide, **bounds)  # fmt: skip

    def price(self, was: float, now: float, p: float) -> float | None:
        """What a change adds to the p-th power of the distance; None: not allowed."""
        there, here = not math.isnan(was), not math.isnan(now)
        if (there, here) == (False, False) or was == now:
            return 0.0
        if not self.mutable:
            return None
        if there != here:
            size = self.hide if there else self.fill
            return None if size is None else 1.0 if p == 0 else size if p == math.inf else size**p
        if p == 0:
            return 1.0
        if self.kind == "category":
            return 1.0 if p == math.inf else 2.0
        share = abs(now - was) / (max(self.values) - min(self.values))
        return share if p == math.inf else share**p


@dataclass(frozen=True)
class Table:
    """Columns, a relation, a norm and its size."""

    columns: tuple[Column, ...]
    relation: str
    p: float
    eps: float

    def schema(self) -> Any:
        return du.Schema([c.feature() for c in self.columns], RELATIONS[self.relation][0])

    def holds(self, record: Record) -> bool:
        return RELATIONS[self.relation][1](*record) is not False

    def near(self, row: Record, r: random.Random, most: int) -> np.ndarray:
        """Valid records within eps of a row: all of a grid, or `most` drawn from it."""
        each = []
        for column, was in zip(self.columns, row, strict=True):
            values = set(column.values)
            if column.kind == "real":
                width = max(column.values) - min(column.values)
                reach = self.eps * width * (1 - 1e-9)
                if not math.isnan(was) and self.p != 0:
                    values |= {was - reach, was + reach, was - reach / 2, was + reach / 2}
                values |= {r.uniform(min(column.values), max(column.values)) for _ in range(3)}
                values = {v for v in values if min(column.values) <= v <= max(column.values)}
            choices = [*values, was, *([NAN] if column.missing else [])]
            priced = [(v, column.price(was, v, self.p)) for v in dict.fromkeys(choices)]
            bound = self.eps if self.p in (0, math.inf) else self.eps**self.p
            each.append([(v, c) for v, c in priced if c is not None and c <= bound])
        count = math.prod(map(len, each))
        cells = itertools.product(*each) if count <= most else (
            tuple(r.choice(e) if r.random() < 0.6 else min(e, key=lambda o: o[1]) for e in each)
            for _ in range(most))  # fmt: skip
        bound = (self.eps if self.p in (0, math.inf) else self.eps**self.p) * (1 - 1e-9)
        bound = self.eps if self.p == 0 else bound
        found = []
        for cell in cells:
            costs = [c for _, c in cell]
            size = max(costs) if self.p == math.inf else sum(costs)
            record = tuple(v for v, _ in cell)
            if size <= bound and self.holds(record):
                found.append(record)
        return np.array(found).reshape(-1, len(self.columns))


def drawn(r: random.Random, gaps: bool = True) -> Table:
    columns = []
    real = tuple(sorted(round(r.uniform(0, 6), 4) for _ in range(9)))
    for name, kind, values in (
        ("a", "integer", tuple(range(r.choice([4, 6])))), ("b", "integer", tuple(range(5))),
        ("c", "category", (0, 1, 2)), ("d", "boolean", (0, 1)), ("e", "real", real),
    ):  # fmt: skip
        missing = gaps and name != "d" and r.random() < 0.6
        prices = {"fill": r.choice([None, 0.4]), "hide": r.choice([None, 0.4])} if missing else {}
        columns.append(Column(name, kind, tuple(map(float, values)), r.random() < 0.85, missing,
                              **prices))  # fmt: skip
    p, eps = r.choice([(0.0, 1.0), (0.0, 1.0), (0.0, 2.0), (1.0, 0.21), (1.0, 0.3), (1.0, 0.8),
                       (2.0, 0.21), (2.0, 0.3), (2.0, 0.6), (2.0, 1.45), (math.inf, 0.08),
                       (math.inf, 0.21), (math.inf, 0.26), (math.inf, 1.0)])  # fmt: skip
    return Table(tuple(columns), r.choice(list(RELATIONS)), p, eps)


def rows(table: Table, n: int, seed: int, classes: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Valid records and labels that depend on all columns, with noise."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({c.name: rng.choice(c.values, 3 * n) for c in table.columns})
    score = frame.b + 2 * frame.d + 2 * (frame.c == 1) - frame.a + 0.6 * frame.e
    score = score + rng.normal(0, 0.7, len(frame))
    for column in table.columns:
        if column.missing:
            frame.loc[rng.random(len(frame)) < 0.3, column.name] = NAN
    fine = [table.holds(tuple(row)) for row in frame.to_numpy()]
    frame, score = frame[fine][:n].reset_index(drop=True), score[fine][:n]
    cut = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
    return frame, np.digitize(score, cut)
