"""How an amount is written for people: the fewest digits that say it, and 8/255 where it is that.

What a reader would get wrong: 0.0313725 is not "about 0.03": it is eight of the 255 steps between
two levels of a picture, and whoever set it wrote 8/255. A number that is short as a decimal stays
one: 0.2 is 51/255 too, and nobody calls it that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LEVELS = 255  # steps of a picture's pixel between 0 and 1


def format_number(value: float) -> str:
    """The number as its owner would write it.

    >>> [format_number(v) for v in (8 / 255, 0.1, 0.2, 3.0, 0.5 / 255)]
    ['8/255', '0.1', '0.2', '3', '0.5/255']
    """
    per = levels(value)
    return f"{round(2 * value * per) / 2:g}/{per}" if per > 1 else f"{value:g}"


def levels(value: float) -> int:
    """255 where a number is whole or half steps of a pixel and no short decimal, else 1."""
    steps = 2 * value * LEVELS  # half steps: 0.5/255 is asked for, too
    if not 1 <= abs(steps) <= 2 * LEVELS or float(f"{value:.3g}") == value:
        return 1
    return LEVELS if abs(steps - round(steps)) <= 1e-6 * abs(steps) else 1


def format_sizes(value: Any) -> str:
    """An eps for people, also where each channel or feature has its own.

    >>> format_sizes(0.1), format_sizes([8 / 255, 4 / 255, 0]), format_sizes([[0.1], [0.2]] * 40)
    ('0.1', '8/255, 4/255, 0', '0.1 to 0.2')
    """
    if not isinstance(value, Sequence):
        return format_number(float(value))
    numbers = flatten(value)
    if len(numbers) <= 8 and len(numbers) == len(value):
        return ", ".join(map(format_number, numbers))
    return f"{format_number(min(numbers))} to {format_number(max(numbers))}"


def flatten(value: Any) -> list[float]:
    """The numbers of nested lists, or the one number."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [number for part in value for number in flatten(part)]
    return [float(value)]


def format_setting(value: object) -> str:
    """A setting of a sweep in a few characters.

    >>> format_setting(0.1), format_setting({"type": "Linf", "eps": 0.1})
    ('0.1', 'Linf 0.1')
    """
    return " ".join(map(str, value.values())) if isinstance(value, dict) else str(value)
