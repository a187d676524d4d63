"""The functions of the constraint language on tensors: a value, and where it is undefined.

What a reader would get wrong: `torch.where(b == 0, fill, a / b)` has the right value and a gradient
of NaN, because 0 * inf flows back through the branch not taken. So the bad operand is replaced
*before* the function is applied.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from durometer.core.errors import DurometerError

Value = tuple[
    Tensor, Tensor | None
]  # the value, and a mask of where it is undefined (None: nowhere)


def operate(op: str, args: list[Value]) -> Value:
    """Apply an operation of the language to values (n, k) (or constants (k,))."""
    values = [v for v, _ in args]
    bad: Tensor | None = None
    for _, mask in args:
        if mask is not None:
            bad = mask if bad is None else bad | mask
    a = values[0]
    if op == "+":
        return reduce(torch.add, values), bad
    if op == "neg":
        return -a, bad
    if op == "abs":
        return torch.where(a >= 0, a, -a), bad
    if op == "floor":
        hard = a.detach().floor()
        return hard + (a - a.detach()), bad  # straight through: the slope of the stairs
    if op == "min":
        return reduce(torch.minimum, values), bad
    if op == "max":
        return reduce(torch.maximum, values), bad
    if op == "log":
        wrong = a <= 0
        out = torch.log(torch.where(wrong, 1.0, a))
        return (
            (torch.where(wrong, values[1], out), bad)
            if len(values) == 2
            else _mark(out, bad, wrong)
        )
    b = values[1]
    if op == "fill":
        return torch.where(a.isnan(), b, a), bad
    if op == "*":
        return a * b, bad
    if op in ("/", "divide"):
        wrong = b == 0
        out = a / torch.where(wrong, 1.0, b)
        return (
            (torch.where(wrong, values[2], out), bad) if op == "divide" else _mark(out, bad, wrong)
        )
    if op == "%":
        wrong = b == 0
        divisor = torch.where(wrong, 1.0, b)
        # Not torch.remainder: there a multiple of a rounded divisor leaves almost the divisor.
        return _mark(a - divisor * (a / divisor).floor(), bad, wrong)
    if op == "**":
        wrong = ((a < 0) & (b != b.floor())) | ((a == 0) & (b < 0))
        return _mark(torch.pow(torch.where(wrong, 1.0, a), b), bad, wrong)
    raise DurometerError(f"unknown operation '{op}'")


def _mark(value: Tensor, bad: Tensor | None, wrong: Tensor) -> Value:
    if not bool(wrong.any()):
        return value, bad
    return value, wrong if bad is None else bad | wrong
