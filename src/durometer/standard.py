"""Standard: what `evaluate` plays unless told otherwise. Certify, attack, then decide what is left.

What fits the model and the space comes first, cheapest first; each stage sees only what the ones
before it left open, and the report says what each settled at what price:

    any model, few valid records     Enumerate: everything is looked at
    linear                           Linear: exact
    trees                            Exact: exact, so an attack has nothing to add
    sequences (texts)                Linear, Bounds; Greedy, APGD; Bounds, Enumerate; Beam
    long sequences (bytes)           APGD, HotFlip where there are gradients, else MOEVA
    networks (torch, ONNX)           Bounds, quick; the attack; Bounds again, cutting boxes
    labels only                      Ray in Linf, Circle in L2, Walk in L1, L0, patches and windows,
                                     Mirror in tables; else refused
    patches, windows                 APGD, Walk where there are no gradients
    tables behind an address         Mirror, then Graft: questions have their price
    all                              Cascade in Lp balls, APGD in L0; in tables CAPGD, TablePGD,
                                     then Graft, which tries what it tries alone;
                                     without gradients Square and Graft

`proofs=False` leaves the proofs out, and the attack alone is played. Cascade finds what AutoAttack
finds at a fraction of its price, and Graft more than MOEVA in less time
(docs/benchmarks/index.md).

What a reader would get wrong: whether a model has gradients, is linear or is made of trees is found
out when it is played, not when this is made. A module whose gradient is cut off gets the search.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack, run
from durometer.attacks.caa import CAA
from durometer.attacks.capgd import CAPGD
from durometer.attacks.cascade import Cascade
from durometer.attacks.combine import Then
from durometer.attacks.decision.circle import Circle
from durometer.attacks.decision.mirror import Mirror
from durometer.attacks.decision.ray import Ray
from durometer.attacks.decision.walk import Walk, walks
from durometer.attacks.graft import Graft
from durometer.attacks.moeva import MOEVA
from durometer.attacks.sequences.hotflip import HotFlip
from durometer.attacks.sequences.substitute import Beam, Greedy
from durometer.attacks.square import Square
from durometer.attacks.table_pgd import TablePGD
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.model.classifier import Classifier
from durometer.model.onnx import readable
from durometer.model.remote import Endpoint
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.enumerate import Enumerate
from durometer.proofs.linear import Linear
from durometer.proofs.networks import Bounds
from durometer.proofs.search.linear_form import read
from durometer.proofs.text.hull import Bounded
from durometer.proofs.trees import Exact
from durometer.spaces.ball import LpRegion
from durometer.spaces.discrete import SubstitutionRegion
from durometer.spaces.images import ImageRegion
from durometer.spaces.patch import Patch
from durometer.spaces.quantised import QuantisedRegion
from durometer.spaces.rectangle import Rectangle
from durometer.spaces.region import Region, Space
from durometer.spaces.symbols import Symbols
from durometer.spaces.text import Text
from durometer.tables.region import TableRegion
from durometer.tables.space import TableSpace
from durometer.trees.readers import reader

_NORMS = (0.0, 1.0, 2.0, math.inf)
_FEW = 2000  # points: fewer than an attack would ask about
_SINGLES = 5_000  # exchanges of one symbol: more are not all tried
_GROWN = 50_000  # queries of a beam for one row: more are not worth what it adds to Greedy
_CUT = 1000  # sets of sentences that are bounded for a row
_COPIED = 200  # features of a region of another kind: of more, copies made of trees learn little
_NEAR = 0.5  # clean margins: rows whose bounds end further from a proof are not worth its price
_LISTED = 20_000  # sequences that are listed for a row: seconds for small networks


@noun
class Standard:
    """The default of `evaluate`: proofs and attacks that fit the model and the space, cheapest
    first.

    Each stage works on the rows that the ones before it left open: `Enumerate` where few points are
    valid; `Linear`, `Exact` or `Bounds` by the kind of the model; the strongest attack for the
    space; then again proofs with a larger budget.

    Args:
        seconds: Time limit of exact searches per row, in seconds.
        certificates: Whether proofs about trees keep a certificate that `verify` can check.
        proofs: Whether proofs are played. False plays the attack alone.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.Standard())
    >>> report.counts("verdict"), report.counts("winner")
    ({'broken': 12, 'proven': 3, 'open': 1}, {'APGD-pm': 12, 'Bounds': 3, '': 1})
    """

    seconds: float = 5.0
    certificates: bool = False
    proofs: bool = True

    @property
    def needs(self) -> Needs:
        return Needs(ANY, is_proof=self.proofs, single_model=True)

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
        if self.proofs and not proofs:
            problem.referee.unproven = next(iter(refused), "no proof knows models of this kind")

    def shares_answers(self, model: Classifier, space: Space, x: Tensor) -> bool:
        """Whether rows learn from each other's answers: where `Mirror` is what is played.

        Args:
            model: The model, as it was found to be.
            space: What may change.
            x: One row (1, ...).
        """
        region = space.around(x)
        if model.answers == "labels":
            return isinstance(_by_labels(region), Mirror)
        return isinstance(region, TableRegion) and _answers_cost(model)

    def stages(self, problem: Problem) -> list[tuple[Attack, bool]]:
        """The stages for a problem, in order, each with whether it may be left out where it does
        not apply.

        Args:
            problem: The rows to attack.
        """
        if not self.proofs:
            return [(a, False) for a in _attacks(problem)]
        model, region = problem.model, problem.regions
        if isinstance(region, SubstitutionRegion):
            return _sequences(problem, region)
        first: list[Attack] = []
        last: list[Attack] = []
        if isinstance(region, TableRegion) and problem.budget.forwards is None:
            first, last = [Enumerate(_FEW)], [Enumerate()]  # it would spend the attack's budget
        if reader(model.source, model.columns) is not None:
            # dearer only where a row has a handful of records
            first.insert(0, Exact(self.seconds, certificates=self.certificates))
        elif read(model, problem.kept(problem.undecided)) is not None:
            first.append(Linear(self.seconds))
        elif (model.module is not None or readable(model)) and not model.bound:
            first.insert(0, Bounds(splits=0, seconds=0.0, within=_NEAR))
            # the slopes were climbed before the attack: what is left is cut
            last.insert(0, Bounds(alpha=0, seconds=min(1.0, self.seconds), within=_NEAR))
        return [*_optional(first), *((a, False) for a in _attacks(problem)), *_optional(last)]


def check_space(space: Any) -> None:
    """Raise Unsupported where there is no standard attack for a space."""
    if not isinstance(space, Space):
        return  # `check_kinds` says so, and what to give instead
    named = isinstance(space, TableSpace | Text | Symbols | Patch | Rectangle)
    if not (named or space.norm in _NORMS):
        raise Unsupported(f"no standard attack for {space!r}; give one with attack=")


def _attacks(problem: Problem) -> list[Attack]:
    """The strongest attack for what the model answers and what may change."""
    model, region = problem.model, problem.regions
    if model.answers == "labels":
        by_labels = _by_labels(region)
        return [] if by_labels is None else [by_labels]
    if isinstance(region, SubstitutionRegion):
        return [stage for stage, proof in _sequences(problem, region) if not proof]
    if isinstance(region, TableRegion):
        if _answers_cost(model):
            return [Mirror(), Graft()]  # copies first: they need a tenth of the questions
        by_gradient = Then(CAPGD(), TablePGD())
        return [CAA(by_gradient, Graft()) if model.differentiable else Graft()]
    if isinstance(region, ImageRegion):  # a patch or a window
        steered: list[Attack] = [APGD(100), APGD(100, loss="margin", restarts=2)]
        return steered if model.differentiable else [Walk()]
    if region.p == 0.0:  # eps counts features
        climbs: list[Attack] = [APGD(100), APGD(100, loss="margin", start="best")]
        return climbs if model.differentiable else [Graft()]
    return [Cascade() if model.differentiable else Square()]


def _answers_cost(model: Classifier) -> bool:
    """Is it behind an address, where every question has its price?"""
    return isinstance(model.source, Endpoint)


def _optional(stages: list[Attack]) -> list[tuple[Attack, bool]]:
    return [(stage, True) for stage in stages]


def _by_labels(region: Region) -> Attack | None:
    """The search for a model that gives labels only; None where there is none yet."""
    if isinstance(region, SubstitutionRegion):
        return None
    if isinstance(region, TableRegion):
        return Mirror()
    if walks(region):
        return Walk()
    known: dict[float, Attack] = {math.inf: Ray(), 2.0: Circle()}
    if isinstance(region, LpRegion | QuantisedRegion) and region.p in known:
        return known[region.p]
    return Mirror() if region.origin.shape[1] <= _COPIED else None


def _refuse_blind(problem: Problem) -> None:
    """No figure where rows were left without any search."""
    region = problem.regions
    if _by_labels(region) is None:
        sequences = isinstance(region, SubstitutionRegion)
        kind = f"L{region.p:g} balls" if isinstance(region, LpRegion) else "such regions"
        what = "sequences" if sequences else f"{kind} of {region.origin.shape[1]} features"
        raise Unsupported(
            f"labels only: no search for {what} yet; give scores (a model with predict_proba or "
            "decision_function, or a function that returns an array (rows, classes)), or trees "
            "that Exact can read"
        )


def _sequences(problem: Problem, region: SubstitutionRegion) -> list[tuple[Attack, bool]]:
    """Bounds where there are some; searches over symbols; what is left is cut up, or listed."""
    model = problem.model
    if model.answers == "labels":
        return [(Enumerate(_LISTED), True)]
    steered: list[Attack] = [APGD(20)] if model.differentiable else []
    singles = region.there[..., 1:].sum((1, 2))
    if len(singles) and int(singles.max()) > _SINGLES:  # trying each once costs too much
        search = HotFlip(20) if model.differentiable else MOEVA()
        return [(a, False) for a in (*steered, search)]
    bounded = isinstance(model.module, Bounded)
    first: list[Attack] = [Linear(), *([Bounds(splits=0)] if bounded else [])]
    last: list[Attack] = [*([Bounds(splits=_CUT)] if bounded else []), Enumerate(_LISTED)]
    beam = Beam(4)
    fits = len(singles) and beam.width * int((singles * region.most).max()) <= _GROWN
    return [
        *_optional(first), *((a, False) for a in (Greedy(), *steered)),
        *_optional(last), *([(beam, False)] if fits else []),
    ]  # fmt: skip
