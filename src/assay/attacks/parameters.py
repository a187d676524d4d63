"""What every attack's parameters must be, said before the first query and not after an hour.

In an attack every whole number counts something (steps, restarts, queries, targets) and is at least
1, or its field's `metadata["least"]`; every other number is a size and not negative; `start` names
a place and `loss` a loss. So one rule serves all of them, those inside a combination too, and
whoever adds an attack need not think of it.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

from assay import losses
from assay.errors import AssayError, nearest

STARTS = ("random", "clean", "best")


def check_parameters(attack: Any) -> None:
    """Raise on the first parameter that cannot be meant."""
    if not is_dataclass(attack):
        return
    for field in fields(attack):
        value = getattr(attack, field.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if hasattr(inner, "needs"):
                check_parameters(inner)
        said = f"{type(attack).__name__}({field.name}={value!r})"
        if isinstance(value, int | float) and not isinstance(value, bool):
            kind = "whole number" if "int" in str(field.type) else "number"
            least = field.metadata.get("least", 1 if kind == "whole number" else 0)
            if not least <= value < math.inf:
                raise AssayError(f"{said}: expected a {kind} of at least {least}")
        if field.name == "start" and value not in STARTS:
            raise AssayError(f"{said}: no such start{nearest(str(value), STARTS)}")
        if field.name == "loss" and value is not None:
            losses.find(value)
