"""AutoAttack (Croce & Hein 2020), for any class count and input shape.

APGD-CE, then targeted APGD-DLR over the nine likeliest classes, then targeted FAB, then Square with
5,000 queries; each only on what is still open. With fewer than four classes DLR does not exist, and
the margin takes its place. Two things are not as published, to gain time and strength: FAB gives up
walks that cannot arrive, and Square's patches shrink earlier in Linf (see there). `Cascade` finds
what AutoAttack finds at a fraction of its price (docs/benchmarks/index.md).
"""

from __future__ import annotations

from durometer.attacks.apgd import APGD
from durometer.attacks.base import run
from durometer.attacks.combine import Guess, Then
from durometer.attacks.fab import FAB
from durometer.attacks.square import Square
from durometer.core.validation import noun
from durometer.losses import LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem


@noun
class AutoAttack:
    """The AutoAttack ensemble: APGD-CE, targeted APGD-DLR, targeted FAB and Square, each on the
    rows still open (Croce & Hein, 2020).

    It takes any number of classes; below four, the margin replaces DLR. Two things are not as
    published: FAB gives up runs that cannot arrive, and Square's patches shrink earlier in Linf.
    `Cascade` finds about the same at a fraction of the price.

    Args:
        steps: Steps of APGD and FAB; 100 as published.
        targets: Target classes of the targeted attacks; 9 as published.
        queries: Queries of Square; 5,000 as published.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.evaluate(
    ...     net, data, space=du.Linf(0.1), attack=du.AutoAttack(steps=5, queries=20)
    ... ).metric("robust").value
    0.25
    """

    steps: int = 100
    targets: int = 9
    queries: int = 5000

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True) | FAB().needs | Square().needs

    def __call__(self, problem: Problem) -> None:
        loss: LossName = "dlr" if problem.clean.shape[1] >= 4 else "margin"
        run(
            Then(
                APGD(self.steps, loss="ce"),
                Guess(APGD(self.steps, loss=loss), most=self.targets),
                FAB(self.steps, targets=self.targets),
                Square(self.queries),
            ),
            problem,
        )
