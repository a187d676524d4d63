"""Relations between features: a small constraint language and its compiler.

The words one writes: `F.column`, arithmetic and comparisons, and the functions below. It knows
nothing of spaces, attacks or tables.
"""

from durometer.relations.expression import Relation
from durometer.relations.language import (
    F,
    count,
    divide,
    fill,
    floor,
    implies,
    log,
    maximum,
    minimum,
    where,
)

__all__ = [
    "F",
    "Relation",
    "count",
    "divide",
    "fill",
    "floor",
    "implies",
    "log",
    "maximum",
    "minimum",
    "where",
]
