"""Operating thresholds: scikit-learn's wrappers that say at which score the positive class begins.

`FixedThresholdClassifier` and `TunedThresholdClassifierCV` predict the positive class where its
score is at least a threshold, whatever the arg-max of their probabilities says. As scores they are
asked for the distance from that threshold (of probabilities, in log odds).

What a reader would get wrong: a score that equals the threshold is positive, so no distance is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from durometer.model.rules import log_odds

_WRAPPERS = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
_LEAST = 1e-9


@dataclass(frozen=True)
class Threshold:
    """The rule of a wrapper: class `positive` (0 or 1) where `method` gives at least `value`."""

    estimator: Any
    value: float
    positive: int
    method: Literal["predict_proba", "decision_function"]

    def margins(self, rows: Any) -> np.ndarray:
        """(n,): above 0 where class 1 is predicted, below 0 where class 0 is; never 0."""
        found = np.asarray(getattr(self.estimator, self.method)(rows), dtype=float)
        if self.method == "predict_proba":
            score = found[:, self.positive]
            far = log_odds(score) - log_odds(np.array(self.value))
        else:
            score = found if self.positive == 1 else -found
            far = score - self.value
        far = np.where(score >= self.value, np.maximum(far, _LEAST), np.minimum(far, -_LEAST))
        return np.asarray(far if self.positive == 1 else -far)


def threshold_of(model: Any) -> Threshold | None:
    """The rule of a fitted threshold wrapper; None: it is none, or not one we know."""
    kind = type(model)
    if kind.__name__ not in _WRAPPERS or not kind.__module__.startswith("sklearn.model_selection"):
        return None
    estimator = getattr(model, "estimator_", model.estimator)
    if len(getattr(model, "classes_", ())) != 2:
        return None
    asked = model.response_method
    method: Literal["predict_proba", "decision_function"]
    if asked in ("auto", "predict_proba") and hasattr(estimator, "predict_proba"):
        method = "predict_proba"
    elif asked in ("auto", "decision_function") and hasattr(estimator, "decision_function"):
        method = "decision_function"
    else:
        return None
    if kind.__name__ == "FixedThresholdClassifier":
        value, label = model.threshold, model.pos_label
        value = (0.5 if method == "predict_proba" else 0.0) if value == "auto" else value
    else:
        value, label = model.best_threshold_, model._curve_scorer._get_pos_label()  # noqa: SLF001
    positive = 1 if label is None else int(np.flatnonzero(np.asarray(model.classes_) == label)[0])
    return Threshold(estimator, float(value), positive, method)
