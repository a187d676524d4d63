"""Balance: make broken linear relations hold by distributing what they are off over their features.

A sum that is off by r gets r distributed over its mutable features, within their bounds, by least
squares in scaled units: q_i = min(l * (c_i w_i)^2, room_i), with the l that makes them add up to r.
Whole features take whole parts; the remainder goes to whoever has room. Features that no other
relation names come first, those of another equality last. A sum whose features have not enough room
together is left as it is: half a repair helps nobody. Of "this or that" the cheaper part is
balanced, else the next that can be.

Each record is worked on by itself, relation after relation, because each repair must see the ones
before it; so this is compiled code (numba) and not tensors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from assay.kernels.compile import inline_kernel, kernel
from assay.relations.expression import Compare
from assay.relations.normal_form import Layout, is_whole, linear

_STUBBORN = 4
_SWEEPS = 20  # over the relations whose features have moved; most rows need two or three
# The share of features that other relations name too: moving them may break those, an inequality
# perhaps, another sum for certain.
_SHARED, _SUMMED = 1e-6, 1e-12


@dataclass(frozen=True, eq=False)
class Balance:
    """Clauses of linear branches as flat arrays: sum_i weight_i * x[place_i] + start <= or == 0."""

    clauses: np.ndarray  # (c + 1,) first branch of each clause
    branches: np.ndarray  # (b + 1,) first term of each branch
    places: np.ndarray  # (t,) positions in the record
    weights: np.ndarray  # (t,)
    past: np.ndarray  # (t,) bool: the value in the clean record
    starts: np.ndarray  # (b,)
    both: np.ndarray  # (b,) bool: equality
    goals: np.ndarray  # (b,) how far below 0 a strict inequality must get
    slacks: np.ndarray  # (b,) the relation's own tolerance, or NaN
    exact: np.ndarray  # (b,) bool: only whole numbers occur
    norms: np.ndarray  # (b,) what the sum changes by when its features cross their ranges
    shares: np.ndarray  # (t,) (weight * width)^2, little for features of several relations
    free: np.ndarray  # (t,) bool
    whole: np.ndarray  # (t,) bool
    named: np.ndarray  # (d + 1,) first entry in `naming` of each feature
    naming: np.ndarray  # clauses in which each feature occurs

    def __len__(self) -> int:
        return len(self.clauses) - 1

    def __call__(
        self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float
    ) -> Tensor:
        """(n, d) the records, as far as possible balanced; x is left as it is."""
        out = np.array(x.numpy(), order="C")
        _balance(
            out, x0.numpy(), low.numpy(), high.numpy(), tolerance,
            self.clauses, self.branches, self.places, self.weights, self.past, self.starts,
            self.both, self.goals, self.slacks, self.exact, self.norms, self.shares, self.free,
            self.whole,            self.named, self.naming,
        )  # fmt: skip
        return torch.from_numpy(out)

    def sums(self) -> list[tuple[Tensor, Tensor]]:
        """Positions and weights of each equality that must hold in any case."""
        found = []
        for c in range(len(self)):
            b = self.clauses[c]
            if self.clauses[c + 1] - b == 1 and self.both[b]:
                at = slice(self.branches[b], self.branches[b + 1])
                now = ~self.past[at]
                found.append(
                    (
                        torch.from_numpy(self.places[at][now]),
                        torch.from_numpy(self.weights[at][now]),
                    )
                )
        return found

    @staticmethod
    def of(clauses: Sequence[tuple[Compare, ...]], layout: Layout, mutable: Tensor) -> Balance:
        """Flatten clauses of linear comparisons."""
        forms = [[_terms(r) for r in clause] for clause in clauses]
        named = [{n for terms, _ in clause for n, was, _ in terms if not was} for clause in forms]
        mentions = Counter(n for names in named for n in names)
        sums = Counter(
            n
            for names, clause in zip(named, clauses, strict=True)
            if _is_sum(clause)
            for n in names
        )
        flat = [branch for clause in forms for branch in clause]
        rels = [r for clause in clauses for r in clause]
        terms = [t for ts, _ in flat for t in ts]
        exact = [is_whole(r.left, layout) and is_whole(r.right, layout) for r in rels]
        goals = [
            0.0 if r.op != "<" else 1.0 if e else 1e-12 for r, e in zip(rels, exact, strict=True)
        ]
        slacks = [math.nan if r.tolerance is None else r.tolerance for r in rels]
        width = {n: layout.width(n) for n in layout.ranges}
        touched: dict[str, list[int]] = {n: [] for n in layout.ranges}
        for c, names in enumerate(named):
            for n in sorted(names):
                touched[n].append(c)
        places = np.array([layout.place[n] for n, _, _ in terms], dtype=np.int64)
        spread = np.array([(w * width[n]) ** 2 for n, _, w in terms])
        ease = np.array(
            [
                _SUMMED if sums[n] > _is_sum(clause) else _SHARED if mentions[n] > 1 else 1.0
                for clause, form in zip(clauses, forms, strict=True)
                for ts, _ in form
                for n, _, _ in ts
            ]
        )
        past = np.array([was for _, was, _ in terms], dtype=np.bool_)
        return Balance(
            _starts([len(c) for c in clauses]),
            _starts([len(ts) for ts, _ in flat]),
            places,
            np.array([w for _, _, w in terms], dtype=np.float64),
            past,
            np.array([start for _, start in flat], dtype=np.float64),
            np.array([r.op == "==" for r in rels], dtype=np.bool_),
            np.array(goals),
            np.array(slacks, dtype=np.float64),
            np.array(exact, dtype=np.bool_),
            np.array(
                [
                    math.hypot(*(w * width[n] for n, was, w in ts if not was)) or 1.0
                    for ts, _ in flat
                ]
            ),
            spread * ease,
            mutable.numpy()[places] & ~past if len(places) else past,
            np.array([n in layout.whole for n, _, _ in terms], dtype=np.bool_),
            _starts([len(touched[n]) for n in layout.ranges]),
            np.array([c for n in layout.ranges for c in touched[n]], dtype=np.int64),
        )  # fmt: skip


def _is_sum(clause: tuple[Compare, ...]) -> bool:
    return len(clause) == 1 and clause[0].op == "=="


def _starts(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _terms(r: Compare) -> tuple[list[tuple[str, bool, float]], float]:
    form = linear(r.left - r.right)
    assert form is not None
    return [(name, was, w) for (name, was), w in form[0].items() if w != 0], form[1]


@inline_kernel
def _excess(  # type: ignore[no-untyped-def]
    row,
    x,
    x0,
    b,
    tolerance,
    branches,
    places,
    weights,
    past,
    starts,
    both,
    goals,
    slacks,
    exact,
    norms,
):
    """How much the branch must fall (an equality: change); 0 where it holds."""
    value, size = starts[b], min(1.0, norms[b])
    for t in range(branches[b], branches[b + 1]):
        term = weights[t] * (x0[row, places[t]] if past[t] else x[row, places[t]])
        value += term
        size = max(size, abs(term))
    # Half the tolerance of the check: what is repaired must hold beyond doubt.
    slack = 0.5 * tolerance * size
    if exact[b]:
        slack = min(slack, 0.4)
    if not math.isnan(slacks[b]):
        slack = 0.99 * slacks[b]
    if goals[b] > 0:
        excess = value + max(goals[b], 4 * slack)
        return excess if excess > 0 else 0.0
    if both[b]:
        return value if abs(value) > slack else 0.0
    return value if value > slack else 0.0


@kernel
def _spread(  # type: ignore[no-untyped-def]
    row, x, low, high, first, last, amount, places, weights, shares, free, whole, room, take
):
    """Take `amount` off the sum; False, and nothing changed, where there is no room for it."""
    need, total = abs(amount), 0.0
    for t in range(first, last):
        i, place = t - first, places[t]
        gap = 0.0
        if free[t]:
            down = weights[t] * amount > 0
            gap = x[row, place] - low[row, place] if down else high[row, place] - x[row, place]
            gap = max(gap, 0.0)
            if whole[t]:
                gap = math.floor(gap + 1e-9)
        room[i] = gap * abs(weights[t])
        take[i] = 0.0
        total += room[i]
    if total < need * (1 - 1e-12):
        return False
    left = need
    for _ in range(30):
        share = 0.0
        for t in range(first, last):
            if take[t - first] < room[t - first]:
                share += shares[t]
        if share <= 0 or left <= 1e-12 * need:
            break
        factor, left = left / share, need
        for t in range(first, last):
            i = t - first
            if take[i] < room[i]:
                take[i] = min(room[i], take[i] + factor * shares[t])
            left -= take[i]
    left = need
    for t in range(first, last):
        i = t - first
        if whole[t]:
            take[i] = math.floor(take[i] / abs(weights[t]) + 1e-9) * abs(weights[t])
        left -= take[i]
    # What flooring left over: real features take any part, whole ones whole units.
    for fraction in (True, False):
        for t in range(first, last):
            i = t - first
            if left > 0 and whole[t] != fraction:
                more = min(left, room[i] - take[i])
                if whole[t]:
                    more = math.floor(more / abs(weights[t]) + 1e-9) * abs(weights[t])
                take[i] += more
                left -= more
    for t in range(first, last):
        change = take[t - first] / abs(weights[t])
        if change > 0:
            if whole[t]:
                change = float(round(change))
            x[row, places[t]] += -change if weights[t] * amount > 0 else change
    return True


@kernel
def _balance(  # type: ignore[no-untyped-def]
    x, x0, low, high, tolerance, clauses, branches, places, weights, past, starts, both,
    goals, slacks, exact, norms, shares, free, whole, named, naming,
):  # fmt: skip
    longest = 1
    for b in range(len(branches) - 1):
        longest = max(longest, branches[b + 1] - branches[b])
    room, take = np.empty(longest), np.empty(longest)
    excess = np.empty(len(starts))
    waiting = np.empty(len(clauses) - 1, dtype=np.bool_)
    for row in range(len(x)):
        waiting[:] = True
        for sweep in range(_SWEEPS):
            moved = False
            for c in range(len(clauses) - 1):
                if not waiting[c]:
                    continue
                waiting[c] = False
                first, last = clauses[c], clauses[c + 1]
                holds = False
                for b in range(first, last):
                    excess[b] = _excess(
                        row, x, x0, b, tolerance, branches, places, weights, past,
                        starts, both, goals, slacks, exact, norms,
                    )  # fmt: skip
                    if excess[b] == 0.0:
                        holds = True
                        break
                if holds:
                    continue
                for _ in range(last - first):
                    best, least = first, math.inf
                    for b in range(first, last):
                        cost = abs(excess[b]) / norms[b]
                        if sweep >= _STUBBORN and cost < math.inf:
                            cost = -cost  # the cheap way was undone by others: now the other one
                        if cost < least:
                            best, least = b, cost
                    if _spread(
                        row, x, low, high, branches[best], branches[best + 1], excess[best],
                        places, weights, shares, free, whole, room, take,
                    ):  # fmt: skip
                        moved = True
                        for t in range(branches[best], branches[best + 1]):
                            if take[t - branches[best]] > 0:
                                for k in range(named[places[t]], named[places[t] + 1]):
                                    waiting[naming[k]] = True
                        break
                    excess[best] = math.inf  # no room there: not again
            if not moved:
                break
