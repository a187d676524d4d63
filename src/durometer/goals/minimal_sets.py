"""Any wish about who passes for whom, as the sets of impersonations that grant it.

Lin et al. (NDSS 2024, II-C) let the attacker want a *family* of relations: it wins when the pairs
(source, target) that it reaches hold one of them. A rule given as a function of the reached pairs
is turned into the smallest sets that fill it, so that a report keeps plain data and computes the
same figure after it is loaded. They are found without trying all 2^N sets of pairs:

    known  = smallest sets found so far
    h      = a smallest set of pairs that meets each of them (a transversal; Berge's multiplication)
    if all pairs but h fill the rule, shrink them: a set that was not known
    if no h gives one, there are no others

The last line is a proof: a set that fills the rule and holds no known one misses at least one pair
of each, so it is a part of "all but h" for some h.

What a reader would get wrong: the rule must not turn false by one pair more (who can pass for
more people need not do so). That is tried on random sets, and refused where it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError

Filled = Callable[[frozenset[Any]], bool]
_MOST = 20_000  # transversals: beyond, a rule has too many ways to be written down
_CHAINS = 200


def ways(
    filled: Filled | Sequence[Sequence[Any]], sources: Sequence[Any], targets: Sequence[Any]
) -> list[list[tuple[int, int]]]:
    """The smallest sets that fill a rule, as places (source, target); given as such, checked."""
    pairs = [(s, t) for s in sources for t in targets]
    width = len(targets)
    if callable(filled):
        rule = filled

        def ask(places: frozenset[int]) -> bool:
            return bool(rule(frozenset(pairs[p] for p in places)))

        masks = minimal(ask, len(pairs))
    else:
        place = {pair: k for k, pair in enumerate(pairs)}
        masks = _smallest([sum({1 << _place(pair, place) for pair in way}) for way in filled])
    return [[divmod(p, width) for p in _bits(m)] for m in masks]


def minimal(filled: Callable[[frozenset[int]], bool], count: int) -> list[int]:
    """The smallest sets of the places 0..count-1 that fill a rule, as the bits of numbers."""

    def ask(mask: int) -> bool:
        return filled(frozenset(_bits(mask)))

    every = (1 << count) - 1
    if not ask(every):
        raise DurometerError(
            "Quota(filled=): the rule is never filled, not even by all pairs together"
        )
    if ask(0):
        raise DurometerError("Quota(filled=): the rule is filled without any impersonation")
    _check_grows(ask, count)
    known: list[int] = []
    transversals, barren = {0}, set[int]()
    while fresh := transversals - barren:
        rest = every & ~min(fresh)
        if not ask(rest):
            barren.add(every & ~rest)
            continue
        for bit in _bits(rest):
            if ask(rest & ~(1 << bit)):
                rest &= ~(1 << bit)
        known.append(rest)
        transversals = _meeting(transversals, rest)
        if len(transversals) > _MOST:
            raise DurometerError(
                f"Quota(filled=): this rule of {count} pairs has too many ways to be filled; name "
                "fewer sources or targets, or say it by k=, reuse= and managers="
            )
    return sorted(known)


def _meeting(transversals: set[int], way: int) -> set[int]:
    """The smallest sets that meet one way more."""
    kept = [h for h in transversals if h & way]
    grown = {h | 1 << b for h in transversals if not h & way for b in _bits(way)}
    return {*kept, *(g for g in grown if not any(k & ~g == 0 for k in kept))}


def _check_grows(ask: Callable[[int], bool], count: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(_CHAINS):
        mask, was = 0, False
        for bit in rng.permutation(count)[:24]:
            mask |= 1 << int(bit)
            now = ask(mask)
            if was and not now:
                raise DurometerError(
                    "Quota(filled=): one pair more turns the rule false; an attacker who can pass "
                    "for more people need not do so: say what is enough (>=), not what is exact"
                )
            was = now


def _smallest(masks: list[int]) -> list[int]:
    if not masks or 0 in masks:
        raise DurometerError("Quota(filled=): expected lists of pairs, none of them empty")
    found = set(masks)
    return sorted(m for m in found if not any(o != m and o & ~m == 0 for o in found))


def _place(pair: Any, place: dict[tuple[Any, Any], int]) -> int:
    key = tuple(pair) if isinstance(pair, list | tuple) else pair
    if key not in place:
        raise DurometerError(f"Quota(filled=): {key!r} is no pair of a source and a target")
    return place[key]


def _bits(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
