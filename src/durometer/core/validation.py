"""What a noun's numbers must be, said when it is made or used and not after an hour.

Every whole number counts something (steps, restarts, queries, rounds) and is at least 1, or its
field's `metadata["least"]`; every other number is a size and not negative; a `seed` counts nothing
and may be 0. `metadata["most"]` bounds a share. Nothing is counted beyond 10^12: nobody would see
the end of it, and larger numbers overflow inside. So one rule serves attacks, defenders and games,
and whoever adds one need not think of it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import Field, fields
from typing import Any

from durometer.core.errors import DurometerError

MOST = 10**12  # of anything that is counted


def check_numbers(noun: Any) -> None:
    """Raise on the first number of a dataclass that cannot be meant."""
    for field in fields(noun):
        value = getattr(noun, field.name)
        kinds = str(field.type).split(" | ")
        if ("int" in kinds or "float" in kinds) and not (value is None and "None" in kinds):
            _check(field, value, whole="float" not in kinds, said=format_field(noun, field))


def format_field(noun: Any, field: Field[Any]) -> str:
    """A field as it was given, for messages: "PGD(steps=0)"."""
    value = getattr(noun, field.name)
    shown = repr(value) if not _vast(value) else f"a number of {value.bit_length()} bits"
    return f"{type(noun).__name__}({field.name}={shown})"


def _vast(value: Any) -> bool:
    """Python itself refuses to write whole numbers of many thousand digits."""
    return isinstance(value, int) and value.bit_length() > 200


def _check(field: Field[Any], value: Any, whole: bool, said: str) -> None:
    least = field.metadata.get("least", 1 if whole and field.name != "seed" else 0)
    number = isinstance(value, int if whole else int | float)
    if not number or isinstance(value, bool) or not least <= value < math.inf:
        kind = "whole number" if whole else "number"
        raise DurometerError(f"{said}: expected a {kind} of at least {least}")
    most = MOST if whole and field.name != "seed" else sys.float_info.max
    most = field.metadata.get("most", most)
    if value > most:
        raise DurometerError(f"{said}: expected a number of at most {most:g}")
