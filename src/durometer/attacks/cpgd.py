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
    """`steps` steps on the published schedule of `decays` decades, or all `step * eps` long.

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
        """The length of each step, in units of eps."""
        if self.step is not None:
            return [self.step] * self.steps
        every = max(1, self.steps // self.decays)
        return [10.0 ** -(1 + k // every) for k in range(self.steps)]

    def __call__(self, problem: Problem) -> None:
        if not self.repair:
            problem = without_repair(problem)
        rows = problem.open
        climb(problem, rows, start(problem, rows, self.start), map(along, self.lengths()))
