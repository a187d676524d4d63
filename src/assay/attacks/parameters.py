"""What every attack's parameters must be, said before the first query and not after an hour.

In an attack every whole number counts something (steps, restarts, queries, targets) and is at least
1, or its field's `metadata["least"]`; every other number is a size and not negative; `start` names
a place and `loss` a loss. So one rule serves all of them, those inside a combination too, and
whoever adds an attack need not think of it. Defenders are held to it, too; their `seed` counts
nothing and may be 0.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import fields, is_dataclass
from typing import Any

from assay import losses
from assay.errors import AssayError, nearest

STARTS = ("random", "clean", "best")


def check_made(said: str, attack: Any) -> None:
    """An attack, and made: `PGD()`, not `PGD`. `said` is how it was given: "attack={}"."""
    if isinstance(attack, type):
        name = attack.__name__
        raise AssayError(f"{said.format(name)}: not the class but {name}()")
    if not callable(attack) or not _has_needs(attack):
        raise AssayError(f"{said.format(repr(attack))}: this is no attack; expected e.g. ay.APGD()")


def _has_needs(attack: Any) -> bool:
    """Without asking for them: a combination of attacks that were not made would stumble."""
    return inspect.getattr_static(attack, "needs", None) is not None


def check_parameters(attack: Any) -> None:
    """Raise on the first parameter that cannot be meant."""
    if not is_dataclass(attack):
        return
    for field in fields(attack):
        value = getattr(attack, field.name)
        said = f"{type(attack).__name__}({field.name}={value!r})"
        for inner in value if isinstance(value, tuple) else (value,):
            if "Attack" in str(field.type) or _has_needs(inner):
                check_made(f"{type(attack).__name__}({field.name}={{}})", inner)
                check_parameters(inner)
        kinds = str(field.type).split(" | ")
        if ("int" in kinds or "float" in kinds) and not (value is None and "None" in kinds):
            whole = "float" not in kinds
            least = field.metadata.get("least", 1 if whole and field.name != "seed" else 0)
            number = isinstance(value, int if whole else int | float)
            if not number or isinstance(value, bool) or not least <= value < math.inf:
                kind = "whole number" if whole else "number"
                raise AssayError(f"{said}: expected a {kind} of at least {least}")
        if field.name == "start" and value not in STARTS:
            raise AssayError(f"{said}: no such start{nearest(str(value), STARTS)}")
        if field.name == "loss" and value is not None:
            losses.find(value)
