"""Which rule held the attacker back: for each changed feature of a record, what stops it there.

A rule binds a changed feature if going on in the same direction, all else equal, would break it:
one more unit for whole numbers, a hundredth of the change for others. The question is put to the
schema's own judge, so it works for every relation that can be written, equalities included (these
bind whatever they touch: the attacker had to move several features together).

What a reader would get wrong: this is a statement about one feature at a time. A rule that binds
can often be kept by moving another feature along, which is what the attacks' repair does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from durometer.tables.validation import bounded

_SHARE = 0.01  # of the change, that a real-valued feature is pushed on


def binding(schema: Any, clean: np.ndarray, adversarial: np.ndarray) -> list[dict[int, list[str]]]:
    """For each record, changed feature -> the rules that would break if it went on."""
    x0 = torch.as_tensor(clean, dtype=torch.float64).reshape(len(clean), -1)
    x = torch.as_tensor(adversarial, dtype=torch.float64).reshape(x0.shape)
    change = x - x0
    row, column = change.nonzero(as_tuple=True)
    found: list[dict[int, list[str]]] = [{} for _ in range(len(x0))]
    if not len(row):
        return found
    step = change[row, column]
    step = torch.where(schema.whole[column], step.sign(), _SHARE * step)
    pushed = x[row]
    pushed[torch.arange(len(row)), column] += step
    held = schema.program.holds(x, x0)[row]
    broken = held & ~schema.program.holds(pushed, x0[row])
    inside = bounded(schema, pushed, x0[row])[torch.arange(len(row)), column]
    rules = [str(r) for r in schema.relations]
    for k, (i, j) in enumerate(zip(row.tolist(), column.tolist(), strict=True)):
        names = [rules[r] for r in broken[k].nonzero()[:, 0].tolist()]
        f = schema.features[j]
        if not bool(inside[k]):
            end = f.high if step[k] > 0 else f.low
            said = f"{end:g}" if isinstance(end, int | float) else str(end)
            names.append(f"{f.name} {'<=' if step[k] > 0 else '>='} {said}")
        if names:
            found[i][j] = names
    return found
