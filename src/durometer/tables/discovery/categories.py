"""What categories imply, and columns that exclude each other.

    education == 'Bachelors'  implies  education_num == 13    a value of a category fixes another
    gain == 0  or  loss == 0                                  two amounts that never come together

The same test as for pairs of numbers: the rows almost never break it, and would break it often were
the columns unrelated. What chance would break is known without shuffling: the product of shares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats
from durometer.relations.expression import Column, Relation
from durometer.relations.language import implies
from durometer.tables.discovery.pairs import RARE, Candidate, Sample
from durometer.tables.feature import Feature

_VALUES = 60  # of a category: more is a name, not a kind


def implications(t: Sample, features: Sequence[Feature]) -> Iterator[Candidate]:
    """Values of a category that fix the value of another column."""
    for i, f in enumerate(features):
        if f.kind != "category" or len(f.values) > _VALUES:
            continue
        for j, g in enumerate(features):
            if i != j and not g.group and not t.constant[j]:
                yield from _fixed(t, (i, f), (j, g))


def _fixed(t: Sample, one: tuple[int, Feature], other: tuple[int, Feature]) -> Iterator[Candidate]:
    (i, f), (j, g) = one, other
    column: Floats = t.x[:, j]
    for code, value in zip(f.codes, f.values, strict=True):
        rows = t.x[:, i] == code
        if not rows.any():
            continue
        values, counts = np.unique(column[rows], return_counts=True)
        usual = float(values[counts.argmax()])
        broken = int(rows.sum() - counts.max())
        chance = float(rows.sum() * (column != usual).mean())
        if broken <= t.exceptions and chance >= t.least and broken <= RARE * chance:
            then = _equals(g, usual)
            premise = Column(f.name) == value
            yield Candidate(implies(premise, then), "category", (f.name, g.name), chance, broken)


def _equals(f: Feature, code: float) -> Relation:
    value: object = int(code) if code.is_integer() else code
    if f.kind == "category":
        value = f.values[f.codes.index(code)]
    same: Relation = Column(f.name) == value
    return same


def exclusive(t: Sample, skip: NDArray[np.bool_]) -> Iterator[Candidate]:
    """Two amounts, seldom both positive: one of them is 0."""
    some = [
        j for j in range(len(t.names)) if not skip[j] and not t.constant[j] and t.x[:, j].min() == 0
    ]
    on = t.x[:, some] > 0
    both = on.T.astype(float) @ on
    share = on.mean(0)
    for a in range(len(some)):
        for b in range(a + 1, len(some)):
            chance = float(len(t.x) * share[a] * share[b])
            if both[a, b] > min(t.exceptions, RARE * chance) or chance < t.least:
                continue
            one, other = t.names[some[a]], t.names[some[b]]
            either = (Column(one) == 0) | (Column(other) == 0)
            yield Candidate(either, "exclusive", (one, other), chance, int(both[a, b]))
