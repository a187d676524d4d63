"""Escalation: best guess's success at a fraction of its cost, for goals with several targets.

Best guess runs an attack on every target; nearly all of that is spent on targets out of reach. One
step towards each target is enough to see which one is near:

    1. one step towards each target, then a full run at the nearest by MD
    2. half as long a run at the next nearest (`most` targets in all)
    3. if `thorough`, one run at all targets at once (a log-sum-exp keeps every target in play)

each stage only on what is still open. On traffic signs the first two come within a thousandth of
best guess at a quarter of its gradients, and the third adds nothing (docs/groups.md).

What a reader would get wrong: the order *after one step* matters. By MD on the clean input the
single best target is right far less often.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.attacks.apgd import APGD
from assay.attacks.base import label, run
from assay.attacks.combine import single_targets
from assay.attacks.orders import ByMD
from assay.problem.needs import Needs
from assay.problem.problem import Problem


@dataclass(frozen=True)
class Escalation:
    """`steps` for the nearest target, half of them for the next; `thorough` adds one run at all.

    >>> import assay as ay
    >>> net, data = ay.testing.toy()
    >>> ay.evaluate(
    ...     net,
    ...     data,
    ...     space=ay.Linf(0.1),
    ...     attack=ay.Escalation(5),
    ...     goal=ay.Group({0: [1], 1: [2], 2: [0]}),
    ... ).metric("robust").value
    0.5
    """

    steps: int = 100
    most: int = 2
    thorough: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        scores = ByMD(1, among=10).scores(problem)
        for k, targets in enumerate(single_targets(problem, self.most, scores)):
            attack = APGD(max(1, self.steps // 2) if k else self.steps, loss="md")
            run(attack, problem.aim(targets=targets), f"{label(attack)}-T")
        if self.thorough:
            run(APGD(self.steps, loss="lse"), problem)
