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
another: there a gradient attack is blind, and the flag `vanishing-gradients` says so. A search
inside (`Square`) needs none: it asks the defender anew for every batch it tries.
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
    """Changes the attacker's rows so that the adaptation harms the rows of others, now or in later
    rounds.

    This round: distribution invading attacks (Wu et al., 2023). Later rounds: TePA (Cong et al.,
    2024), RTTDP (Su et al., 2025). The game's `controlled` mask says which rows are the attacker's;
    `report.metric("benign")` is the accuracy of the others.

    Args:
        inner: The attack that climbs the harm; a search such as `Square` where the defender has no
            gradients. Default `APGD(40)`.
        ahead: Rounds between the attack and the harm; 0 is the same batch. The clean batch stands
            in for later ones.
        simulations: Runs of the defender per step. None: 3 where it was found to be random, else 1.
        blind: The attacker does not see the rows of others: clean copies of its own stand in for
            them when it rehearses (the realistic attacker of RTTDP).

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build)
    >>> _ = du.training.fit(model, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> mine = [i % 2 == 0 for i in range(len(data))]
    >>> game = du.Transductive(du.defenses.Norm(model), batch=8, controlled=mine)
    >>> report = du.evaluate(game, data, space=du.Linf(1.0), attack=du.Poison(du.APGD(10)))
    >>> report.metric("clean").value, report.metric("benign").value
    (1.0, 0.625)
    """

    inner: Attack = _INNER
    ahead: int = field(default=0, metadata={"least": 0})
    simulations: int | None = None
    blind: bool = False

    @property
    def needs(self) -> Needs:
        return self.inner.needs | Needs(poisons=True)

    @property
    def name(self) -> str:
        """The name in the records."""
        name = "Poison-blind" if self.blind else "Poison"
        return f"{name}+{self.ahead}" if self.ahead else name

    def __call__(self, problem: Problem) -> None:
        through = through_of(problem, self.simulations, self.ahead, self.blind)
        trial = problem.against(through)  # type: ignore[arg-type]
        trial.scope = through.simulation.controlled
        run(self.inner, trial, self.name)
        through.finish(problem, trial)
