"""Escalation: best guess's success at a fraction of its cost, for goals with several targets.

Best guess runs an attack on every target; nearly all of that is spent on targets out of reach, and
on rows that no target is near to:

    1. half a run at all targets at once (MDMUL): it breaks most rows that can be broken, and shows
       which of the others came near, by their margin
    2. for rows that came down to half of their clean margin, a run at the target that is nearest
       by MD where the first stage ended
    3. for rows that came down to a quarter by now, a run at the next nearest; to an eighth, one at
       the third (`most` targets in all), each half as near as the one before
    4. if `thorough`, one run at all targets at once (a log-sum-exp keeps every target in play)

each stage only on what is still open, and from the nearest point that those before it have found.
Chosen on five networks for signs, and images, that no table reports (docs/benchmarks/groups.md).

What a reader would get wrong: MD is taken at the nearest point *found*, which costs no gradient. By
MD on the clean input the single best target is right far less often, and a step towards each target
costs as many gradients as there are targets, for a worse order.
"""

from __future__ import annotations

from torch import Tensor

from durometer import losses
from durometer.attacks.apgd import APGD
from durometer.attacks.base import label, run
from durometer.attacks.combine import single_targets
from durometer.attacks.orders import minimal_differences
from durometer.core.validation import noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem


@noun
class Escalation:
    """An attack for goals with several targets: about the successes of one run per target, at a
    fraction of its cost.

    First half a run at all targets at once, then runs at the nearest targets of rows that came
    near; see docs/how-to/groups.md.

    Args:
        steps: Steps per run at one target; the first run has half as many.
        most: Largest number of single targets to try per row.
        thorough: Whether to add a last run at all targets at once.
        near: Share of its clean margin that a row must have fallen to before a single target is
            tried; half of that for the next one, and so on.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net,
    ...     data,
    ...     space=du.Linf(0.1),
    ...     attack=du.Escalation(5),
    ...     goal=du.Group({0: [1], 1: [2], 2: [0]}),
    ... ).metric("robust").value
    0.5
    """

    steps: int = 100
    most: int = 3
    thorough: bool = False
    near: float = 0.5

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        problem.remember()
        run(APGD(max(1, self.steps // 2), loss="mdmul"), problem)
        clean = losses.margin(problem.clean, problem.goal)
        attack = APGD(self.steps, loss="md", start="best", step=1.0)
        view = _near(problem, problem.targets, self.near * clean)
        if len(view.open):
            singles = single_targets(view, self.most, _differences(view))
            for k, targets in enumerate(singles):
                near = _near(view, targets, self.near / 2**k * clean)
                run(attack, near, f"{label(attack)}-T")
        if self.thorough:
            run(APGD(self.steps, loss="lse"), problem)


def _near(problem: Problem, targets: Tensor, margin: Tensor) -> Problem:
    """The rows that came as near as this margin, steered to these targets."""
    return problem.aim(targets=targets & (problem.margin >= margin)[:, None])


def _differences(problem: Problem) -> Tensor:
    """(n, C): the minimal difference to every class, of open rows at the nearest point so far."""
    rows = problem.open
    scores = minimal_differences(problem.clean)
    found = problem.query(rows, problem.nearest(rows))
    scores[rows] = minimal_differences(found).to(scores.dtype)
    return scores
