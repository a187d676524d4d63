"""Standard: what `evaluate` plays unless told otherwise. Certify, attack, then decide what is left.

What fits the model and the space comes first, cheapest first; each stage sees only what the ones
before it left open, and the report says what each settled at what price:

    any model, few valid records     Enumerate: everything is looked at
    linear                           Linear: exact
    trees                            Exact: exact, so an attack has nothing to add
    sequences (texts)                Linear, Bounds; Greedy, APGD; Bounds, Enumerate; Beam
    long sequences (bytes)           APGD, HotFlip where there are gradients, else MOEVA
    torch networks                   Bounds, quick; the attack; Bounds again, cutting boxes
    labels only                      Ray in Linf, Circle in L2; elsewhere refused, unless proven
    all                              the strongest attack for the space (`standard`)

What a reader would get wrong: whether a model has gradients, is linear or is made of trees is found
out when it is played, not when this is made. A module whose gradient is cut off gets the search.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from durometer.attacks.apgd import APGD
from durometer.attacks.base import run
from durometer.attacks.caa import CAA
from durometer.attacks.cascade import Cascade
from durometer.attacks.decision.circle import Circle
from durometer.attacks.decision.ray import Ray
from durometer.attacks.graft import Graft
from durometer.attacks.moeva import MOEVA
from durometer.attacks.sequences.hotflip import HotFlip
from durometer.attacks.sequences.substitute import Beam, Greedy
from durometer.attacks.square import Square
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.enumerate import Enumerate
from durometer.proofs.linear import Linear
from durometer.proofs.networks import Bounds
from durometer.proofs.search.linear_form import read
from durometer.proofs.text.hull import Bounded
from durometer.proofs.trees import Exact
from durometer.spaces.discrete import SubstitutionRegion
from durometer.tables.region import TableRegion
from durometer.trees.readers import reader

if TYPE_CHECKING:
    from durometer.attacks.base import Attack

_FEW = 2000  # points: fewer than an attack would ask about
_SINGLES = 5_000  # exchanges of one symbol: more are not all tried
_GROWN = 50_000  # queries of a beam for one row: more are not worth what it adds to Greedy
_CUT = 1000  # sets of sentences that are bounded for a row
_LISTED = 20_000  # sequences that are listed for a row: seconds for small networks


@noun
class Standard:
    """Both sides, with at most about `seconds` of exact search for a row.

    `certificates=True` keeps what makes proofs about trees checkable (see `Exact`).

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.Standard())
    >>> report.metric("proven").value <= report.metric("robust").value
    True
    """

    seconds: float = 5.0
    certificates: bool = False

    @property
    def needs(self) -> Needs:
        return Needs(ANY, is_proof=True)

    def __call__(self, problem: Problem) -> None:
        proofs, refused = 0, []
        for stage, optional in self.stages(problem):
            before = len(problem.undecided)
            try:
                run(stage, problem)
                # a listing of points runs on every model, and may list none
                settled = not isinstance(stage, Enumerate) or len(problem.undecided) < before
                proofs += optional and settled
            except Unsupported as error:
                if not optional:
                    raise  # a proof that does not know this model leaves its rows open
                refused.append(str(error))
        if problem.model.answers == "labels" and len(problem.undecided):
            _refuse_blind(problem)
        if not proofs:
            problem.referee.unproven = next(iter(refused), "no proof knows models of this kind")

    def stages(self, problem: Problem) -> list[tuple[Attack, bool]]:
        """The stages in order, and whether each may be done without."""
        model, table = problem.model, isinstance(problem.regions, TableRegion)
        if isinstance(problem.regions, SubstitutionRegion):
            bounded = isinstance(model.module, Bounded)
            if model.answers == "labels":
                return [(Enumerate(_LISTED), True)]
            return _sequences(problem.regions, model.differentiable, bounded)
        counts = table and problem.budget.forwards is None  # or it would spend the attack's
        blind = model.answers == "labels"
        attack = _by_labels(problem) if blind else _attack(table, model.differentiable)
        first: list[Attack] = [Enumerate(_FEW)] if counts else []
        last: list[Attack] = [Enumerate()] if counts else []
        if reader(model.source, model.columns) is not None:
            # dearer only where a row has a handful of records
            first.insert(0, Exact(self.seconds, certificates=self.certificates))
        elif read(model, problem.kept(problem.undecided)) is not None:
            first.append(Linear(self.seconds))
        elif model.module is not None and not model.bound:
            first.insert(0, Bounds(splits=0, seconds=0.0))
            last.insert(0, Bounds(seconds=min(1.0, self.seconds)))
        searched = [] if attack is None else [(attack, False)]
        return [*((p, True) for p in first), *searched, *((p, True) for p in last)]


def _by_labels(problem: Problem) -> Attack | None:
    """The search for a model that gives labels only; None where there is none yet."""
    if isinstance(problem.regions, TableRegion | SubstitutionRegion):
        return None
    return {math.inf: Ray(), 2.0: Circle()}.get(problem.regions.p)


def _refuse_blind(problem: Problem) -> None:
    """No figure where rows were left without any search."""
    region = problem.regions
    sequences, table = isinstance(region, SubstitutionRegion), isinstance(region, TableRegion)
    if sequences or table or _by_labels(problem) is None:
        what = "sequences" if sequences else "tables" if table else f"L{region.p:g} balls"
        raise Unsupported(
            f"labels only: no search for {what} yet; give scores (a model with predict_proba or "
            "decision_function, or a function that returns an array (rows, classes)), or trees "
            "that Exact can read"
        )


def _sequences(
    region: SubstitutionRegion, gradients: bool, bounded: bool
) -> list[tuple[Attack, bool]]:
    """Bounds where there are some; searches over symbols; what is left is cut up, or listed."""
    steered: list[Attack] = [APGD(20)] if gradients else []
    singles = region.there[..., 1:].sum((1, 2))
    if len(singles) and int(singles.max()) > _SINGLES:  # trying each once costs too much
        return [(a, False) for a in ([*steered, HotFlip(20)] if gradients else [MOEVA()])]
    first: list[Attack] = [Linear(), *([Bounds(splits=0)] if bounded else [])]
    last: list[Attack] = [*([Bounds(splits=_CUT)] if bounded else []), Enumerate(_LISTED)]
    beam = Beam(4)
    fits = len(singles) and beam.width * int((singles * region.most).max()) <= _GROWN
    return [
        *((p, True) for p in first), *((a, False) for a in (Greedy(), *steered)),
        *((p, True) for p in last), *([(beam, False)] if fits else []),
    ]  # fmt: skip


def _attack(table: bool, gradients: bool) -> Attack:
    """As `standard(space, gradients)` gives it."""
    if table:
        return CAA(search=Graft()) if gradients else Graft()
    return Cascade() if gradients else Square()
