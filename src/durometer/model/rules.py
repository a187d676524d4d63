"""Operating rules: decisions that are made by a score, as classes.

    threshold=.7          class 1 where the score of class 1 is at least .7
    bands=[.3, .7]        class j where the score is at least the j-th number: below, between, above
    tolerance=10          fell, same, rose: against the answer for the clean row

A rule turns one score s into logits that are linear in it, j s - (c_1 + .. + c_j) for class j: the
step from one class to the next is s - c_j, so the arg-max is the band. Probabilities are asked as
log odds where they come from logits.

What a reader would get wrong: a score that equals a cut belongs above it. A move by just the
tolerance is no move, so the upper cut is the next number above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from durometer.core.errors import DurometerError, Unsupported

Method = Literal["predict_proba", "decision_function", "score_samples", "predict"]
MOVED = ("fell", "same", "rose")
_LEAST = 1e-9  # no logit of a class is closer to the next: a tie would be another decision


@dataclass(frozen=True)
class Rule:
    """At which scores which class begins.

    `cuts` rise; or they are None, and `tolerance` says how far a score may move from the row's
    clean one: in the score's units, or as a share of it (`relative`).
    """

    cuts: tuple[float, ...] | None = None
    tolerance: float | None = None
    relative: bool = False

    @property
    def count(self) -> int:
        """Number of classes."""
        return 3 if self.cuts is None else len(self.cuts) + 1

    @property
    def names(self) -> tuple[str, ...]:
        """What each class is called."""
        if self.cuts is None:
            return MOVED
        first, last = self.cuts[0], self.cuts[-1]
        between = [f"{a:g} to {b:g}" for a, b in zip(self.cuts, self.cuts[1:], strict=False)]
        return (f"below {first:g}", *between, f"{last:g} and above")

    @property
    def sentence(self) -> str:
        """For the name of the model in reports."""
        if self.cuts is None:
            assert self.tolerance is not None
            share = f"{self.tolerance:.3g} of it" if self.relative else f"{self.tolerance:g}"
            return f"moved by more than {share}"
        if len(self.cuts) == 1:
            return f"class 1 from {self.cuts[0]:g}"
        return f"bands at {', '.join(f'{c:g}' for c in self.cuts)}"

    def cuts_at(self, clean: np.ndarray) -> np.ndarray:
        """(n, cuts) of rows whose clean scores are given (n,), in float64."""
        if self.cuts is not None:
            return np.tile(np.asarray(self.cuts, dtype=np.float64), (len(clean), 1))
        assert self.tolerance is not None
        clean = np.asarray(clean, dtype=np.float64)
        far = self.tolerance * np.abs(clean) if self.relative else self.tolerance
        return np.stack([clean - far, np.nextafter(clean + far, np.inf)], 1)

    def bands(self, score: np.ndarray, clean: np.ndarray) -> np.ndarray:
        """(n,): the class of each score."""
        return np.asarray((score[:, None] >= self.cuts_at(clean)).sum(1), dtype=np.int64)

    def logits(self, score: np.ndarray, clean: np.ndarray, odds: bool) -> np.ndarray:
        """(n, classes): linear in the score, or in its log odds; the arg-max is the band."""
        score = np.asarray(score, dtype=np.float64)
        cuts = self.cuts_at(clean)
        far = log_odds(score)[:, None] - log_odds(cuts) if odds else score[:, None] - cuts
        above = score[:, None] >= cuts
        far = np.where(above, np.maximum(far, _LEAST), np.minimum(far, -_LEAST))
        return np.concatenate([np.zeros((len(far), 1)), np.cumsum(far, 1)], 1)


def log_odds(p: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), finite."""
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return np.asarray(np.log(p) - np.log1p(-p))


