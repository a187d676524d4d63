"""Quota: K distinct impersonations by a band of sources (group-based robustness, section 3), or any
other wish about who of them passes for whom (`filled=`, `family.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch

from durometer.core.errors import DurometerError
from durometer.core.spec import QuotaRule
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.goals.classes import Targeted
from durometer.goals.goal import Aims, Expandable, Names, class_index
from durometer.goals.minimal_sets import Filled, ways

AS = " as "  # the id of a pair: "s7/8 as s3"


@noun
class Quota(Expandable):
    """A band of attackers, one input of each source class, must together be taken for `k` different
    targets (Lin et al., NDSS 2024).

    Args:
        k: Number of different targets to reach.
        sources: Classes of the attackers, by index or name.
        targets: Classes they want to be taken for; none may be a source.
        reuse: Whether one attacker may be taken for several targets. False: all act at the same
            time, each once.
        managers: Targets of which at least `least` must be reached. Default: none.
        least: How many of the managers must be reached; only with `managers`.
        filled: Any other condition instead of `k`, `reuse`, `managers` and `least`: a function of
            the reached pairs (source, target) that is true where they suffice, or a list of sets of
            pairs of which any one suffices.

    Raises:
        DurometerError: The quota can never be met, or contradicts itself.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> vault = du.Quota(k=1, sources=[0, 1], targets=[2])
    >>> attack = du.Campaign(du.PGD(5))
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), goal=vault, attack=attack)
    >>> round(report.metric("robust").value, 2)
    0.6
    """

    together: ClassVar[bool] = True
    k: int = 1
    sources: Sequence[int | str] = ()
    targets: Sequence[int | str] = ()
    reuse: bool = True
    managers: Sequence[int | str] = ()
    least: int = 1
    filled: Filled | Sequence[Sequence[Any]] | None = None

    @property
    def description(self) -> str:
        """What the attackers want, as a sentence."""
        if self.filled is not None:
            return (
                f"A band of {len(self.sources)}, one input each, wins when who passes for whom of "
                f"{len(self.targets)} targets fills {describe_rule(self.filled)}."
            )
        again = "may be used again" if self.reuse else "is used once"
        return (
            f"A band of {len(self.sources)}, one input each, wins when it passes for {self.k} of "
            f"{len(self.targets)} targets; an attacker {again}."
        )

    def __post_init__(self) -> None:
        for field in ("sources", "targets", "managers"):
            if isinstance(getattr(self, field), int | str):
                raise DurometerError(f"Quota({field}={getattr(self, field)!r}): expected a list")
        self._check(self.sources, self.targets, self.managers)
        if self.filled is not None:
            self._check_rule()

    def _check_rule(self) -> None:
        if self.k != 1 or not self.reuse or self.managers or self.least != 1:
            raise DurometerError(
                f"Quota: filled= says the whole wish; leave k=, reuse=, managers= and least= out; "
                f"got {self!r}"
            )
        if not callable(self.filled):
            if not isinstance(self.filled, list | tuple):
                raise DurometerError(
                    f"Quota(filled={self.filled!r}): expected a function of the reached pairs, or "
                    "a list of sets of pairs"
                )
            ways(self.filled, self.sources, self.targets)

    def _check(
        self, sources: Sequence[Any], targets: Sequence[Any], managers: Sequence[Any]
    ) -> None:
        """Refuse a quota nobody can fill or that contradicts itself."""
        both = set(sources) & set(targets)
        for wrong, text in (
            (not sources or not targets, "name at least one source and target"),
            (
                any(len(set(c)) < len(c) for c in (sources, targets, managers)),
                "a class is named twice",
            ),
            (both, f"class {sorted(both, key=str)} is both a source and a target"),
            (self.k > len(set(targets)), f"k={self.k}: expected 1..the targets"),
            (not self.reuse and self.k > len(set(sources)), f"k={self.k} > the sources"),
            (not set(managers) <= set(targets), "a manager must be a target"),
            (
                managers and self.least > min(self.k, len(set(managers))),
                f"least={self.least}: too many",
            ),
        ):
            if wrong:
                raise DurometerError(f"Quota: {text}; got {self!r}")

    def rule(self, count: int, names: Names = None) -> QuotaRule:
        """The quota in class indices.

        Args:
            count: Number of classes.
            names: Names of the classes. None: the quota must use indices.

        Raises:
            DurometerError: There is no such class, or the quota contradicts itself.
        """
        sources, targets, managers = (
            tuple(class_index(c, count, names) for c in classes)
            for classes in (self.sources, self.targets, self.managers)
        )
        # Once more: a class may be given by its name and by its number.
        self._check(sources, targets, managers)
        least = self.least if self.managers else 0
        rule = QuotaRule(self.k, self.reuse, least, sources, targets, managers)
        if self.filled is None:
            return rule
        sets = tuple(
            tuple((sources[s], targets[t]) for s, t in way)
            for way in ways(self.filled, self.sources, self.targets)
        )
        return replace(rule, k=min(map(len, sets)), filled=sets, wish=describe_rule(self.filled))

    def aims(self, count: int, names: Names = None) -> Aims:
        rule = self.rule(count, names)
        return Aims(tuple(sorted(rule.targets)), rule)

    def expand(self, data: Dataset) -> tuple[Dataset, Targeted]:
        """Every row of a source once per target, then the other rows once.

        Args:
            data: The data set.

        Returns:
            The rows to play, with ids like "7 as 3", and the target of each.

        Raises:
            DurometerError: No row belongs to a source class.
        """
        named = [c for c in (*self.sources, *self.targets) if isinstance(c, int)]
        count = len(data.classes) if data.classes else 1 + max([int(data.y.max()), *named])
        rule = self.rule(count, data.classes)
        wanted = torch.tensor(rule.targets)
        attackers = torch.isin(data.y, torch.tensor(rule.sources))
        if not bool(attackers.any()):
            raise DurometerError(f"no row of this data is of a source class of {self!r}")
        mine, others = attackers.nonzero()[:, 0], (~attackers).nonzero()[:, 0]
        rows = torch.cat([mine.repeat_interleave(len(wanted)), others])
        # A row whose true class is its target has nothing to reach and is left out of the game.
        aims = torch.cat([wanted.repeat(len(mine)), data.y[others]])
        name = data.classes or [str(c) for c in range(count)]
        ids = [str(data.ids[i]) for i in rows.tolist()]
        for k in range(len(mine) * len(wanted)):
            ids[k] += f"{AS}{name[int(aims[k])]}"
        expanded = data.rows(rows, np.array(ids))
        return expanded, Targeted(tuple(aims.tolist()))


def describe_rule(filled: Any) -> str:
    """A rule as a report names it."""
    if callable(filled):
        return f"{getattr(filled, '__name__', type(filled).__name__)}()"
    return f"one of {len(filled)} sets of pairs"
