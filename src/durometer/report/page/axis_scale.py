"""Ticks of an axis: round numbers in the problem's own units.

A picture's changes are counted in steps of 1/255 of a pixel, so their ticks are 2/255, 4/255 and
not 0.00784314; all others are 1, 2, 2.5 or 5 times a power of ten (Heckbert, "Nice numbers for
graph labels", Graphics Gems 1990).

What a reader would get wrong: rounding the labels of evenly cut axes is not the same. A tick says
0.1 only where 0.1 is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from durometer.core.number_format import flatten, levels
from durometer.core.spec import Spec

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def step(span: float, most: int, whole: bool = False) -> float:
    """The smallest round step that cuts `span` into at most `most` pieces.

    >>> step(0.93, 5), step(7, 4, whole=True), step(3, 10, whole=True)
    (0.2, 2.0, 1.0)
    """
    if not span > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    allowed = (1.0, 2.0, 5.0, 10.0) if whole else _STEPS
    found = next(m * power for m in allowed if span <= most * m * power * (1 + 1e-9))
    return max(float(f"{found:.2g}"), 1.0 if whole else 0.0)


def ticks(low: float, high: float, most: int = 6, per: int = 1, whole: bool = False) -> list[float]:
    """Round numbers from `low` to `high`, counted in units of 1/`per`.

    >>> ticks(0, 0.93), ticks(0, 8 / 255, per=255)[1:3] == [2 / 255, 4 / 255]
    ([0.0, 0.2, 0.4, 0.6, 0.8], True)
    """
    a, b = low * per, high * per
    wide = step(b - a, most, whole or (per > 1 and b - a >= 2))
    first = math.ceil(a / wide - 1e-9)
    last = math.floor(b / wide + 1e-9)
    return [float(f"{k * wide:.12g}") / per for k in range(first, last + 1)]


def powers(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with 2 and 5 between where there are few.

    >>> powers(1, 1250), powers(3, 60)
    ([1.0, 10.0, 100.0, 1000.0], [5.0, 10.0, 20.0, 50.0])
    """
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < 2.5
    found = [m * 10.0**k for k in exponents for m in ((1.0, 2.0, 5.0) if few else (1.0,))]
    return [v for v in found if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]


def shown(value: float, per: int = 1) -> str:
    """A tick's label; one unit of many is written as what it is.

    >>> shown(8 / 255, 255), shown(0.25), shown(12000.0), shown(0.0, 255)
    ('8/255', '0.25', '12,000', '0')
    """
    if per > 1 and value:
        return f"{value * per:g}/{per}"
    if 1e3 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def amount(value: float, per: int = 1, digits: int = 4) -> str:
    """Any number, rounded, in the same units.

    >>> amount(0.01569, 255, 3), amount(0.123456)
    ('4/255', '0.1235')
    """
    steps = float(value) * per
    return f"{steps:.{digits}g}/{per}" if per > 1 and steps else f"{float(value):.{digits}g}"


def budget(spec: Spec) -> float | None:
    """The eps of the run's space, where it has one; of one per channel the largest."""
    space = spec.space
    while isinstance(space, Mapping) and isinstance(space.get("inner"), Mapping):
        space = space["inner"]
    eps = space.get("eps") if isinstance(space, Mapping) else None
    return max(flatten(eps)) if isinstance(eps, int | float | list | tuple) else None


def units(spec: Spec) -> int:
    """In how many steps a unit is cut where distances of this run are counted: 255, or 1."""
    return levels(budget(spec) or 0.0)