def rule_of(
    threshold: float | None, bands: Sequence[float] | None, tolerance: float | None, relative: bool
) -> Rule | None:
    """The rule that `wrap` was asked for; None: none."""
    asked = [n for n, v in (("threshold", threshold), ("bands", bands), ("tolerance", tolerance))
             if v is not None]  # fmt: skip
    if len(asked) > 1:
        raise DurometerError(f"{' and '.join(f'{n}=' for n in asked)}: expected one of them")
    if relative and tolerance is None:
        raise DurometerError("relative=True is about tolerance=, a share of the clean score")
    if tolerance is not None:
        if not _number(tolerance) or not tolerance > 0:
            raise DurometerError(f"tolerance={tolerance!r}: expected a number above 0")
        return Rule(None, float(tolerance), bool(relative))
    if threshold is not None:
        if not _number(threshold):
            raise DurometerError(f"threshold={threshold!r}: expected a number")
        return Rule((float(threshold),))
    if bands is None:
        return None
    given: object = bands
    if isinstance(given, str) or not hasattr(bands, "__len__") or not all(map(_number, bands)):
        raise DurometerError(f"bands={bands!r}: expected numbers that rise, e.g. [0.3, 0.7]")
    cuts = tuple(float(c) for c in bands)
    if not cuts or any(a >= b for a, b in pairwise(cuts)):
        raise DurometerError(f"bands={bands!r}: expected numbers that rise, e.g. [0.3, 0.7]")
    return Rule(cuts)


def _number(value: Any) -> bool:
    whole = isinstance(value, int | float | np.integer | np.floating)
    return whole and not isinstance(value, bool) and bool(np.isfinite(value))


@dataclass(frozen=True, eq=False)
class Ruled:
    """A fitted estimator that decides by a rule; asked as an estimator itself.

    `clean` (n,) are the scores of the rows of one batch, where a tolerance is about them.
    """

    estimator: Any
    rule: Rule
    method: Method
    classes_: np.ndarray
    clean: np.ndarray | None = None

    def scores(self, rows: Any) -> np.ndarray:
        """(n,): what is compared with the cuts."""
        found = np.asarray(getattr(self.estimator, self.method)(rows), dtype=np.float64)
        return found[:, 1] if self.method == "predict_proba" else found.reshape(len(found))

    def predict(self, rows: Any) -> np.ndarray:
        """The classes, by the rule."""
        score = self.scores(rows)
        return np.asarray(self.classes_[self.rule.bands(score, score)])

    def logits(self, rows: Any, clean: np.ndarray | None = None) -> np.ndarray:
        """(n, classes): how far the scores are from the cuts."""
        score = self.scores(rows)
        odds = self.method == "predict_proba" and self.rule.cuts is not None
        return self.rule.logits(score, score if clean is None else clean, odds)

    def at(self, clean: np.ndarray) -> Ruled:
        """The same for the rows of one batch, whose clean scores are given."""
        return replace(self, clean=clean)


def ruled(model: Any, rule: Rule) -> Ruled:
    """An estimator with a rule, or the reason why it can have none."""
    name = type(model).__name__
    kind = purpose(model)
    # a ranker says of itself neither that it is one nor that it classifies
    scores = kind is None and not hasattr(model, "classes_") and not hasattr(model, "predict_proba")
    if kind in ("regressor", "ranker") or scores:
        return Ruled(model, rule, "predict", _classes(rule, None))
    if kind == "outlier_detector":
        if rule.cuts is not None and len(rule.cuts) == 1:
            method: Method = "score_samples"
            return Ruled(model, rule, method, np.array([-1, 1]))
        return Ruled(model, rule, "score_samples", _classes(rule, None))
    classes = getattr(model, "classes_", None)
    if classes is None or isinstance(classes, list) or len(classes) != 2:
        count = "no" if classes is None else len(classes)
        raise Unsupported(
            f"{rule.sentence}: {name} has {count} classes, and a rule is about one score: of two "
            "classes, a regressor or an anomaly detector. Wrap a function that returns the score"
        )
    if hasattr(model, "predict_proba"):
        wrong = [c for c in rule.cuts or () if not 0 < c < 1]
        if wrong:
            raise DurometerError(
                f"{rule.sentence}: {name} gives probabilities, and none is beyond {wrong[0]:g}"
            )
        return Ruled(model, rule, "predict_proba", _classes(rule, classes))
    if hasattr(model, "decision_function"):
        return Ruled(model, rule, "decision_function", _classes(rule, classes))
    raise Unsupported(f"{rule.sentence}: {name} gives labels only, and a rule is about a score")


def detector(model: Any) -> Ruled:
    """An anomaly detector as it decides itself: 1 where `decision_function` is at least 0."""
    return Ruled(model, Rule((0.0,)), "decision_function", np.array([-1, 1]))


def purpose(model: Any) -> str | None:
    """What scikit-learn calls the kind of an estimator; None: it is none of its own."""
    try:
        found = model.__sklearn_tags__().estimator_type
    except Exception:  # no estimator of scikit-learn's, or an old one
        found = getattr(model, "_estimator_type", None)
    return None if found is None else str(found)


