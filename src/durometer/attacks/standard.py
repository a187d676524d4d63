"""standard(): the strongest for a space: Cascade in Lp balls, CAA in tables, words in texts.

`Cascade` finds what AutoAttack finds at a fraction of its price (docs/results.md); the ensemble as
published is still there by its name.

AutoAttack (Croce & Hein 2020) here takes any class count and input shape:
APGD-CE, then targeted APGD-DLR over the nine likeliest classes, then targeted FAB, then Square with
5,000 queries; each only on what is still open. With fewer than four classes DLR does not exist, and
the margin takes its place. Two things are not as published, to gain time and strength: FAB gives up
walks that cannot arrive, and Square's patches shrink earlier in Linf (see there).

CAA here has Graft in the place of MOEVA, which finds more in less time; `CAA()` is as published.
"""

from __future__ import annotations

from typing import Any

from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack, run
from durometer.attacks.caa import CAA
from durometer.attacks.cascade import Cascade
from durometer.attacks.combine import Guess, Then
from durometer.attacks.fab import FAB
from durometer.attacks.graft import Graft
from durometer.attacks.moeva import MOEVA
from durometer.attacks.sequences.hotflip import HotFlip
from durometer.attacks.sequences.substitute import Beam, Greedy
from durometer.attacks.square import Square
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.enumerate import Enumerate
from durometer.spaces.symbols import Symbols
from durometer.spaces.text import Text
from durometer.tables.space import TableSpace

_LISTED = 20_000  # sentences that are listed for a row: seconds for small networks


@noun
class AutoAttack:
    """The published ensemble; `standard(space)` is the cheaper `Cascade`.

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
        loss = "dlr" if problem.clean.shape[1] >= 4 else "margin"
        run(
            Then(
                APGD(self.steps, loss="ce"),
                Guess(APGD(self.steps, loss=loss), most=self.targets),
                FAB(self.steps, targets=self.targets),
                Square(self.queries),
            ),
            problem,
        )


def standard(space: Any, gradients: bool = True) -> Attack:
    """The strongest ensemble for a space.

    A model without gradients gets the strongest search: Square in Lp balls, Graft in tables.
    In texts the searches over words come first, being the cheapest, and what they leave is listed
    where it is small enough: broken, proven or open.

    >>> from durometer.spaces.lp import Linf
    >>> standard(Linf(0.3))
    Cascade(steps=30, nearest=3, queries=1000, thorough=True)
    """
    if isinstance(space, TableSpace):
        return CAA(search=Graft()) if gradients else Graft()
    if isinstance(space, Text):
        steered = (APGD(20),) if gradients else ()
        return Then(Greedy(), *steered, Enumerate(_LISTED), Beam(4))
    if isinstance(space, Symbols):
        return Then(APGD(20), HotFlip(20)) if gradients else MOEVA()
    if getattr(space, "norm", None) in (1.0, 2.0, float("inf")):  # it may be no space at all
        return Cascade() if gradients else Square()
    raise Unsupported(f"no standard attack for {space!r}; give one with attack=")
