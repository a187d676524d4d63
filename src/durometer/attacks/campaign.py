"""Campaign: who tries to pass for whom, in which order, until the quota is filled.

Lin et al. (NDSS 2024, III-B): an attempt is one targeted attack of one attacker x on one target t.
An order (`ByMD`, `ByPrior`, ...) scores every pair; the campaign makes attempts from the most
promising pair on, and never one that cannot help any more:

    reuse       a target that is hit already; a non-manager when all open places are for managers
    no reuse    a pair that would not lengthen the matching is put off until no other is left,
                and dropped when it cannot reach an augmenting path
    filled=     a pair of which every set (`goals/family.py`) has failed already elsewhere

`replay` plays this against the pairwise table of a finished run, so that orders can be compared
without running any attack again.

What a reader would get wrong: without reuse, a hit that does not help *now* may help later (two
attempts may be needed to lengthen the matching by one). Hence "put off", not "dropped".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from durometer.attacks.base import Attack, label, run
from durometer.attacks.orders import ByMD, Order
from durometer.core.errors import Unsupported
from durometer.core.spec import QuotaRule
from durometer.core.validation import noun
from durometer.goals.coalition_probability import Pairs
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem


@noun
class Campaign:
    """The attack for a `Quota`: which attacker tries which target, in which order (Lin et al., NDSS
    2024, III-B).

    All pairs of the data are attacked, so that the robustness over all bands is exact; the report
    then counts the attempts that drawn bands need in this order and in a random one.

    Args:
        attack: The attack of one pair.
        order: Which pair to try first; see `orders`. Default: `ByMD(1)`.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> vault = du.Quota(k=1, sources=[0, 1], targets=[2])
    >>> report = du.evaluate(
    ...     net, data, space=du.Linf(0.1), goal=vault, attack=du.Campaign(du.PGD(5))
    ... )
    >>> round(report.metric("robust").value, 2)
    0.6
    """

    attack: Attack
    order: Order = field(default=ByMD(1))

    @property
    def for_other_goals(self) -> Attack:
        """The attack alone, for goals without pairs."""
        return self.attack

    @property
    def name(self) -> str:
        """The name in the records: that of the attack."""
        return label(self.attack)

    @property
    def needs(self) -> Needs:
        return self.attack.needs | self.order.wants

    def __call__(self, problem: Problem) -> None:
        if bool((problem.targets.sum(1) > 1).any()):
            raise Unsupported(
                "Campaign orders the pairs of a Quota, but this goal has rows with several "
                "targets; use Guess(attack, order=...) there, or goal=du.Quota(...)"
            )
        scores = self.order.scores(problem).double()
        at = problem.targets.int().argmax(1, keepdim=True)
        problem.set_priority(scores.gather(1, at)[:, 0])
        run(
            self.attack, problem.aim(loss="md")
        )  # the published loss, unless the attack has its own


def prior(pairs: Pairs, count: int) -> NDArray[np.float64]:
    """(C, C): share of the inputs of s that reached t, from a run on validation data."""
    matrix = np.zeros((count, count))
    for s in np.unique(pairs.source):
        matrix[s, list(pairs.targets)] = pairs.hits[pairs.source == s].mean(0)
    return matrix


def bands(pairs: Pairs, rule: QuotaRule, count: int, seed: int = 0) -> Iterator[NDArray[np.int64]]:
    """`count` bands: places in the table of one input for each source."""
    rng = np.random.default_rng(seed)
    members = [np.flatnonzero(pairs.source == s) for s in rule.sources]
    for _ in range(count):
        yield np.array([rng.choice(m) for m in members if len(m)])


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended: the attempts made, and whether the quota was filled."""

    attempts: int
    filled: bool


