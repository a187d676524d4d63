"""CAPGD (Simonetto et al. 2024, section 4, Algorithm 1): Auto-PGD in a table, from two starts.

There is no loop here: CAPGD *is* `APGD` in a table's region. The region brings the repair operator
(in `decode`, so every point ever queried is repaired), the projection and the penalty that eq. 4
takes off the loss. What CAPGD adds is the paper's settings: 10 steps, a first run from the record
itself and a second one from a random point, checkpoints at ceil(p_j * steps); and at a checkpoint
the search stays where it is, where Auto-PGD goes back to its best point (going back costs: on a
TabNet a third more rows stay robust).

What a reader would get wrong: the published code gives back the last misclassified point, valid or
not. Here every point is judged as the record it would be handed in as, so the first *valid* success
of a row is kept and ends the search for that row.

The ablations of the paper's Table 7: `repair=False` NREP, `clean=False` NINI, `random=False` NRAN,
`adaptive=False` NADA.
"""

from __future__ import annotations

import math

from durometer.attacks.apgd import APGD
from durometer.attacks.base import Start, without_repair
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem


@noun
class CAPGD:
    """Auto-PGD for tables with relations, from two starts (Simonetto et al., 2024, Algorithm 1).

    The parameters `repair`, `clean`, `random` and `adaptive` are the ablations NREP, NINI, NRAN and
    NADA of the paper's Table 7.

    Args:
        steps: Gradient steps per start; 10 as published.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.
        rho: Share of the steps between two checkpoints that must raise the loss; otherwise the step
            is halved.
        step: Length of the first step, in units of the region's size.
        momentum: Weight of the new direction against the last one, in [0, 1].
        clean: Whether to start from the record itself.
        random: Whether to start from a random point, on the rows that are still open.
        repair: Whether candidates are repaired to satisfy the relations.
        adaptive: Whether the step length adapts. False keeps the first length.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> schema = du.Schema(
    ...     [du.Feature(f"f{i}", low=0, high=1) for i in range(8)], ["f0 + f1 <= 2"]
    ... )
    >>> du.evaluate(net, data, space=schema.space(eps=0.3), attack=du.CAPGD()).metric(
    ...     "robust"
    ... ).value
    0.1875
    """

    steps: int = 10
    loss: Loss | LossName | None = "ce"
    rho: float = 0.75
    step: float = 2.0
    momentum: float = 0.75
    clean: bool = True
    random: bool = True
    repair: bool = True
    adaptive: bool = True

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def checkpoints(self) -> tuple[int, ...]:
        """The steps after which the step length is reconsidered, as published; none without
        `adaptive`.
        """
        share, width, marks = 0.22, 0.22, set()
        while round(share, 9) <= 1.0:
            marks.add(math.ceil(round(share * self.steps, 9)))
            width = max(width - 0.03, 0.06)
            share += width
        return tuple(sorted(marks)) if self.adaptive else ()

    def __call__(self, problem: Problem) -> None:
        both: tuple[tuple[Start, bool], ...] = (("clean", self.clean), ("random", self.random))
        starts = [name for name, use in both if use]
        if not starts:
            raise DurometerError("CAPGD(clean=False, random=False): expected at least one start")
        if not self.repair:
            problem = without_repair(problem)
        for start in starts:
            run = APGD(
                self.steps, self.loss, 1, self.rho, self.step, self.momentum, start,
                marks=self.checkpoints(), back=False,
            )  # fmt: skip
            run(problem)
