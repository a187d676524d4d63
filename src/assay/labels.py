"""True classes as indices with names."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay import given
from assay.errors import AssayError, nearest


def labels(y: Any, classes: Any) -> tuple[Tensor, tuple[str, ...] | None]:
    """Class indices, and names where labels are no indices: their sorted order is the classes'."""
    names = given.names(classes)
    if y is None:
        raise AssayError("y is missing: give the true classes, y=, or target= for a table")
    values = given.classes(y)
    if values.dtype.kind in "iuf":
        wrong = (
            values[values != np.round(values)] if values.dtype.kind == "f" else values[values < 0]
        )
        if (len(wrong) and values.ndim == 1) or (values.size and values.min() < 0):
            first = wrong.ravel()[0] if wrong.size else values.min()
            raise AssayError(
                f"y holds {first}; expected class indices 0..C-1, or labels as text: "
                "[str(v) for v in y]"
            )
        return torch.as_tensor(np.array(values)).long(), names
    if any(v is None or v != v for v in values.ravel().tolist()):
        raise AssayError("y has missing labels; drop those rows first")
    text = np.array([str(v) for v in values.tolist()]) if values.ndim == 1 else values
    if names is None:
        names = tuple(np.unique(text).tolist())
    unknown = [v for v in text.tolist() if v not in names]
    if unknown:
        raise AssayError(f"y holds '{unknown[0]}', no class{nearest(str(unknown[0]), names)}")
    place = {name: i for i, name in enumerate(names)}
    return torch.tensor([place[v] for v in text.tolist()]), names
