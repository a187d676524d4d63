"""What a model is, found by trying it on a few rows before anything is claimed of it.

`probe` finds out whether gradients come back to the input, which of an estimator's scores has the
arg-max that the estimator predicts, and whether all it gives are labels. `inspect` refuses what
cannot work and notes what looks wrong: probabilities for logits, another answer on repeat,
training mode.

What a reader would get wrong: scores that agree with the predictions on every clean row may still
contradict them near the boundary, where attacks go (an SVC's probabilities, a tuned threshold).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from durometer.core.errors import DurometerError, Exhausted
from durometer.core.facts import Facts
from durometer.model.adapters import as_arrays, offers
from durometer.model.answers import one_each, only_labels, parts
from durometer.model.classifier import TINY, Classifier

_HALF = (torch.float16, torch.bfloat16)
_AS_A_GAME = (
    "A model that adapts is played as a game, in which it moves after the attacker: "
    "du.evaluate(du.Transductive(du.defenses.Adapting(model), batch=128), data, ...)"
)


def probe(model: Classifier, x: Tensor) -> Classifier:
    """A model's nature, found by trying it.

    A callable: does it take tensors, and do gradients come back to them? A module: do they? An
    estimator: which of its scores has the arg-max that it predicts itself (an SVC's probabilities
    do not always)?
    """
    if model.reads == "symbols":  # its adapter knows: gradients lead back to choices, not to ids
        return _of_texts(model, x)
    if model.names is not None and hasattr(model.source, "predict"):
        return _typed(_faithful(model, x), x)
    if model.bound or model.kind.split()[0] not in ("callable", "torch") or model.takes != "tensor":
        return _typed(_which_part(model, x), x)
    leaf = x.detach().clone().requires_grad_()
    with model.ready(), torch.enable_grad():
        try:
            out = model.call(leaf)
        except Exception:  # it may know only arrays; if it does not, its own error is told
            if model.module is None:
                model = replace(model, call=as_arrays(model.source, flat=False))
            out = _answered(model, x, model.call)
        model, out = _chosen(model, out, len(x))
        if model.answers == "labels":
            return replace(model, differentiable=False)
        try:
            model = replace(model, differentiable=_leads_back(out, leaf))
        except RuntimeError as error:  # it has taken gradients itself, and freed the graph
            raise DurometerError(
                f"no gradient can be taken through the model: {error}. {_AS_A_GAME}"
            ) from error
    return _typed(model, x, model.read(out, x).detach())


def _of_texts(model: Classifier, x: Tensor) -> Classifier:
    """A function of sentences as one that gives labels, where all its answers are whole numbers or
    one-hot. Nothing lies between two sentences that could be asked as well."""
    if model.told or model.takes != "text" or model.kind.split()[0] != "callable":
        return model
    with torch.no_grad():
        out = model.call(x)
        if one_each(out):
            return replace(model, answers="labels")
        first = model.read(out, x)
    if first.shape[1] == 2 and bool((first.abs() <= 0.5).all()):
        model = _zero_or_one(model, first)

    def between(z: Tensor) -> Tensor:
        raise DurometerError("no sentence")

    return replace(model, answers="labels") if only_labels(between, x, first) else model


def _which_part(model: Classifier, x: Tensor) -> Classifier:
    """Of several outputs the one that fits the labels; and whether it holds one label a row."""
    if model.bound or model.together:
        return model
    with model.ready(), torch.no_grad():
        try:
            out = model.call(x.clone())
        except Exhausted:
            raise
        except Exception:  # told by whoever asks next
            return model
    return _chosen(model, out, len(x))[0]


def _chosen(model: Classifier, out: Any, n: int) -> tuple[Classifier, Any]:
    """The model with the part that fits the labels, and that part of its output for n rows."""
    out = out.logits if hasattr(out, "logits") else out
    chosen = model.chosen(out, n)
    found = parts(out)
    if found is not None and len(found) > 1:
        model = replace(model, part=next(k for k, v in found.items() if v is chosen))
    if not model.told and one_each(chosen):
        model = replace(model, answers="labels")
    return model, chosen


def _typed(model: Classifier, x: Tensor, first: Tensor | None = None) -> Classifier:
    """The model as one that gives labels, where all its answers are; `first`: those on x."""
    if model.told or model.answers == "labels" or model.bound or model.together:
        return model
    with model.ready(), torch.no_grad():
        first = _tried(model, x) if first is None else first
        if first.shape[1] == 2 and bool((first.abs() <= 0.5).all()):  # one number a row, 0 or 1?
            model = _zero_or_one(model, first)
        if model.answers == "labels" or not only_labels(model.logits, x, first):
            return model
    return model if model.differentiable and _slopes(model, x) else replace(model, answers="labels")


def _slopes(model: Classifier, x: Tensor) -> bool:
    """Does any answer have a gradient that is not 0?"""
    leaf = x.detach().clone().requires_grad_()
    with model.ready(), torch.enable_grad():
        (grad,) = torch.autograd.grad(model.logits(leaf).amax(1).sum(), leaf, allow_unused=True)
    return grad is not None and bool((grad != 0).any())


def _zero_or_one(model: Classifier, first: Tensor) -> Classifier:
    """One score a row that is always 0 or 1 is a label, written as a number with a point."""
    one = model.answers == "logits" and bool((first[:, 0] == -first[:, 1]).all())
    label = one and bool(((first[:, 1] == 0) | (first[:, 1] == 0.5)).all())
    return replace(model, answers="labels") if label and bool(first.any()) else model


def _leads_back(out: Any, leaf: Tensor) -> bool:
    """Do gradients come back to the input? Weights of their own may want some, and get them all."""
    if not (isinstance(out, Tensor) and out.requires_grad):
        return False
    return torch.autograd.grad(out.sum(), leaf, allow_unused=True)[0] is not None


def _faithful(model: Classifier, x: Tensor) -> Classifier:
    """The first offer of an estimator whose arg-max is what the estimator predicts."""
    *_, votes = every = tuple(
        replace(offer, order=model.order, names=model.names, name=model.name, own=model.own,
                score=model.score, told=model.told, labels=model.labels, sure=model.sure)
        for offer in offers(model.source, model.columns)
    )  # fmt: skip
    if model.told and model.answers == "labels":
        return votes
    predicted = _tried(votes, x).argmax(1)
    x = torch.cat([x, *_turns(votes, x, predicted)])
    predicted = votes.logits(x).argmax(1)
    for offer in every:
        logits = offer.logits(x)
        if logits.shape[1] == len(votes.names or ()) and torch.equal(logits.argmax(1), predicted):
            if model.told and offer is votes:
                raise DurometerError(
                    f"answers={model.answers!r}: {model.kind} offers labels only (it has no scores "
                    "that decide as its predict does)"
                )
            return offer
    return votes


def _turns(votes: Classifier, x: Tensor, predicted: Tensor) -> tuple[Tensor, ...]:
    """Points on both sides of where the prediction turns, on the way from each row to another one.

    Scores with a threshold of their own are right on most rows and wrong just there, where attacks
    go. Rows that are all alike are led towards their mirror images in the range of the data.
    """
    here = torch.cat([x, x])
    there = torch.cat([x.flip(0), x.amin(0) + x.amax(0) - x])
    side = torch.cat([predicted, predicted])
    try:
        cross = votes.logits(there).argmax(1) != side
        here, there, side = here[cross], there[cross], side[cross]
        for _ in range(14 if len(here) else 0):
            middle = (here + there) / 2
            same = (votes.logits(middle).argmax(1) == side).reshape(-1, *[1] * (x.ndim - 1))
            here, there = torch.where(same, middle, here), torch.where(same, there, middle)
    except Exhausted:
        raise
    except Exception:  # it may take only what a row can be: half a category is none
        return ()
    return here, there


def _tried(model: Classifier, x: Tensor) -> Tensor:
    """Logits of the first rows it is ever asked for: a model that cannot take them is told of."""
    logits: Tensor = _answered(model, x, model.logits)
    return logits


def _answered(model: Classifier, x: Tensor, ask: Callable[[Tensor], Any]) -> Any:
    """What it answers; a model that cannot take these rows is told of."""
    try:
        return ask(x.clone())  # it may change its input in place, and `x` be the user's own data
    except DurometerError:
        raise
    except Exception as error:  # whatever a model may raise
        hint = f". It can where its weights may learn. {_AS_A_GAME}" if _learns(model, x) else ""
        if model.kind.split()[0] == "callable" and model.takes == "tensor" and x.ndim == 2:
            hint = "; a function of a table: du.wrap(function, inputs='frame')"
        raise DurometerError(
            f"the model cannot take inputs of shape {tuple(x.shape)} and {x.dtype}: "
            f"{type(error).__name__}: {error}{hint}"
        ) from error


def _learns(model: Classifier, x: Tensor) -> bool:
    """Does a module that cannot answer with fixed weights answer with weights that learn?"""
    if model.module is None:
        return False
    try:
        copied = copy.deepcopy(model.module).requires_grad_(True)
        with torch.enable_grad():
            copied(x.detach().clone())
    except Exception:  # it cannot answer at all
        return False
    return True


def inspect(model: Classifier, x: Tensor, y: Tensor, moves: bool = False) -> Facts:
    """Try the model on a few rows: errors for what cannot work, facts for what looks wrong.

    `moves`: it may change itself when it is asked.
    """
    training = model.module is not None and any(m.training for m in model.module.modules())
    with model.ready(), torch.no_grad():
        before = _state(model)
        first = _tried(model, x)
        again, alone = model.logits(x), _alone(model, x[:1])
        if not moves:
            _stays(model, before)
    classes = first.shape[1]
    if classes < 2:
        raise DurometerError(f"the model has {classes} class: robustness needs at least 2")
    if not bool(first.isfinite().all()):
        row = int((~first.isfinite().all(1)).nonzero()[0])
        raise DurometerError(f"the model answers {first[row].tolist()} for row {row}: not finite")
    if int(y.max()) >= classes:
        raise DurometerError(
            f"y holds class {int(y.max())}, but the model has classes 0..{classes - 1}; "
            "map the labels to the model's order of classes"
        )
    _one_probability(model, first)
    scale = first.abs().amax().clamp_min(1e-12)
    return Facts(
        classes=classes,
        training=training,
        probabilities=model.answers == "logits" and _like_probabilities(first),
        saturated=_saturated(model, first),
        half=str(model.dtype).removeprefix("torch.") if model.dtype in _HALF else "",
        repeat_difference=float((first - again).abs().amax() / scale),
        batch_difference=float((first[:1] - alone).abs().amax() / scale),
    )


def _saturated(model: Classifier, first: Tensor) -> float:
    """The share of rows whose probabilities are exactly 0 and 1: nothing shows where to go."""
    if model.answers == "labels" or not (
        model.answers == "probabilities" or _like_probabilities(first)
    ):
        return 0.0
    low = first.topk(2, dim=1).values[:, 1]
    least = 0.0 if model.answers == "logits" else math.log(TINY)
    return float(((low - least).abs() < 1e-4).double().mean())


def _alone(model: Classifier, x: Tensor) -> Tensor:
    """The logits of one row by itself; a model that needs others beside it is no classifier."""
    try:
        return model.logits(x)
    except Exception as error:  # whatever a model may raise
        raise DurometerError(
            f"the model answers about several rows, but not about one alone: {error}. A batch "
            "normalisation without running statistics takes them from the rows it is asked with; "
            f"give it some (track_running_stats=True). {_AS_A_GAME}"
        ) from error


def _one_probability(model: Classifier, first: Tensor) -> None:
    """One number per row, never outside [0, 1]: of a probability 0.5 decides, of a score 0."""
    known = model.told or model.answers != "logits" or hasattr(model.source, "predict")
    if known or first.shape[1] != 2 or bool((first[:, 0] != -first[:, 1]).any()):
        return
    score = 2 * first[:, 1]
    if bool(((score >= 0) & (score <= 1)).all()) and not bool(((score == 0) | (score == 1)).all()):
        raise DurometerError(
            "the model gives one number for each row, all between 0 and 1: say whether it is the "
            "probability of class 1, du.wrap(model, answers='probabilities'), or a score that is "
            "positive for class 1, answers='logits'"
        )


def _state(model: Classifier) -> dict[str, tuple[int, int]]:
    """Weights and statistics of a module: which tensor, written to how often."""
    if model.module is None:
        return {}
    tensors = (*model.module.named_parameters(), *model.module.named_buffers())
    return {name: (id(t), t._version) for name, t in tensors if t.is_floating_point()}  # noqa: SLF001


def _stays(model: Classifier, before: dict[str, tuple[int, int]]) -> None:
    after = _state(model)
    moved = [name for name, version in before.items() if after.get(name) != version]
    if moved:
        raise DurometerError(
            f"the model changes itself when it is asked ('{moved[0]}'"
            f"{f' and {len(moved) - 1} more tensors' if len(moved) > 1 else ''}): its answers "
            f"depend on what it was asked before. {_AS_A_GAME}"
        )


def other_scale(model: Classifier, x: Tensor, y: Tensor) -> tuple[float, float] | None:
    """The accuracy of a network as it is asked, and with inputs standardised, or as grey levels up
    to 255 (or these as shares of 255), where that is clearly better: its own normalisation has been
    left out."""
    x, y = x[:300], y[:300]
    if model.module is None or model.takes != "tensor" or model.reads != "numbers" or len(x) < 50:
        return None
    over = [0, *range(2, x.ndim)]
    if bool(x.isnan().any()) or x.ndim not in (2, 4):
        return None
    sd = x.std(over, keepdim=True)
    grey = x / 255 if float(x.abs().max()) > 2 else 255 * x
    others = ((x - x.mean(over, keepdim=True)) / torch.where(sd > 0, sd, 1.0), grey)
    with model.ready(), torch.no_grad():
        now, *then = (float((model.logits(v).argmax(1) == y).double().mean()) for v in (x, *others))
    best = max(then)
    clear = max(0.15, 3 * (0.5 / len(x)) ** 0.5)
    return (now, best) if best - now > clear else None


def _like_probabilities(out: Tensor) -> bool:
    inside = bool(((out >= 0) & (out <= 1)).all())
    return inside and bool(((out.sum(1) - 1).abs() < 1e-4).all())
