"""Poison: rows of the attacker's that harm the rows of others, now or in later rounds.

A defender that adapts to a batch is moved by every row of it. The attacker's rows (the game's
`controlled`) climb, through the adaptation, the loss of the rows that are scored:

    ahead = 0   of this batch: distribution invading attacks, DIA (Wu et al. 2023)
    ahead = k   of the round t + k, after k more batches that nobody touches; for want of those the
                clean batch at hand stands in (TePA, Cong et al. 2024; RTTDP, Su et al. 2025)

How far the attacker's own rows may go is the game's space: `Linf(8/255)`, or `Linf(1.0)` for rows
that may be anything. `report.metric("benign")` is the accuracy of the others' rows in attacked
rounds, `"benign_later"` in rounds after them.

What a reader would get wrong: all controlled rows share one number, the harm done, so APGD's step
length is that of the batch. And a defender without `unrolled` has no gradient from one row to
another: there the attack is blind, and the flag `vanishing-gradients` says so.
"""

from __future__ import annotations

from dataclasses import field

from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack, run
from durometer.attacks.transductive.unrolled import through_of
from durometer.core.validation import noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

_INNER = APGD(40)


@noun
class Poison:
    """`inner` climbs the harm done `ahead` rounds from now.

    >>> Poison(ahead=2).name
    'Poison+2'
    """

    inner: Attack = _INNER
    ahead: int = field(default=0, metadata={"least": 0})
    simulations: int | None = None

    @property
    def needs(self) -> Needs:
        return self.inner.needs | Needs(gradient=True, poisons=True)

    @property
    def name(self) -> str:
        """What records call it."""
        return f"Poison+{self.ahead}" if self.ahead else "Poison"

    def __call__(self, problem: Problem) -> None:
        through = through_of(problem, self.simulations, self.ahead)
        trial = problem.against(through)  # type: ignore[arg-type]
        trial.scope = through.rehearsal.controlled
        run(self.inner, trial, self.name)
        through.finish(problem, trial)
