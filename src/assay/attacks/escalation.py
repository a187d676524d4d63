"""Escalation: best guess's success at a fraction of its cost, for goals with several targets.

Best guess runs an attack on every target; nearly all of that is spent on targets out of reach. One
step towards each target is enough to see which one is near, and that too is wasted on rows that no
target is near to:

    1. half a run at all targets at once (MDMUL): it breaks most rows that can be broken, and shows
       which of the others came near, by their margin
    2. for these, one step towards each target, then a full run at the nearest by MD
    3. as long a run at the next nearest, half as long at the one after it (`most` targets in all)
    4. if `thorough`, one run at all targets at once (a log-sum-exp keeps every target in play)

each stage only on what is still open. How near is near (0.6 of the clean margin) and how many
targets were chosen on three networks for signs that no table reports, to spend no more than a
quarter of best guess's gradients (docs/groups.md).

What a reader would get wrong: the order *after one step* matters. By MD on the clean input the
single best target is right far less often.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay import losses
from assay.attacks.apgd import APGD
from assay.attacks.base import label, run
from assay.attacks.combine import single_targets
from assay.attacks.orders import ByMD
from assay.problem.needs import Needs
from assay.problem.problem import Problem


@dataclass(frozen=True)
class Escalation:
    """`steps` for the two nearest targets, half of them for others; `thorough` adds one run at all.

    `near`: the share of its clean margin that a row must have come down to for single targets to be
    tried; 1: every row.

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
    most: int = 3
    thorough: bool = False
    near: float = 0.6

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        half = max(1, self.steps // 2)
        run(APGD(half, loss="mdmul"), problem)
        near = problem.margin >= self.near * losses.margin(problem.clean, problem.goal)
        view = problem.aim(targets=problem.targets & near[:, None])
        if len(view.open):
            scores = ByMD(1, among=10).scores(view)
            for k, targets in enumerate(single_targets(view, self.most, scores)):
                attack = APGD(self.steps if k < 2 else half, loss="md")
                run(attack, view.aim(targets=targets), f"{label(attack)}-T")
        if self.thorough:
            run(APGD(self.steps, loss="lse"), problem)
