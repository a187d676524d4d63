"""What harden is asked, before the first fit: everything that can be refused is refused here.

Model, data, space and goal are refused as `evaluate` would refuse them with the proof that judges
every round. On top of that the model must be one that can be fitted anew with weights, and the rows
must hold something to tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.dataset import Dataset
from durometer.games.static import Static
from durometer.model.classifier import Classifier
from durometer.proofs.trees import Exact
from durometer.training.hardening.counterexamples import NETWORK_JUDGE
from durometer.training.hardening.refit import checked, last_step


def bare(model: Any) -> Any:
    """The user's own model, out of `Static` and `wrap`."""
    model = model.model if isinstance(model, Static) else model
    return model.source if isinstance(model, Classifier) else model


def refuse(model: Any, data: Any, space: Any, goal: Any) -> None:
    """Raise unless this model can be hardened on these data against this."""
    if not isinstance(data, Dataset):
        raise DurometerError(f"data is a {type(data).__name__}; expected du.Dataset(x, y)")
    network = isinstance(model, torch.nn.Module)
    if not network:
        _estimator(model)
        if data.x.ndim != 2:
            raise DurometerError(f"x has shape {tuple(data.x.shape)}; a table is (rows, features)")
    if len(data.y.unique()) < 2:
        only = int(data.y[0]) if data.classes is None else data.classes[int(data.y[0])]
        raise DurometerError(
            f"all {len(data)} rows are of class {only!r}: there is nothing to tell it from; give "
            "the rows the model was trained on"
        )
    if getattr(goal, "together", False):
        raise Unsupported(
            f"harden(goal={goal!r}): a quota is about rows together; use Group, Targeted or "
            "Untargeted"
        )
    judge = NETWORK_JUDGE if network else Exact()
    Static(model).prepare(data, space, goal, judge)


def _estimator(model: Any) -> None:
    from sklearn.utils.validation import has_fit_parameter

    checked(model)
    last = last_step(model)
    if not has_fit_parameter(last, "sample_weight"):
        raise Unsupported(
            f"{type(last).__name__}.fit() takes no sample_weight, which counterexamples need; "
            "harden refits tree ensembles: XGBoost, LightGBM, CatBoost, scikit-learn's"
        )


def refuse_numbers(
    free: Any, shares: dict[str, Any], counts: dict[str, Any], others: dict[str, Any]
) -> None:  # fmt: skip
    """Raise unless these are shares in [0, 1], counts from 1 on, and numbers from 0 on."""
    if not isinstance(free, Sequence) or not free or not all(_share(f) for f in free):
        raise DurometerError(
            f"harden(free={free!r}): expected shares of the trees, e.g. (0, 0.1, 1)"
        )
    for name, value in shares.items():
        if value is not None and not _share(value):
            raise DurometerError(f"harden({name}={value!r}): expected a share between 0 and 1")
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise DurometerError(f"harden({name}={value!r}): expected a whole number from 1 on")
    for name, number in others.items():
        if not (_number(number) and number >= 0 and (number > 0 or name == "caution")):
            raise DurometerError(f"harden({name}={number!r}): expected a positive number")


def _share(value: Any) -> bool:
    return _number(value) and 0 <= value <= 1


def _number(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
