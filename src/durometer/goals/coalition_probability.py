"""Quota: the chance that a band of attackers fills a quota, exactly, over all choices of the band.

A band X has one input of each source class, each drawn uniformly; an input x reaches a set of
targets R(x). With reuse the band passes for the union of its sets; without, for the targets that a
matching can cover, which are the independent sets of a transversal matroid. Both grow input by
input, so one pass over the sources with a table {state: probability} gives the chance, where

    reuse       state = the union so far
    no reuse    state = the bases of the matroid so far:  B' = {B + t : t in R(x) - B}, if not empty

    any wish    state = the sets of pairs (`family.py`) that no input so far has barred

and a state that fills the quota is counted and dropped. Managers need no third case: an independent
set of `least` managers extends to one of size k (matroid exchange), so a quota is filled exactly
when rank(all) >= k and rank(managers) >= least.

What a reader would get wrong: "exact" is about the choice of X among the inputs at hand. The inputs
are themselves a sample, and the interval (`report/figures/groups.py`) is about that. It needs how
much each single input matters: the chance given that the band holds it (`each_input`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.core.spec import QuotaRule
from durometer.goals.quota import AS

State = Any  # bits of targets (reuse), or a frozenset of such: the bases (no reuse); bits of sets
Grow = Callable[[State, int, int], State]  # state, place of the source in the rule, reached targets
Chances = Mapping[int, NDArray[np.float64]]  # of one source: {reached targets: chances}
Choices = Sequence[tuple[int, Chances]]  # for each place in the rule's sources
MOST_STATES = 20_000


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairwise table: which input of which source reaches which target, and its score."""

    ids: NDArray[Any]  # (n,)
    source: NDArray[np.int64]  # (n,): class of each input
    targets: tuple[int, ...]
    hits: NDArray[np.bool_]  # (n, T)
    scores: NDArray[np.float64]  # (n, T): lower is more promising; NaN where there is none

    @classmethod
    def of(cls, columns: Mapping[str, Any], count: int | None = None) -> Pairs:
        """From the records of a run with a `Quota`: inputs that were tried on all their targets.

        The others belong to a run that is not finished; what was not tried is no failure. `count`
        is the number of targets; None: those the records name.
        """
        target = np.asarray(columns["target"])
        rows = np.flatnonzero(target >= 0)
        if not len(rows):
            raise DurometerError("these records hold no pairs: evaluate with goal=du.Quota(...)")
        names = np.array([str(i).rpartition(AS)[0] for i in np.asarray(columns["id"])[rows]])
        ids, first, row = np.unique(names, return_index=True, return_inverse=True)
        targets, column = np.unique(target[rows], return_inverse=True)
        hits = np.zeros((len(ids), len(targets)), bool)
        scores = np.full(hits.shape, np.nan)
        hits[row, column] = np.asarray(columns["success"])[rows]
        scores[row, column] = np.asarray(columns["score"])[rows]
        whole = np.bincount(row) == (len(targets) if count is None else count)
        source = np.asarray(columns["y"])[rows][first]
        return cls(ids[whole], source[whole], tuple(targets.tolist()), hits[whole], scores[whole])

    @property
    def reached(self) -> list[int]:
        """Each input's targets as the bits of a number."""
        return [sum(1 << int(t) for t in np.flatnonzero(row)) for row in self.hits]

    def bits(self, classes: Sequence[int]) -> int:
        """These classes as the bits of a number, in the order of `targets`."""
        return sum(1 << self.targets.index(c) for c in classes)


def chances(
    pairs: Pairs, rule: QuotaRule, *, each_input: bool = False, seed: int = 0
) -> NDArray[np.float64]:
    """(1,): the chance that a band fills the quota; with `each_input` (1 + n,): then the same for
    bands that hold each of the inputs, NaN for inputs of no source.

    Exact while the states are few, else by 2,000 bands (200 for each input).
    """
    choices, column = _choices(pairs, rule, each_input)
    grow, filled, start = growth(pairs, rule)
    found = _exact(choices, grow, filled, start, MOST_STATES)
    if found is None:
        found = _sampled(choices, grow, filled, start, seed)
    found = found.clip(0.0, 1.0)  # sums of many chances end up at 1 + 1e-16
    if not each_input:
        return found
    return np.concatenate([found[:1], np.where(column > 0, found[column], np.nan)])


def disjoint(pairs: Pairs, rule: QuotaRule) -> int:
    """How many bands can be formed that share no input: as many as a source's fewest inputs."""
    counts = [int((pairs.source == s).sum()) for s in rule.sources]
    return min(c for c in counts if c)


def growth(pairs: Pairs, rule: QuotaRule) -> tuple[Grow, Callable[[State], bool], State]:
    """How a state grows by an input, when it fills the quota, and where it starts."""
    if rule.filled:
        return _family(pairs, rule)
    k, least, managers = rule.k, rule.least, pairs.bits(rule.managers)
    if rule.reuse:

        def union(state: State, place: int, mask: int) -> State:
            return state | mask

        def enough(state: State) -> bool:
            held = int(state)
            return bool(held.bit_count() >= k and (held & managers).bit_count() >= least)

        return union, enough, 0

    def full(state: State) -> bool:
        return any(b.bit_count() >= k and (b & managers).bit_count() >= least for b in state)

    return (lambda state, place, mask: extend(state, mask, k)), full, frozenset({0})