def replay(
    pairs: Pairs, rule: QuotaRule, band: NDArray[np.int64], scores: NDArray[np.float64]
) -> Outcome:
    """One campaign of `band` against the table; `scores` (n, T) say what is tried first."""
    hits = pairs.hits[band]
    order = np.argsort(scores[band], axis=None, kind="stable")
    width = hits.shape[1]
    untried = [(int(p) // width, int(p) % width) for p in order]
    if rule.filled:
        return _replay_sets(untried, hits, _sets(pairs, rule, band))
    managers = {pairs.targets.index(c) for c in rule.managers}
    k, least = rule.k, rule.least
    found: list[set[int]] = [set() for _ in band]
    reuse, attempts = rule.reuse, 0
    state = _Standing(found, width, reuse, managers)
    while not (state.all.rank >= k and state.managers.rank >= least):
        pair = _next(untried, state, k, least)
        if pair is None:
            return Outcome(attempts, False)
        untried.remove(pair)
        attempts += 1
        if hits[pair]:
            found[pair[0]].add(pair[1])
            state = _Standing(found, width, reuse, managers)
    return Outcome(attempts, True)


def _sets(pairs: Pairs, rule: QuotaRule, band: NDArray[np.int64]) -> list[set[tuple[int, int]]]:
    """The sets of pairs of which one is enough, as places in the band's table of hits."""
    member = {int(s): i for i, s in enumerate(pairs.source[band])}
    return [
        {(member[s], pairs.targets.index(t)) for s, t in way}
        for way in rule.filled or ()
        if all(s in member for s, _ in way)
    ]


def _replay_sets(
    untried: list[tuple[int, int]], hits: NDArray[np.bool_], left: list[set[tuple[int, int]]]
) -> Outcome:
    """Attempts in order, none of them on a pair that only sets want which are barred."""
    found: set[tuple[int, int]] = set()
    attempts = 0
    for pair in untried:
        if not any(pair in way for way in left):
            continue
        attempts += 1
        if not hits[pair]:
            left = [way for way in left if pair not in way]
            continue
        found.add(pair)
        if any(way <= found for way in left):
            return Outcome(attempts, True)
    return Outcome(attempts, False)


def _next(
    untried: list[tuple[int, int]], state: _Standing, k: int, least: int
) -> tuple[int, int] | None:
    """The most promising pair that can help; None if the quota is out of reach."""
    places, chairs = k - state.all.rank, least - state.managers.rank
    wanted = [g for g, missing in ((state.all, places), (state.managers, chairs)) if missing > 0]
    for graph in wanted:
        if not any(graph.now(*pair) or graph.later(*pair) for pair in untried):
            return None
    if chairs > 0 and places <= chairs:
        wanted = [state.managers]  # every place left must go to a manager
    for helps in ("now", "later"):
        for pair in untried:
            if any(getattr(graph, helps)(*pair) for graph in wanted):
                return pair
    return None


class _Standing:
    """What has been found so far, as a matching on all targets and one on the managers."""

    def __init__(self, found: list[set[int]], width: int, reuse: bool, managers: set[int]) -> None:
        kind = _Union if reuse else _Matching
        self.all = kind(found, set(range(width)))
        self.managers = kind(found, managers)


class _Union:
    """With reuse: a target counts once, whoever passes for it."""

    def __init__(self, found: list[set[int]], targets: set[int]) -> None:
        self.open = targets - set().union(*found)
        self.rank = len(targets) - len(self.open)

    def now(self, x: int, t: int) -> bool:
        return t in self.open

    def later(self, x: int, t: int) -> bool:
        return False


class _Matching:
    """Without reuse: a maximum matching, and what alternating paths reach from its free ends."""

    def __init__(self, found: list[set[int]], targets: set[int]) -> None:
        self.targets = targets
        edges = [f & targets for f in found]
        holder: dict[int, int] = {}  # target -> attacker

        def place(x: int, seen: set[int]) -> bool:
            for t in edges[x]:
                if t in seen:
                    continue
                seen.add(t)
                if t not in holder or place(holder[t], seen):
                    holder[t] = x
                    return True
            return False

        self.rank = sum(place(x, set()) for x in range(len(edges)))
        # Attackers that some maximum matching leaves free, and targets likewise.
        free = set(range(len(edges))) - set(holder.values())
        while extra := {holder[t] for x in free for t in edges[x] if t in holder} - free:
            free |= extra
        loose = targets - set(holder)
        while extra := {t for t, x in holder.items() if t not in loose and edges[x] & loose}:
            loose |= extra
        self.free, self.loose = free, loose

    def now(self, x: int, t: int) -> bool:
        """A hit would lengthen the matching at once."""
        return t in self.targets and x in self.free and t in self.loose

    def later(self, x: int, t: int) -> bool:
        """A hit would bring an augmenting path nearer."""
        return t in self.targets and (x in self.free or t in self.loose)


def rank_pairs(pairs: Pairs, seed: int | None = None, P: object = None) -> NDArray[np.float64]:
    """Scores to replay with: those of the run; random with a `seed`; times (1 - P) with a prior."""
    if seed is not None:
        return np.random.default_rng(seed).random(pairs.hits.shape)
    if P is None:
        return pairs.scores
    matrix = torch.as_tensor(P).numpy()
    weighted: NDArray[np.float64] = pairs.scores * (
        1 - matrix[pairs.source][:, list(pairs.targets)]
    )
    return weighted
