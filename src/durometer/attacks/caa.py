"""CAA (Simonetto et al. 2024, Algorithm 2): a gradient attack, then a search on what it left.

CAPGD is cheap and finds most rows; MOEVA needs no gradient and finds others. Each row's record says
which of the two broke it. The parameters are the paper's (appendix A.5).
"""

from __future__ import annotations

from durometer.attacks.base import Attack
from durometer.attacks.capgd import CAPGD
from durometer.attacks.combine import Then
from durometer.attacks.moeva import MOEVA
from durometer.core.validation import noun
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem

_FIRST, _THEN = CAPGD(), MOEVA()


@noun
class CAA:
    """A gradient attack, then a search on the rows it left open (Simonetto et al., 2024, Algorithm
    2).

    The defaults are the published ones. The standard attack for tables is `CAA(Then(CAPGD(),
    TablePGD()), Graft())`: it finds more in less time, and whatever one of its parts finds alone.

    Args:
        gradient: The first attack.
        search: The second attack.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> schema = du.Schema(
    ...     [du.Feature(f"f{i}", low=0, high=1) for i in range(8)], ["f0 + f1 <= 2"]
    ... )
    >>> du.evaluate(
    ...     net, data, space=schema.space(eps=0.3), attack=du.CAA(search=du.Graft(3))
    ... ).metric("robust").value
    0.1875
    """

    gradient: Attack = _FIRST
    search: Attack = _THEN

    @property
    def needs(self) -> Needs:
        return self.gradient.needs | self.search.needs

    def __call__(self, problem: Problem) -> None:
        Then(self.gradient, self.search)(problem)
