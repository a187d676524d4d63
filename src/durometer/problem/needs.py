"""Needs: what an attack cannot do without, and the sentence where a model or a space lacks it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from durometer import trees
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.answers import SCORES, AnswerKind
from durometer.model.classifier import Classifier
from durometer.model.onnx import readable
from durometer.model.rules import Ruled
from durometer.spaces.region import Space
from durometer.trees.readers import scores_of

GROUP = 256  # rows that share answers, by their places in the data


@noun
class Needs:
    """What an attack requires of the model and the space.

    Args:
        answers: What the model may answer: scores (default) or anything (`extend.ANY`), where
            labels suffice.
        gradient: Gradients of the model with respect to its inputs.
        norms: Norms of the Lp balls it works in. None: any space.
        single_model: One model at a time; several at once, as in `GMSA`, are refused.
        trees: A tree ensemble that `trees.read` can read.
        layers: A torch module whose layers can be read.
        is_proof: A model that does not adapt; proofs need it.
        revisits_broken: Rows that are already broken are wanted too, to look for nearer points.
        poisons: Its aim is the rows of others, so its own rows need no target.
        donors: Rows of the data with the model's own labels, to start from.
        shares_answers: Rows learn from each other's answers, 256 of them together: those that stand
            one after the other in the data. They are played as one batch whatever its size.
    """

    answers: tuple[AnswerKind, ...] = SCORES  # what a model may answer; ANY: labels will do
    gradient: bool = False
    norms: tuple[float, ...] | None = None  # Lp balls in a box of these norms; None: any space
    single_model: bool = False  # one model at a time: no `Victims` of several
    trees: bool = False  # an ensemble of trees that `trees.read` reads
    layers: bool = False  # a torch module whose layers can be walked
    is_proof: bool = False  # a model that does not move: proofs
    revisits_broken: bool = False  # also rows that are broken already: it looks for nearer points
    poisons: bool = False  # its aim is others' rows: its own need no target (poisoners)
    donors: bool = False  # rows of the data with the model's own labels, to start from
    shares_answers: bool = False  # `GROUP` rows learn from each other

    def __or__(self, other: Needs) -> Needs:
        norms = self.norms if other.norms is None else other.norms
        if self.norms is not None and other.norms is not None:
            norms = tuple(p for p in self.norms if p in other.norms)
        either = {
            f.name: getattr(self, f.name) or getattr(other, f.name)
            for f in fields(self)
            if f.name not in ("norms", "answers")
        }
        answers = tuple(a for a in self.answers if a in other.answers)
        return Needs(answers, norms=norms, **either)


def check_needs(attack: Any, model: Classifier, space: Space, moves: bool = False) -> None:
    """Raise Unsupported where the attack cannot work on this model or in this space.

    `moves`: the model adapts after the attacker.
    """
    needs: Needs = attack.needs
    labels = model.answers == "labels"
    by_labels = "a search by labels: Ray in Linf, Circle in L2, Walk in L1 or L0, Mirror in a table"
    if needs.gradient and not model.differentiable:
        give = "give the file as du.wrap(file, gradients=True), or " if model.kind == "ONNX" else ""
        by_scores = (
            "a search attack: Square in an Lp ball, Graft or MOEVA in a table, Greedy or Beam in a "
            "text"
        )
        raise Unsupported(
            f"{attack!r} needs gradients, but {model.kind} has none; {give}use "
            f"{by_labels if labels else by_scores}"
        )
    if model.answers not in needs.answers:
        raise Unsupported(
            f"{attack!r} reads scores, and {model.title} answers with labels only: it would search "
            f"blindly. Give scores, or use {by_labels} (an attack of your own that needs no scores "
            "says so: Needs(answers=du.extend.ANY))"
        )
    if needs.is_proof and moves:
        raise Unsupported(
            f"{attack!r} proves something about a model that stays, and this one moves after the "
            "attacker; give an attack that rehearses it, e.g. GMSA"
        )
    if needs.layers and model.module is None and not readable(model):
        raise Unsupported(
            f"{attack!r} walks through the layers of a torch module or an ONNX graph, and "
            f"{model.kind} is none; "
            "use Exact for trees, Enumerate where few points are valid, or an attack alone"
        )
    if needs.trees:
        if isinstance(model.source, Ruled):
            scores_of(model.source, model.columns)
        else:
            trees.read(model.source, model.columns)  # says itself what it cannot read
    instead = "use APGD" if model.differentiable else "use a search: MOEVA or Graft"
    if needs.norms is not None and space.norm not in needs.norms:
        names = ", ".join(f"L{p:g}" for p in needs.norms) or "no norm at all"
        raise Unsupported(
            f"{attack!r} works in Lp balls in a box ({names}), not in {space!r}; {instead}"
        )
