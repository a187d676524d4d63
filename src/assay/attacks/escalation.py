"""Escalation: best guess's success at a fraction of its cost, for goals with several targets.

Best guess attacks every target of a row; most of that is wasted, on rows that fall to anything and
on targets out of reach. Escalation spends where it pays, each stage only on what is still open:

    1. one run at all targets at once (loss "odds": a log-sum-exp keeps every target in play)
    2. one step towards each target; the `most` nearest by MD get a run of their own

What a reader would get wrong: the order *after one step* matters. By clean MD the best single
target is right far less often (see benchmarks/groups.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.attacks.apgd import APGD
from assay.attacks.base import Guess, Then
from assay.attacks.orders import by_md
from assay.problem import Needs, Problem


@dataclass(frozen=True)
class Escalation:
    """`steps` per run; `most` single targets (by MD after one step) for rows that resist."""

    steps: int = 100
    most: int = 2
    loss: str = "odds"

    @property
    def name(self) -> str:
        return "Escalation"

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        first = APGD(self.steps, loss=self.loss)
        second = Guess(APGD(self.steps, loss="md"), most=self.most, order=by_md(1))
        Then(first, second)(problem)
