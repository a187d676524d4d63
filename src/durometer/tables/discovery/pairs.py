"""Relations between two columns that the data supports: orders, conditional zeros, copies.

One test for all of them: a relation is worth proposing if the rows almost never break it, but would
break it often were the columns unrelated. The second count (`chance`) comes from the same table
with every column shuffled by itself. So `clicks <= income` is not proposed, though it holds
everywhere: shuffled it holds too.

Counting is vectorised over all pairs of columns: 756 columns make 571,536 pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats
from durometer.relations.expression import Column, Relation
from durometer.relations.language import F, implies

Counts = NDArray[np.float64] | NDArray[np.int64]
RARE = 0.05  # of what chance would break
RARER = 0.01  # for orders, of which so many pairs are tried


def tokens(name: str) -> tuple[str, ...]:
    """The words of a column's name."""
    return tuple(name.replace("-", "_").replace(" ", "_").split("_"))


@dataclass(frozen=True)
class Candidate:
    """A relation, the rows that break it, and those that would if its columns were unrelated."""

    relation: Relation
    kind: str
    names: tuple[str, ...]
    support: float
    broken: int = 0


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows the search looks at, (n, d), and how many of them a relation may break."""

    names: tuple[str, ...]
    x: Floats
    exceptions: int
    least: float = 10.0  # rows that chance must break before their not breaking says anything

    @cached_property
    def shuffled(self) -> Floats:
        """(n, d): the same columns, each shuffled by itself."""
        rng = np.random.default_rng(0)
        return np.stack([rng.permutation(column) for column in self.x.T], axis=1)

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """(d,): columns that never vary."""
        return np.asarray(np.ptp(self.x, axis=0) == 0)

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """(d,): columns of whole numbers."""
        return np.asarray((self.x == np.rint(self.x)).all(0))

    @cached_property
    def above(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(d, d): in how many rows is column a above column b; and by chance?"""
        return _above(self.x, self.x), _above(self.x, self.shuffled)

    @cached_property
    def alone(self) -> tuple[NDArray[np.int64], Floats]:
        """(d, d): in how many rows is a above zero and b zero; and by chance?"""
        on = (self.x != 0).astype(np.float32)
        n = len(on)
        count = np.rint(on.T @ (1 - on)).astype(np.int64)
        return count, on.sum(0)[:, None] * (1 - on.sum(0)[None] / n).astype(np.float64)

    def of(self, i: int | np.integer[Any]) -> Column:
        """The column in a relation."""
        return F[self.names[i]]

    def rules(self, breaking: Counts, chance: Counts, share: float = RARE) -> NDArray[np.bool_]:
        """Is it broken rarely, and would chance break it often?"""
        rare = (breaking <= self.exceptions) & (breaking <= share * chance)
        return np.asarray(rare & (chance >= self.least))


def _above(x: Floats, y: Floats) -> NDArray[np.int64]:
    slack = 1e-9 * np.maximum(1.0, np.abs(y))
    limit = y + slack
    return np.stack([(x[:, a, None] > limit).sum(0) for a in range(x.shape[1])])


def copies(t: Sample) -> list[Candidate]:
    """a == b, for columns that are copies (each with the first of its kind)."""
    above, chance = t.above
    differ = above + above.T
    same = t.rules(differ, chance + chance.T) & ~t.constant[:, None] & ~t.constant[None]
    found = []
    for b in range(len(t.names)):
        firsts = np.flatnonzero(same[:b, b])
        if len(firsts):
            a = int(firsts[0])
            by_chance = int(chance[a, b] + chance[b, a])
            pair = (t.names[a], t.names[b])
            found.append(Candidate(t.of(b) == t.of(a), "copy", pair, by_chance))
    return found


def orders(t: Sample, skip: NDArray[np.bool_]) -> tuple[list[Candidate], NDArray[np.bool_]]:
    """a <= b, without those that follow from two others; and (d, d) of all that hold."""
    above, chance = t.above
    holds = t.rules(above, chance, RARER) & ~skip[:, None] & ~skip[None]
    holds &= ~holds.T  # copies: an equality, not two orders
    shortest = holds & ~_follows(holds)
    found = [
        Candidate(t.of(a) <= t.of(b), "order", (t.names[a], t.names[b]), float(chance[a, b]))
        for a, b in np.argwhere(shortest).tolist()
    ]
    return found, holds


def conditions(t: Sample, skip: NDArray[np.bool_], ordered: NDArray[np.bool_]) -> list[Candidate]:
    """If a > 0 then b > 0, for columns that are never negative and often 0, unless ordered."""
    alone, chance = t.alone
    unfit = skip | (t.x.min(0) < 0) | t.constant
    holds = t.rules(alone, chance) & ~unfit[:, None] & ~unfit[None]
    np.fill_diagonal(holds, False)
    both = holds & holds.T
    leader = np.where(both.any(1), np.argmax(both | np.eye(len(both), dtype=bool), axis=1), -1)
    first = leader == np.arange(len(leader))
    plain = (leader < 0) | first
    # Columns that are zero together: each is tied to the first, and only that one to others.
    between = holds & plain[:, None] & plain[None] & ~both
    keep = between & ~_follows(between)
    for i in np.flatnonzero((leader >= 0) & ~first):
        keep[i, leader[i]] = keep[leader[i], i] = True
    # An order to a column that can be zero says as much: b = 0 forces a <= 0.
    keep &= ~ordered
    return [
        Candidate(
            implies(t.of(a) > 0, t.of(b) > 0),
            "condition",
            (t.names[a], t.names[b]),
            float(chance[a, b]),
        )
        for a, b in np.argwhere(keep).tolist()
    ]


def few_values(t: Sample, skip: NDArray[np.bool_], most: int = 6) -> list[Candidate]:
    """a in {..}, for whole columns with a few values that leave gaps between them."""
    found = []
    for i in np.flatnonzero(t.whole & ~skip & ~t.constant):
        values, counts = np.unique(t.x[:, i], return_counts=True)
        gaps = np.diff(values) > 1
        if 2 <= len(values) <= most and gaps.any() and counts.min() >= t.least:
            among = t.of(int(i)).isin(values.tolist())
            found.append(Candidate(among, "membership", (t.names[i],), float(len(t.x))))
    return found


def _follows(holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(d, d): does a lead to b over some third column?"""
    wide = holds.astype(np.float32)
    return np.asarray(wide @ wide > 0)
