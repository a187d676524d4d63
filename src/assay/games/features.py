"""Records as rows of features, their names, and which features' noise matters to a `Nature`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from assay.data import Dataset
from assay.errors import AssayError
from assay.kernels.arrays import Floats
from assay.noise.silenced import silenced

if TYPE_CHECKING:
    from assay.games.nature import Nature


def gains(nature: Nature, data: Any, x: Floats, seed: int) -> Any:
    """What each record gains when one feature reads exactly: a DataFrame (records x features)."""
    import pandas as pd

    ready = nature._ready()
    stays = np.eye(ready._classes(x), dtype=bool)[ready.predict(x)]
    before = ready.probability(x, stays, seed=seed).middle
    gained = {
        name: replace(ready, noise=silenced(nature.noise, f, x.shape[1]))
        .probability(x, stays, seed=seed)
        .middle
        - before
        for f, name in enumerate(names(data, x.shape[1]))
    }
    rows = data.ids if isinstance(data, Dataset) else getattr(data, "index", None)
    return pd.DataFrame(gained, index=rows)


def rows_of(data: Any) -> Floats:
    """Records as float64 (n, features)."""
    x = data.x if isinstance(data, Dataset) else data
    x = x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    if x.ndim < 2:
        raise AssayError(
            f"records of shape {x.shape}: expected (n, features); one alone is x[None]"
        )
    return np.ascontiguousarray(x.reshape(len(x), -1).astype(np.float64))


def names(data: Any, features: int) -> list[Any]:
    """Columns with their units, names of a schema, or numbers."""
    if getattr(data, "columns", None) is not None:
        units = getattr(data, "attrs", {}).get("units", {})
        return [f"{name} [{units[name]}]" if name in units else name for name in data.columns]
    listed = getattr(getattr(data, "schema", None), "names", None)
    return list(listed) if listed is not None and len(listed) == features else list(range(features))
