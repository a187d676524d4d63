"""One label of a model that gives several for a row, as a classifier of two classes.

scikit-learn's multi-label estimators keep what they know of a label in different places:

    MultiOutputClassifier, OneVsRestClassifier, ClassifierChain    `estimators_`, one for each label
    forests, trees, k neighbours     `predict_proba` is a list, (n, 2) for each label
    networks, OneVsRestClassifier    `predict_proba` is (n, labels), the probability of a 1

What a reader would get wrong: `predict` of the whole decides, and the scores only where the label
has its own; a chain's estimator asks for the labels before it and is never asked alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from durometer.core.errors import DurometerError, Unsupported

_EACH_ITS_OWN = ("MultiOutputClassifier", "OneVsRestClassifier")


@dataclass(frozen=True, eq=False)
class OneLabel:
    """A fitted estimator of several labels, asked for one of them."""

    estimator: Any
    label: int

    @property
    def classes_(self) -> np.ndarray:
        """The two values of the label."""
        known = getattr(self.estimator, "classes_", None)
        return np.asarray(known[self.label]) if isinstance(known, list) else np.array([0, 1])

    @property
    def feature_names_in_(self) -> Any:
        """The columns it was fitted with."""
        return self.estimator.feature_names_in_

    @property
    def n_features_in_(self) -> int:
        """How many columns it was fitted on."""
        return int(self.estimator.n_features_in_)

    def predict(self, rows: Any) -> np.ndarray:
        """The label of each row (n,)."""
        return np.asarray(self.estimator.predict(rows))[:, self.label]

    @property
    def predict_proba(self) -> Callable[[Any], np.ndarray]:
        """The probabilities of the label's two values (n, 2)."""
        ask = self.estimator.predict_proba

        def each(rows: Any) -> np.ndarray:
            found = ask(rows)
            if isinstance(found, list):
                return np.asarray(found[self.label])
            one = np.asarray(found)[:, self.label]
            return np.stack([1 - one, one], 1)

        return each


class OneOutput(nn.Module):
    """A network of several outputs, of which one is the answer (n,)."""

    def __init__(self, network: nn.Module, label: int) -> None:
        super().__init__()
        self.network, self.label = network, label

    def forward(self, x: Tensor) -> Tensor:
        """(n, 1)."""
        out = self.network(x)
        if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[1] <= self.label:
            shape = tuple(getattr(out, "shape", ())) or type(out).__name__
            raise DurometerError(f"label={self.label}: the network gives {shape}, one row a label?")
        return out[:, self.label : self.label + 1]


def one_label(model: Any, label: Any) -> Any:
    """The model that answers for one label (a place among them), of a model of several."""
    if isinstance(label, bool) or not isinstance(label, int | np.integer) or label < 0:
        raise DurometerError(f"label={label!r}: expected the place of a label, 0, 1, ..")
    label = int(label)
    if isinstance(model, nn.Module):
        return OneOutput(model, label)
    if not hasattr(model, "predict"):
        if callable(model):
            return _of_function(model, label)
        raise Unsupported(
            f"label={label}: give the fitted estimator, the torch module or the function itself"
        )
    name = type(model).__name__
    if name in _EACH_ITS_OWN and not hasattr(model, "estimators_"):
        raise DurometerError(f"label={label}: this {name} is not fitted; call fit(X, Y) first")
    count = labels_of(model)
    if count is None or label >= count:
        some = "one label a row" if count is None else f"{count} labels a row"
        raise DurometerError(f"label={label}: {name} gives {some}")
    if name in _EACH_ITS_OWN and not hasattr(model, "feature_names_in_"):
        return model.estimators_[label]  # which may be read, and proven
    return OneLabel(model, label)


def labels_of(model: Any) -> int | None:
    """How many labels an estimator gives for a row; None: one."""
    known = getattr(model, "classes_", None)
    if isinstance(known, list):
        return len(known)
    if getattr(model, "multilabel_", False):
        return len(model.estimators_)
    binarizer = getattr(model, "_label_binarizer", None)  # a network's: it holds the kind of y
    if getattr(binarizer, "y_type_", "").startswith("multilabel"):
        return int(model.n_outputs_)
    return None


def _of_function(model: Callable[[Any], Any], label: int) -> Callable[[Any], Any]:
    def one(x: Any) -> Any:
        out = model(x)
        shape = tuple(getattr(out, "shape", ()))
        if len(shape) != 2 or shape[1] <= label:
            raise DurometerError(
                f"label={label}: the model gives an output of shape {shape}; expected (n, labels)"
            )
        return out[:, label]

    one.__name__ = f"{getattr(model, '__name__', type(model).__name__)}, label {label}"
    return one
