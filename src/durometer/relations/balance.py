"""Balance: make broken linear relations hold by distributing what they are off over their features.

A sum that is off by r gets r distributed over its mutable features, within their bounds, by least
squares in scaled units: q_i = min(l * (c_i w_i)^2, room_i), with the l that makes them add up to r.
Whole features take whole parts; the remainder goes to whoever has room. Features that no other
relation names come first, those of another equality last. A sum whose features have not enough room
together is left as it is: half a repair helps nobody. Of "this or that" the cheaper part is
balanced, else the next that can be.

Each record is worked on by itself, relation after relation, because each repair must see the ones
before it; so this is compiled code (kernels/native/relations/balance.cpp) and not tensors.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.kernels.native import Kernel
from durometer.kernels.native import Layout as Struct
from durometer.kernels.threads import threads_for
from durometer.relations.expression import Compare
from durometer.relations.normal_form import Layout, is_whole, linear

# The share of features that other relations name too: moving them may break those, an inequality
# perhaps, another sum for certain.
_SHARED, _SUMMED = 1e-6, 1e-12

CLAUSES = Struct(
    clause_ends="size",
    branch_ends="size",
    term_count="size",
    branch_count="size",
    feature_ends="size",
    naming_count="size",
    clauses="int64[clause_ends]",
    branches="int64[branch_ends]",
    places="int64[term_count]",
    weights="float64[term_count]",
    past="bool[term_count]",
    starts="float64[branch_count]",
    both="bool[branch_count]",
    goals="float64[branch_count]",
    slacks="float64[branch_count]",
    exact="bool[branch_count]",
    norms="float64[branch_count]",
    shares="float64[term_count]",
    free="bool[term_count]",
    whole="bool[term_count]",
    named="int64[feature_ends]",
    naming="int64[naming_count]",
)
_balance = Kernel(
    "balance",
    clauses=CLAUSES,
    n="size",
    d="size",
    threads="int64",
    tolerance="float64",
    x0="float64[n, d]",
    low="float64[n, d]",
    high="float64[n, d]",
    x="out float64[n, d]",
)


@dataclass(frozen=True, eq=False)
class Flat:
    """Clauses of linear branches: sum_i weight_i * x[place_i] + start <= or == 0."""

    clauses: Ints  # (c + 1,) first branch of each clause
    branches: Ints  # (b + 1,) first term of each branch
    places: Ints  # (t,) positions in the record
    weights: Floats  # (t,)
    past: Bools  # (t,): the value in the clean record
    starts: Floats  # (b,)
    both: Bools  # (b,): equality
    goals: Floats  # (b,) how far below 0 a strict inequality must get
    slacks: Floats  # (b,) the relation's own tolerance, or NaN
    exact: Bools  # (b,): only whole numbers occur
    norms: Floats  # (b,) what the sum changes by when its features cross their ranges
    shares: Floats  # (t,) (weight * width)^2, little for features of several relations
    free: Bools  # (t,)
    whole: Bools  # (t,)
    named: Ints  # (d + 1,) first entry in `naming` of each feature
    naming: Ints  # clauses in which each feature occurs


@dataclass(frozen=True, eq=False)
class Balance:
    """Clauses of linear branches as flat arrays: sum_i weight_i * x[place_i] + start <= or == 0."""

    flat: Flat

    def __len__(self) -> int:
        return len(self.flat.clauses) - 1

    def __call__(
        self, x: Tensor, x0: Tensor, low: Tensor, high: Tensor, tolerance: float
    ) -> Tensor:
        """(n, d) the records, as far as possible balanced; x is left as it is."""
        out = x.clone(memory_format=torch.contiguous_format)
        read = (t.contiguous() for t in (x0, low, high))
        _balance(CLAUSES.pack(self.flat), threads_for(x), tolerance, *read, out)
        return out

    def sums(self) -> list[tuple[Tensor, Tensor]]:
        """Positions and weights of each equality that must hold in any case."""
        found, flat = [], self.flat
        for c in range(len(self)):
            b = flat.clauses[c]
            if flat.clauses[c + 1] - b == 1 and flat.both[b]:
                at = slice(flat.branches[b], flat.branches[b + 1])
                now = ~flat.past[at]
                found.append(
                    (
                        torch.from_numpy(flat.places[at][now]),
                        torch.from_numpy(flat.weights[at][now]),
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
        arrays = Flat(
            clauses=_starts([len(c) for c in clauses]),
            branches=_starts([len(ts) for ts, _ in flat]),
            places=places,
            weights=np.array([w for _, _, w in terms], dtype=np.float64),
            past=past,
            starts=np.array([start for _, start in flat], dtype=np.float64),
            both=np.array([r.op == "==" for r in rels], dtype=np.bool_),
            goals=np.array(goals),
            slacks=np.array(slacks, dtype=np.float64),
            exact=np.array(exact, dtype=np.bool_),
            norms=np.array(
                [
                    math.hypot(*(w * width[n] for n, was, w in ts if not was)) or 1.0
                    for ts, _ in flat
                ]
            ),
            shares=spread * ease,
            free=mutable.numpy()[places] & ~past if len(places) else past,
            whole=np.array([n in layout.whole for n, _, _ in terms], dtype=np.bool_),
            named=_starts([len(touched[n]) for n in layout.ranges]),
            naming=np.array([c for n in layout.ranges for c in touched[n]], dtype=np.int64),
        )
        return Balance(arrays)


def _is_sum(clause: tuple[Compare, ...]) -> bool:
    return len(clause) == 1 and clause[0].op == "=="


def _starts(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _terms(r: Compare) -> tuple[list[tuple[str, bool, float]], float]:
    form = linear(r.left - r.right)
    assert form is not None
    return [(name, was, w) for (name, was), w in form[0].items() if w != 0], form[1]
