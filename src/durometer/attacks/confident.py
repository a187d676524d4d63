"""Confident: 14 runs of PGD, and of what they find the input the model is surest to get wrong.

The attack of Chen et al. 2022 on DENT (A.3): 5 runs at the untargeted CW loss and one at each of
the 9 other classes; of the 14 results the one is taken that maximises max_t P(t), which itself is
too flat to follow. Against a model that will move, the most confident error is the one most likely
to survive: the paper's gain over AutoAttack comes from this, not from the model space.

What a reader would get wrong: each run keeps its best point by its *own* loss; only the winners are
compared by confidence. With several victims both are combined over all of them. Here a targeted run
raises the target above *every* other class, where the paper raises it above the true one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from durometer.attacks.base import label, run
from durometer.attacks.combine import single_targets
from durometer.attacks.pgd import PGD
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

_PGD = PGD(100, step=1 / 8)  # steps of 1/255 for eps = 8/255


@noun
class Confident:
    """Many runs of PGD, of which the success with the highest confidence is kept (Chen et al.,
    2022, A.3).

    Made for test-time defences: the most confident error is the one most likely to survive the
    adaptation. Targeted runs raise the target above every other class, where the paper raises it
    above the true one.

    Args:
        attack: The attack of one run. Default: PGD with 100 steps of eps / 8.
        restarts: Untargeted runs; 5 as published.
        targets: Targeted runs, one at each of the likeliest classes; 9 as published.
        loss: The loss by which the results are compared.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net, data, space=du.Linf(0.1), attack=du.Confident(du.PGD(5), restarts=1)
    ... ).metric("robust").value
    0.25
    """

    attack: Any = _PGD
    restarts: int = 5
    targets: int = 9
    loss: Loss | LossName = "confidence"  # by which the results are compared

    @property
    def needs(self) -> Needs:
        needs: Needs = self.attack.needs
        return needs

    @property
    def name(self) -> str:
        """The name in the records."""
        return f"Confident-{label(self.attack)}"

    def __call__(self, problem: Problem) -> None:
        attack = replace(self.attack, loss="margin")
        aims = [problem.targets] * self.restarts
        aims += list(single_targets(problem, self.targets))
        for targets in aims:
            trial = problem.fork().aim(targets=targets)
            rows = trial.open
            if not len(rows):
                continue
            run(attack, trial, problem.label)
            found = problem.region(rows).encode(trial.kept(rows))
            problem.value(rows, found)
