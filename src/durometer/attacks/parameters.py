"""Attacks as they are given: an attack and no class, and the losses that one brings along."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

from durometer import losses
from durometer.core.errors import DurometerError


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
