"""CPGD (Simonetto et al. 2022; CAA paper, eqs. 3-4): PGD on the loss minus the relations' penalty.

    step_k = eps * 10^-(1 + floor(k / floor(K / M))),  M = 7

from the record itself, as published. With K = 10 the steps are eps times 0.1, 0.01, 0.001, ...: all
of them together reach 0.111 eps, which is why CPGD leaves 96-99 % of rows robust. A constant step
(`step=0.4`) makes the same attack about as strong as CAPGD.

What a reader would get wrong: the published code averages the loss over the batch but *adds up* the
penalties, so its direction depends on the batch size. Here both belong to the row.
"""

from __future__ import annotations

from typing import Literal

from durometer.attacks.base import start, without_repair
from durometer.attacks.pgd import along, climb
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem


@noun
class CPGD:
    """Constrained PGD for tables: gradient steps on the loss minus the penalty of broken relations
    (Simonetto et al., 2022).

    With the published schedule, which is the default, the steps shrink tenfold again and again:
    with 10 steps they reach 0.111 eps in all, and 96 to 99 % of the rows stay robust. With
    `step=0.4` the attack is about as strong as `CAPGD`. The published code weighs the penalty by
    the batch size; here loss and penalty belong to the row.

    Args:
        steps: Number of gradient steps.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.
        decays: Number of powers of ten over which the published schedule lets the step shrink.
        step: Length of every step, in units of the region's size. None: the published schedule.
        start: "clean" (the record itself, as published) or "random".
        repair: Whether candidates are repaired to satisfy the relations.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(net, data, space=du.Linf(0.1), attack=du.CPGD(5, step=0.4)).metric(
    ...     "robust"
    ... ).value
    0.3125
    """

    steps: int = 10
    loss: Loss | LossName | None = "ce"
    decays: int = 7
    step: float | None = None
    start: Literal["random", "clean"] = "clean"
    repair: bool = True

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def lengths(self) -> list[float]:
        """The length of each step, in units of the region's size."""
        if self.step is not None:
            return [self.step] * self.steps
        every = max(1, self.steps // self.decays)
        return [10.0 ** -(1 + k // every) for k in range(self.steps)]

    def __call__(self, problem: Problem) -> None:
        if not self.repair:
            problem = without_repair(problem)
        rows = problem.open
        climb(problem, rows, start(problem, rows, self.start), map(along, self.lengths()))