def _family(pairs: Pairs, rule: QuotaRule) -> tuple[Grow, Callable[[State], bool], State]:
    """A state is the sets of pairs still open, as bits; -1 once one of them is complete."""
    place = {s: i for i, s in enumerate(rule.sources)}
    wants: list[dict[int, int]] = []  # per set: {place of a source: targets it must reach}
    for way in rule.filled or ():
        wants.append({})
        for s, t in way:
            wants[-1][place[s]] = wants[-1].get(place[s], 0) | pairs.bits([t])
    here = {place[s] for s in set(pairs.source.tolist()) & set(rule.sources)}
    start = sum(1 << m for m, want in enumerate(wants) if want.keys() <= here)
    ends = [
        sum(1 << m for m, w in enumerate(wants) if max(w) == i) for i in range(len(rule.sources))
    ]

    @cache
    def open_after(i: int, mask: int) -> int:
        return sum(1 << m for m, want in enumerate(wants) if want.get(i, 0) & ~mask == 0)

    def grow(state: State, i: int, mask: int) -> State:
        left = state & open_after(i, mask)
        return -1 if left & ends[i] else left

    return grow, (lambda state: state == -1), start


def extend(bases: frozenset[int], mask: int, k: int) -> frozenset[int]:
    """Bases (of size <= k) of the matroid with one more input that reaches `mask`."""
    if next(iter(bases)).bit_count() < k:
        grown = frozenset(b | t for b in bases for t in _each(mask & ~b))
        return grown or bases
    # Rank k is all that counts: exchange one element, so that managers can still come in.
    swapped = (b ^ u | t for b in bases for t in _each(mask & ~b) for u in _each(b))
    return bases | frozenset(swapped)


def _each(mask: int) -> list[int]:
    bits = []
    while mask:
        bits.append(mask & -mask)
        mask &= mask - 1
    return bits


def _choices(pairs: Pairs, rule: QuotaRule, each_input: bool) -> tuple[Choices, NDArray[np.int64]]:
    """Per source, the distinct sets its inputs reach, with their chances: in column 0 as they are
    at hand, in each further one with a source's set fixed; and each input's column, (n,)."""
    every = pairs.reached
    column = np.zeros(len(every), dtype=np.int64)
    found: list[tuple[int, list[int], NDArray[np.float64], int]] = []
    width = 1
    for at, s in enumerate(rule.sources):
        inputs = np.flatnonzero(pairs.source == s)
        if not len(inputs):
            continue  # nobody of this class is at hand
        reached = [every[i] for i in inputs]
        kinds = list(Counter(reached))
        place = np.array([kinds.index(r) for r in reached])
        found.append((at, kinds, np.bincount(place) / len(inputs), width))
        if each_input:
            column[inputs] = width + place
            width += len(kinds)
    choices = []
    for at, kinds, share, first in found:
        table = np.repeat(share[:, None], width, axis=1)
        if each_input:
            table[:, first : first + len(kinds)] = np.eye(len(kinds))
        choices.append((at, {m: table[j] for j, m in enumerate(kinds)}))
    return choices, column


def _exact(
    choices: Choices,
    grow: Grow,
    filled: Callable[[State], bool],
    start: State,
    most: int,
) -> NDArray[np.float64] | None:
    """One pass over the sources; None where the states become too many."""
    width = len(next(iter(choices[0][1].values())))
    table: dict[State, NDArray[np.float64]] = {start: np.ones(width)}
    success = np.zeros(width)
    for place, source in choices:
        after: dict[State, NDArray[np.float64]] = {}
        for state, chance in table.items():
            for mask, share in source.items():
                grown = grow(state, place, mask)
                if filled(grown):
                    success = success + chance * share
                elif grown in after:
                    after[grown] += chance * share
                else:
                    after[grown] = chance * share
            if len(after) > most:
                return None
        table = after
    return success


def _sampled(
    choices: Choices,
    grow: Grow,
    filled: Callable[[State], bool],
    start: State,
    seed: int,
) -> NDArray[np.float64]:
    """The share of drawn bands that fill the quota; each band's answer is computed once."""
    rng = np.random.default_rng(seed + 1)
    known: dict[tuple[int, ...], bool] = {}

    def answer(band: tuple[int, ...]) -> bool:
        if band not in known:
            state = start
            for (place, _), mask in zip(choices, band, strict=True):
                state = grow(state, place, mask)
                if filled(state):
                    break
            known[band] = filled(state)
        return known[band]

    width = len(next(iter(choices[0][1].values())))
    shares = []
    for column in range(width):
        size = 2000 if column == 0 else 200
        drawn = [
            rng.choice(list(source), size, p=np.array([v[column] for v in source.values()]))
            for _, source in choices
        ]
        bands = zip(*(d.tolist() for d in drawn), strict=True)
        shares.append(sum(answer(band) for band in bands) / size)
    return np.array(shares)
