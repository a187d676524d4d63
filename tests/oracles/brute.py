"""Every valid record near one, by plain loops: the judge of proofs in small tables.

Shares nothing with the library but the schema's own description; relations are Python functions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np


def records(
    x0: np.ndarray, values: Sequence[Sequence[float]], kinds: Sequence[str], eps: float, p: float,
    rule: Callable[[np.ndarray], np.ndarray], groups: Sequence[Sequence[int]] = (),
) -> np.ndarray:  # fmt: skip
    """All records whose column j is one of values[j], within eps of x0, that satisfy the rule.

    kinds[j] is "number" (scaled by its range), "category" (a change is two coordinates of 1) or
    "member" of one of the one-hot `groups`.
    """
    grid = np.array(list(itertools.product(*values)), dtype=float)
    for members in groups:
        grid = grid[grid[:, list(members)].sum(1) == 1]
    grid = grid[rule(grid)]
    parts = []
    for j, kind in enumerate(kinds):
        if kind == "category":
            off = (grid[:, j] != x0[j]).astype(float)
            parts += [off] if p == 0 else [off, off]
        elif kind == "member" and p == 0:
            continue
        else:
            width = max(values[j]) - min(values[j])
            parts.append(np.abs(grid[:, j] - x0[j]) / width)
    for members in groups if p == 0 else ():
        parts.append((grid[:, list(members)] != x0[list(members)]).any(1).astype(float))
    size = np.array(parts)
    far = (size > 0).sum(0) if p == 0 else size.max(0) if p == math.inf else (size**p).sum(0)
    return grid[far <= (eps if p in (0, math.inf) else eps**p) * (1 + 1e-9)]
