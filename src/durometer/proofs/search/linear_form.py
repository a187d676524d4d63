"""A linear classifier as scores W x + b in the input's own units, read from what was wrapped.

Torch: a `Linear`, alone or after `Flatten`. scikit-learn: whatever has `coef_` and `intercept_`
(logistic regression, linear SVM, ridge, perceptron, LDA), alone or behind scalers in a pipeline,
which are affine and fold into the weights. The reading is compared with the model's own answers
before it is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.kernels.arrays import Array
from durometer.model.classifier import Classifier
from durometer.model.exact_types import changed_inside, replaced_method

_Found = tuple[Array, Array, bool] | None


@dataclass(frozen=True, eq=False)
class LinearForm:
    """Scores (C,) = weight (C, d) x + bias (C,): their arg-max is the model's answer.

    `rounding` bounds, relative to sum |w| |x| + |b|, what the model's own arithmetic may be off by.
    """

    weight: Tensor
    bias: Tensor
    rounding: float

    def scores(self, x: Tensor) -> Tensor:
        """(n, C) of flat inputs (n, d)."""
        return x.double() @ self.weight.T + self.bias


def read(model: Classifier, x: Tensor) -> LinearForm | None:
    """The linear form of a model, None if it has none that agrees with it on inputs like x."""
    found = weights_of(model)
    if found is None:
        return None
    weight, bias, single = found
    if len(weight) == 1:  # one score for the second class
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    d = weight.shape[1]
    unit = 2.0**-24 if single else 2.0**-53
    form = LinearForm(
        torch.as_tensor(weight, dtype=torch.float64),
        torch.as_tensor(bias, dtype=torch.float64),
        4 * (d + 4) * unit,
    )
    return form if _agrees(form, model, x) else None


def weights_of(model: Classifier) -> _Found:
    """Weights (C or 1, d) and biases over the model's own inputs, and whether it is in single
    precision; None: it has no such form."""
    return _of_module(model.module) if model.module is not None else _of_estimator(model.source)


def _agrees(form: LinearForm, model: Classifier, x: Tensor) -> bool:
    """Same classes, and the same arg-max wherever the lead is more than rounding."""
    flat = x.reshape(len(x), -1)
    if flat.shape[1] != form.weight.shape[1]:
        return False
    mixed = torch.cat([flat, flat.flip(0), (flat + flat.flip(0)) / 2])
    with torch.no_grad():
        logits = model.logits(mixed.reshape(len(mixed), *x.shape[1:])).double()
    scores = form.scores(mixed)
    if logits.shape != scores.shape:
        return False
    top = scores.topk(2, dim=1).values
    clear = top[:, 0] - top[:, 1] > 1e-5 * (1 + top.abs().amax(1))
    return bool((logits.argmax(1) == scores.argmax(1))[clear].all())


_LAYERS = {torch.nn.Sequential, torch.nn.Flatten, torch.nn.Identity, torch.nn.Linear}


def _of_module(module: torch.nn.Module) -> _Found:
    parts = list(module) if isinstance(module, torch.nn.Sequential) else [module]
    parts = [p for p in parts if not isinstance(p, torch.nn.Flatten | torch.nn.Identity)]
    if len(parts) != 1 or not isinstance(parts[0], torch.nn.Linear):
        return None
    if {type(p) for p in module.modules()} - _LAYERS or changed_inside(module):
        return None  # a subclass, a hook: another function
    layer = parts[0]
    weight = layer.weight.detach().double().cpu().numpy()
    bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().cpu()
    return weight, np.asarray(bias), layer.weight.dtype == torch.float32


def _of_estimator(source: Any) -> _Found:
    steps = [s for _, s in source.steps] if hasattr(source, "steps") else [source]
    last = steps[-1]
    for part in (source, *steps):  # a subclass, or a method of its own, may compute anything
        own = isinstance(part, str) or type(part).__module__.startswith("sklearn.")
        if not own or (not isinstance(part, str) and replaced_method(part) is not None):
            return None
    if not (hasattr(last, "coef_") and hasattr(last, "intercept_")):
        return None
    weight = np.atleast_2d(np.asarray(last.coef_, dtype=np.float64))
    bias = np.atleast_1d(np.asarray(last.intercept_, dtype=np.float64))
    if weight.ndim != 2 or len(bias) != len(weight):
        return None
    for step in reversed(steps[:-1]):
        folded = _affine(step)
        if folded is None:
            return None
        scale, shift = folded  # step(x) = scale * x + shift
        bias = bias + weight @ shift
        weight = weight * scale
    return weight, bias, False


def _affine(step: Any) -> tuple[Array, Array] | None:
    """What a scaler multiplies by and adds."""
    kind = type(step).__name__
    if step == "passthrough":
        return np.ones(1), np.zeros(1)
    if kind == "StandardScaler":
        scale = 1.0 / step.scale_ if step.scale_ is not None else np.ones(step.n_features_in_)
        mean = step.mean_ if step.with_mean else np.zeros(step.n_features_in_)
        return scale, -mean * scale
    if kind == "MinMaxScaler" and not step.clip:
        return np.asarray(step.scale_), np.asarray(step.min_)
    if kind == "MaxAbsScaler":
        return 1.0 / np.asarray(step.scale_), np.zeros(len(step.scale_))
    if kind == "RobustScaler":
        scale = 1.0 / step.scale_ if step.scale_ is not None else np.ones(step.n_features_in_)
        centre = step.center_ if step.center_ is not None else np.zeros(step.n_features_in_)
        return scale, -centre * scale
    return None
