"""What a table asks of a record, as linear rows: relations, one-hot groups, codes of categories.

A proof may forget a rule, never invent one: a relation that is not linear is left out, a strict
inequality is taken with its edge, a tolerance is added in full. So the rows hold for every valid
record (an outer set), and what is impossible under them is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from durometer.kernels.arrays import Array
from durometer.relations.expression import And, Compare, Or, Relation
from durometer.relations.intervals import interval
from durometer.relations.normal_form import Layout, is_whole, linear, normal_form, scale
from durometer.tables.region import TableRegion


@dataclass(frozen=True, eq=False)
class Row:
    """sum of weights * x[places] <= most."""

    places: Array
    weights: Array
    most: float


Clause = tuple[tuple[Row, ...], ...]  # one of these conjunctions must hold


def rules(region: TableRegion, k: int, low: Tensor, high: Tensor) -> tuple[list[Row], list[Clause]]:
    """The rows that record k of a region must satisfy within its box, and the "this or that"s."""
    schema, tolerance = region.space.schema, region.space.tolerance
    layout = schema.layout
    ranges = {name: (float(low[k, i]), float(high[k, i])) for i, name in enumerate(schema.names)}
    x0 = region.x0[k].numpy()

    def compare(r: Compare) -> tuple[Row, ...] | None:
        form = linear(r.left - r.right)
        if form is None or r.op == "!=":
            return None
        terms, constant = form
        now = {layout.place[n]: w for (n, was), w in terms.items() if not was and w != 0}
        constant += sum(w * x0[layout.place[n]] for (n, was), w in terms.items() if was)
        places, weights = np.array(list(now), dtype=np.int64), np.array(list(now.values()))
        sizes = [abs(v) for e in (r.left, r.right) for v in interval(e, ranges)]
        unit = min(1.0, scale(r, layout))
        slack = r.tolerance if r.tolerance is not None else tolerance * max(unit, *sizes)
        whole = is_whole(r.left, layout) and is_whole(r.right, layout)
        if whole and r.tolerance is None:
            slack = min(slack, 0.49)
        if r.op == "<":
            slack = -1.0 + 1e-6 if whole else 0.0
        above = Row(places, weights, slack - constant)
        return (above, Row(places, -weights, slack + constant)) if r.op == "==" else (above,)

    def conjunction(r: Relation) -> tuple[Row, ...] | None:
        """All rows of a conjunction; None if a part is not linear (leaving it out is allowed)."""
        if isinstance(r, Compare):
            return compare(r)
        if isinstance(r, And):
            found = [p for part in r.operands if (p := conjunction(part)) is not None]
            return tuple(row for part in found for row in part) if found else None
        return None

    rows: list[Row] = []
    clauses: list[Clause] = []
    for r in schema.relations:
        for part in _parts(normal_form(r, layout)):
            either = part.operands if isinstance(part, Or) else (part,)
            options = [conjunction(o) for each in either for o in _sides(each, layout)]
            if len(options) == 1:
                rows += options[0] or ()
            elif all(o is not None for o in options):
                clauses.append(tuple(o for o in options if o is not None))
    return rows, clauses


def _sides(r: Relation, layout: Layout) -> tuple[Relation, ...]:
    """Two whole numbers that differ: one of them is less."""
    if not isinstance(r, Compare) or r.op != "!=" or r.tolerance is not None:
        return (r,)
    if not (is_whole(r.left, layout) and is_whole(r.right, layout)):
        return (r,)
    return (replace(r, op="<"), replace(r, op="<", left=r.right, right=r.left))


def _parts(r: Relation) -> Iterator[Relation]:
    if isinstance(r, And):
        for part in r.operands:
            yield from _parts(part)
    else:
        yield r
