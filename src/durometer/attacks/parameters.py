"""What every attack's parameters must be, said before the first query and not after an hour.

Numbers are counts or sizes (`fields.check_numbers`), `start` names a place and `loss` a loss. One
rule serves all attacks, those inside a combination too, and whoever adds an attack need not think
of it.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

from durometer import losses
from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import check_numbers, format_field

STARTS = ("random", "clean", "best")


def check_made(said: str, attack: Any) -> None:
    """An attack, and made: `PGD()`, not `PGD`. `said` is how it was given: "attack={}"."""
    if isinstance(attack, type):
        name = attack.__name__
        raise DurometerError(f"{said.format(name)}: not the class but {name}()")
    if not callable(attack) or not _has_needs(attack):
        raise DurometerError(
            f"{said.format(repr(attack))}: this is no attack; expected e.g. du.APGD()"
        )


def _has_needs(attack: Any) -> bool:
    """Without asking for them: a combination of attacks that were not made would stumble."""
    return inspect.getattr_static(attack, "needs", None) is not None


def check_parameters(attack: Any) -> None:
    """Raise on the first parameter that cannot be meant."""
    if not is_dataclass(attack):
        return
    for field in fields(attack):
        value = getattr(attack, field.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if "Attack" in str(field.type) or _has_needs(inner):
                check_made(f"{type(attack).__name__}({field.name}={{}})", inner)
                check_parameters(inner)
        if field.name == "start" and value not in STARTS:
            raise DurometerError(
                f"{format_field(attack, field)}: no such start{nearest(str(value), STARTS)}"
            )
        if field.name == "loss" and value is not None:
            losses.find(value)
    check_numbers(attack)


def own_losses(attack: Any) -> list[losses.Loss]:
    """The functions that an attack, or one inside it, was given as a loss."""
    if not is_dataclass(attack):
        return []
    found: list[losses.Loss] = []
    for field in fields(attack):
        value = getattr(attack, field.name)
        if field.name == "loss" and callable(value):
            found.append(value)
        for inner in value if isinstance(value, tuple) else (value,):
            found += own_losses(inner) if _has_needs(inner) else []
    return found
