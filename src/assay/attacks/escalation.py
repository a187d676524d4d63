"""Escalation: best guess's success at a fraction of its cost, for goals with several targets.

Best guess runs an attack on every target; nearly all of that is spent on targets out of reach. One
step towards each target is enough to see which one is near:

    1. one step towards each target, then a full run at the nearest by MD (`most` of them)
    2. if `thorough`, one run at all targets at once (a log-sum-exp keeps every target in play)

each stage only on what is still open. On traffic signs stage 1 with one target is as strong as best
guess at a fifth of its gradients, and stage 2 adds nothing (docs/groups.md).

What a reader would get wrong: the order *after one step* matters. By MD on the clean input the
single best target is right far less often.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.attacks.apgd import APGD
from assay.attacks.base import Attack, Guess, Then
from assay.attacks.orders import by_md
from assay.problem import Needs, Problem


@dataclass(frozen=True)
class Escalation:
    """`steps` per run; full runs at the `most` nearest targets; `thorough` adds one at all."""

    steps: int = 100
    most: int = 1
    thorough: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        stages: list[Attack] = [
            Guess(APGD(self.steps, loss="md"), most=self.most, order=by_md(1, among=10))
        ]
        if self.thorough:
            stages.append(APGD(self.steps, loss="odds"))
        Then(*stages)(problem)
