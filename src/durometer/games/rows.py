"""Records as rows of numbers, and what their features are called."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.kernels.arrays import Floats


def rows_of(data: Any) -> Floats:
    """Records as float64 (n, features), whatever they come in."""
    x = data.x if isinstance(data, Dataset) else data
    x = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if x.ndim < 2:
        raise DurometerError(
            f"records of shape {x.shape}: expected (n, features); one alone is x[None]"
        )
    return np.ascontiguousarray(x.reshape(len(x), -1).astype(np.float64))


def feature_names(data: Any, features: int) -> list[Any]:
    """Columns with their units, names of a schema, or numbers."""
    if getattr(data, "columns", None) is not None:
        units = getattr(data, "attrs", {}).get("units", {})
        return [f"{name} [{units[name]}]" if name in units else name for name in data.columns]
    listed = getattr(getattr(data, "schema", None), "names", None)
    return list(listed) if listed is not None and len(listed) == features else list(range(features))