def _classes(rule: Rule, known: Any) -> np.ndarray:
    if rule.count == 2:
        return np.array([0, 1]) if known is None else np.asarray(known)
    return np.array(rule.names)


class Decision(nn.Module):
    """A network with a rule on its score: logits of the rule's classes, linear in the score.

    `kind`: the network gives "logits" (the cuts are probabilities), "probabilities" or a "score".
    """

    one: Tensor
    two: Tensor
    shift: Tensor

    def __init__(self, network: nn.Module, rule: Rule, kind: str) -> None:
        super().__init__()
        assert rule.cuts is not None
        self.network, self.rule, self.kind = network, rule, kind
        cuts = np.asarray(rule.cuts)
        cuts = log_odds(cuts) if kind == "logits" else cuts
        first = next((p for p in network.parameters() if p.is_floating_point()), None)
        dtype = torch.get_default_dtype() if first is None else first.dtype
        steps = torch.arange(rule.count, dtype=dtype)[:, None]
        zero = -1.0 if kind == "logits" else 0.0
        self.register_buffer("one", steps, persistent=True)
        self.register_buffer("two", torch.cat([zero * steps, steps], 1))
        below = _below(cuts, dtype).double()
        self.register_buffer("shift", torch.cat([below[:1] * 0, -below.cumsum(0)]).to(dtype))
        if first is not None:
            self.to(first.device)

    def forward(self, x: Tensor) -> Tensor:
        """(n, classes)."""
        out = self.network(x)
        if not isinstance(out, Tensor):
            raise DurometerError(
                f"{self.rule.sentence}: the network gives a {type(out).__name__}; wrap a module "
                "that returns one tensor, its score"
            )
        if out.ndim == 1:
            out = out.reshape(-1, 1)
        if out.ndim != 2 or out.shape[1] > 2:
            raise Unsupported(_shape(self.rule, tuple(out.shape)))
        weight = self.one if out.shape[1] == 1 else self.two
        return nn.functional.linear(out, weight, self.shift)


def _below(cuts: np.ndarray, dtype: torch.dtype) -> Tensor:
    """The largest numbers of a type that are below each cut: the cut itself belongs above."""
    exact = torch.from_numpy(np.asarray(cuts, dtype=np.float64))
    near = exact.to(dtype)
    least = torch.finfo(dtype).smallest_normal  # what is smaller may be flushed to 0
    lower = torch.where(near.abs() <= least, torch.full_like(near, -least),
                        torch.nextafter(near, torch.full_like(near, -torch.inf)))  # fmt: skip
    return torch.where(near.double() < exact, near, lower)


@dataclass(frozen=True, eq=False)
class Decided:
    """A function whose score decides by a rule."""

    function: Any
    rule: Rule
    kind: str

    def scores(self, x: Any) -> Tensor:
        """(n,): what is compared with the cuts; of logits the log odds."""
        out = self.function(x)
        out = out if isinstance(out, Tensor) else torch.as_tensor(np.asarray(out))
        if out.ndim == 2 and out.shape[1] == 2:
            return out[:, 1] - out[:, 0] if self.kind == "logits" else out[:, 1]
        if out.ndim > 2 or (out.ndim == 2 and out.shape[1] != 1):
            raise Unsupported(_shape(self.rule, tuple(out.shape)))
        return out.reshape(-1)

    def __call__(self, x: Any) -> Tensor:
        """(n, classes): logits."""
        score = self.scores(x)
        return self.against(score, score.detach())

    def against(self, score: Tensor, clean: Tensor) -> Tensor:
        """(n, classes): logits of scores whose rows have these clean ones."""
        cuts = self.rule.cuts_at(clean.detach().cpu().double().numpy())
        if self.kind == "logits" and self.rule.cuts is not None:
            cuts = log_odds(cuts)
        far = score[:, None].double() - torch.from_numpy(cuts).to(score.device)
        tie = torch.where(far == 0, _LEAST, 0.0)
        return torch.cat([torch.zeros_like(far[:, :1]), (far + tie).cumsum(1)], 1)


def _shape(rule: Rule, shape: tuple[int, ...]) -> str:
    return (
        f"{rule.sentence}: the model gives an output of shape {shape}, and a rule is about one "
        "score a row (n,), (n, 1), or two classes (n, 2); wrap a function that returns the score"
    )
