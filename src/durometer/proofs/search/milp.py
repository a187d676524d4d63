"""The best record of a table for a linear score, by a mixed-integer program (HiGHS, in scipy).

Variables are the features (whole ones whole), a binary per value of a category, and what the
distance needs: |change| in L1 and in a cost budget, a binary "changed" in L0, and in L2 a square
per feature that is held from below by tangents. L2 alone is not linear: tangents are added where
the last solution bent them until it lies in the ball, first while whole numbers need not be whole;
every bound on the way is valid.

What a reader would get wrong: the answer is a *bound* (`HiGHS` may stop at its time), and relations
that are not linear were left out. So a bound below 0 is a proof, and a point above 0 is a candidate
that the referee still has to accept.

What a table asks of a record, as linear rows: relations, one-hot groups, codes of categories.

A proof may forget a rule, never invent one: a relation that is not linear is left out, a strict
inequality is taken with its edge, a tolerance is added in full. So the rows hold for every valid
record (an outer set), and what is impossible under them is impossible.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from durometer.kernels.arrays import Array
from durometer.relations.expression import And, Compare, Or, Relation
from durometer.relations.intervals import interval
from durometer.relations.normal_form import Layout, is_whole, linear, normal_form, scale
from durometer.tables.region import TableRegion
from durometer.tables.schema import Schema

_CUTS = 40  # rounds of tangents
_ONE_AT_A_TIME = threading.Lock()
Squares = list[tuple[int, int, float, float, bool]]  # (column, its square, original, width, whole)


@dataclass(eq=False)
class Program:
    """Rows and columns of one program, as they are collected."""

    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[Array, Array, float, float]] = field(default_factory=list)  # at most, least

    def column(self, low: float, high: float, whole: bool = False) -> int:
        """A new variable; its number."""
        self.low.append(low)
        self.high.append(high)
        self.whole.append(int(whole))
        return len(self.low) - 1

    def row(self, terms: dict[int, float], most: float, least: float = -np.inf) -> None:
        """least <= sum of terms <= most."""
        places, weights = np.array(list(terms), dtype=np.int64), np.array(list(terms.values()))
        self.rows.append((places, weights, most, least))

    def solve(
        self, objective: Array, seconds: float, relaxed: bool = False, exact: bool = False
    ) -> tuple[float, Array | None]:
        """An upper bound on the objective, and the best point found; -inf: there is no point.

        `relaxed`: whole numbers need not be whole, which takes a hundredth of the time. `exact`:
        bound and point meet; else they may differ by a ten-thousandth.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        starts = np.cumsum([0, *(len(p) for p, *_ in self.rows)])
        data = np.concatenate([w for _, w, *_ in self.rows]) if self.rows else np.zeros(0)
        places = np.concatenate([p for p, *_ in self.rows]) if self.rows else np.zeros(0, int)
        matrix = csr_array((data, places, starts), shape=(len(self.rows), len(self.low)))
        most, least = (np.array([r[k] for r in self.rows]) for k in (2, 3))
        cost = np.zeros(len(self.low))
        cost[: len(objective)] = -objective
        with _quiet():
            found = milp(
                cost,
                integrality=np.array(self.whole) * (not relaxed),
                bounds=Bounds(np.array(self.low), np.array(self.high)),
                constraints=LinearConstraint(matrix, least, most) if self.rows else (),
                options={"time_limit": seconds, **({"mip_rel_gap": 1e-9} if exact else {})},
            )
        if found.status == 2:  # infeasible: no valid record at all
            return -np.inf, None
        bound = getattr(found, "mip_dual_bound", None)
        if bound is None or not np.isfinite(bound):
            bound = found.fun if found.status == 0 else -np.inf
        return -float(bound) if bound is not None else np.inf, found.x


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """HiGHS prints to the process's own output when it mends a solution; nobody asked for that."""
    try:
        kept = os.dup(1)
    except OSError:  # there is no such output
        yield
        return
    flush = ctypes.CDLL(None).fflush if os.name == "posix" else lambda _: None
    with _ONE_AT_A_TIME:
        sys.stdout.flush()
        flush(None)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        try:
            yield
        finally:
            flush(None)
            os.dup2(kept, 1)
            os.close(nowhere)
            os.close(kept)


def best(
    region: TableRegion,
    k: int,
    box: tuple[Tensor, Tensor],
    scores: list[tuple[Array, float]],
    seconds: float,
) -> tuple[float, Array | None]:
    """The highest lowest of the linear `scores` (w, b) over record k's region: bound and record."""
    program, squares, _ = records(region, k, box)
    terms = [({int(i): float(w[i]) for i in np.flatnonzero(w)}, b) for w, b in scores]
    bound, point = highest_lowest(program, squares, terms, seconds)
    return bound, None if point is None else point[: region.x0.shape[1]]


def records(
    region: TableRegion, k: int, box: tuple[Tensor, Tensor]
) -> tuple[Program, Squares, dict[int, list[int]]]:
    """Record k's region: its features first, squares to be bent, and binaries of categories."""
    program = Program()
    low, high = (side[k].numpy() for side in box)
    for i, whole in enumerate(region.space.schema.whole.tolist()):
        program.column(low[i], high[i], whole)
    codes = _codes(program, region, low, high)
    squares = _distance(program, region, k, low, high, codes)
    _relations(program, region, k, box)
    return program, squares, codes


def highest_lowest(
    program: Program,
    squares: Squares,
    scores: list[tuple[dict[int, float], float]],
    seconds: float,
    floor: float = -np.inf,
) -> tuple[float, Array | None]:
    """The highest lowest of scores (terms, b) of a program's columns: a bound, and a point.

    Below `floor` nobody wants to know how low: -inf.
    """

    def reach(terms: dict[int, float], top: bool) -> float:
        side = (program.high, program.low)
        return sum(w * side[(w > 0) != top][i] for i, w in terms.items())

    least = min(reach(t, False) + b for t, b in scores)
    margin = program.column(
        max(least - 1.0, floor), max(reach(t, True) + b for t, b in scores) + 1.0
    )
    for terms, b in scores:
        program.row({margin: 1.0, **{i: -w for i, w in terms.items()}}, b)
    objective = np.zeros(margin + 1)
    objective[margin] = 1.0
    bound, point = np.inf, None
    until = time.process_time() + seconds
    for relaxed in (True, False) if squares else (False,):
        for _ in range(_CUTS if squares else 1):
            rest = max(0.01, until - time.process_time())
            bound, found = program.solve(objective, rest, relaxed)
            point = found if found is not None and not relaxed else point
            if found is None or bound < 0 or not squares or not _bend(program, squares, found):
                break
        if bound < 0:
            return bound, None
    return bound, point


def _codes(program: Program, region: TableRegion, low: Array, high: Array) -> dict[int, list[int]]:
    """A binary for each code of the categories that can move, by column."""
    found = {}
    for column, _, codes, _ in region.space.encoding.categories:
        if high[column] <= low[column]:
            continue
        ons = found[column] = [program.column(0, 1, True) for _ in codes]
        program.row({**{o: float(c) for o, c in zip(ons, codes, strict=True)}, column: -1.0}, 0, 0)
        program.row(dict.fromkeys(ons, 1.0), 1, 1)
    for members in region.space.schema.one_hot_groups.values():
        program.row(dict.fromkeys(members, 1.0), 1, 1)
    return found


def _distance(
    program: Program,
    region: TableRegion,
    k: int,
    low: Array,
    high: Array,
    codes: dict[int, list[int]],
) -> Squares:
    """The ball; in L2 the columns whose squares are to be bent."""
    encoding, p = region.space.encoding, float(region.space.p)
    eps = region.space.radius * (1 + 1e-9)
    if p == np.inf:
        return []  # the box is the ball
    total: dict[int, float] = {}
    most, squares = eps if p < 2 else eps**2, []
    grouped = {i for m in region.space.schema.one_hot_groups.values() for i in m} if p == 0 else {}
    for i, width in zip(encoding.numeric.tolist(), encoding.width.tolist(), strict=True):
        was = float(region.x0[k, i])
        if high[i] <= low[i] or i in grouped:
            continue
        if p == 0:
            changed = program.column(0, 1, True)
            program.row({i: 1.0, changed: -(high[i] - was)}, was)
            program.row({i: -1.0, changed: -(was - low[i])}, -was)
            total[changed] = 1.0
            continue
        far = max(high[i] - was, was - low[i]) / width
        size = program.column(0, far if p == 1 else far**2)
        total[size] = 1.0
        if p == 1:
            program.row({i: 1 / width, size: -1.0}, was / width)
            program.row({i: -1 / width, size: -1.0}, -was / width)
        else:
            squares.append((i, size, was, width, bool(region.space.schema.whole[i])))
            near = 0.5 / width if squares[-1][-1] else far / 3
            for at in (far, -far, near, -near):
                _tangent(program, squares[-1], at)
    for column, _, values, unit in encoding.categories:
        if column in codes:  # two coordinates of `unit` change
            price = {0.0: 1.0, 1.0: 2 * unit, 2.0: 2 * unit**2}[p]
            home = codes[column][int((values == region.x0[k, column]).int().argmax())]
            total[home] = -price
            most -= price
    if p == 0:
        for members in region.space.schema.one_hot_groups.values():
            if any(high[m] > low[m] for m in members):
                at = members[int(region.x0[k, members].argmax())]
                total[at] = total.get(at, 0.0) - 1.0
                most -= 1.0
    program.row(total, most)
    return squares


def _tangent(program: Program, square: tuple[int, int, float, float, bool], at: float) -> None:
    """square >= 2 at z - at^2 for z = (x - original) / width; of whole numbers, the line through
    the squares of both neighbours of `at`, which is higher between them and holds at all others."""
    column, size, was, width, whole = square
    slope, foot = 2 * at, at * at
    if whole:
        k = np.floor(at * width)
        slope, foot = (2 * k + 1) / width, k * (k + 1) / width**2
    program.row({column: slope / width, size: -1.0}, foot + slope * was / width)


def _bend(program: Program, squares: Squares, point: Array) -> bool:
    """Add tangents where the solution's squares are too small; False: nowhere by enough."""
    bent = False
    for square in squares:
        column, size, was, width, whole = square
        z = (point[column] - was) / width
        if whole and abs(z * width - round(z * width)) > 1e-6:
            k = np.floor(z * width)
            low = ((2 * k + 1) * z - k * (k + 1) / width) / width
        else:
            low = z * z
        if low > point[size] + 1e-9:
            _tangent(program, square, z)
            bent = True
    return bent


def _relations(program: Program, region: TableRegion, k: int, box: tuple[Tensor, Tensor]) -> None:
    low, high = (side[k].numpy() for side in box)
    space = region.space
    for ruled in rules(space.schema, space.tolerance, region.x0[k].numpy(), low, high):
        impose(program, ruled, low, high)


@dataclass(frozen=True, eq=False)
class Row:
    """sum of weights * x[places] <= most."""

    places: Array
    weights: Array
    most: float


Clause = tuple[tuple[Row, ...], ...]  # one of these conjunctions must hold


@dataclass(frozen=True, eq=False)
class Ruled:
    """A relation as rows and "this or that"s; `whole`: nothing of it was left out."""

    relation: Relation
    rows: tuple[Row, ...]
    clauses: tuple[Clause, ...]
    whole: bool


def impose(
    program: Program, ruled: Ruled, low: Array, high: Array, place: Array | None = None,
    gone: Sequence[int] = (),
) -> None:  # fmt: skip
    """Ask it of the columns `place` (None: of the features' own), within these bounds.

    `gone` are binaries of which each says that a value the relation names is missing: then it asks
    nothing. What has no bounds cannot be left open so, and is left out.
    """

    def top(row: Row) -> float:
        w, at = row.weights, row.places
        return float(np.where(w > 0, w * high[at], w * low[at]).sum())

    def terms(row: Row) -> dict[int, float]:
        at = row.places if place is None else place[row.places]
        return dict(zip(at.tolist(), row.weights.tolist(), strict=True))

    for row in ruled.rows:
        room = max(0.0, top(row) - row.most) if gone else 0.0
        if np.isfinite(room) and np.isfinite(row.most):
            program.row({**terms(row), **dict.fromkeys(gone, -room)}, row.most)
    for clause in ruled.clauses:
        if not all(np.isfinite(top(row)) for option in clause for row in option):
            continue
        ons = [program.column(0, 1, True) for _ in clause]
        program.row(dict.fromkeys([*ons, *gone], 1.0), np.inf, 1.0)
        for on, option in zip(ons, clause, strict=True):
            for row in option:
                room = max(0.0, top(row) - row.most)
                program.row({**terms(row), on: room}, row.most + room)


def rules(
    schema: Schema, tolerance: float, x0: Array, low: Array, high: Array, share: float = 1.0
) -> list[Ruled]:
    """The rows that a record must satisfy within a box, and the "this or that"s.

    `share` of the tolerance that a relation is given: more than 1 makes the set larger, 0 or less
    makes it that of points which surely hold.
    """
    layout = schema.layout
    ranges = {name: (float(low[i]), float(high[i])) for i, name in enumerate(schema.names)}

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
        given = r.tolerance if r.tolerance is not None else tolerance * max(unit, *sizes)
        slack = share * given if np.isfinite(given) else np.inf
        whole = is_whole(r.left, layout) and is_whole(r.right, layout)
        if (whole and r.tolerance is None) or r.op == "==":
            slack = max(slack, 0.0)
        if whole and r.tolerance is None:
            slack = min(slack, 0.49)
        if r.op == "<":
            slack = -1.0 + 1e-6 if whole else 0.0 if share > 0 else -2 * given
        above = Row(places, weights, slack - constant)
        return (above, Row(places, -weights, slack + constant)) if r.op == "==" else (above,)

    def conjunction(r: Relation) -> tuple[tuple[Row, ...] | None, bool]:
        """All rows of a conjunction, and whether these are all of it; None: nothing is linear
        (leaving it out is allowed)."""
        if isinstance(r, Compare):
            found = compare(r)
            return found, found is not None
        if isinstance(r, And):
            parts = [conjunction(part) for part in r.operands]
            rows = tuple(row for part, _ in parts for row in part or ())
            return rows or None, all(whole for _, whole in parts)
        return None, False

    made = []
    for r in schema.relations:
        rows: list[Row] = []
        clauses: list[Clause] = []
        complete = True
        for part in _parts(normal_form(r, layout)):
            either = part.operands if isinstance(part, Or) else (part,)
            options = [conjunction(o) for each in either for o in _sides(each, layout)]
            complete &= all(whole for _, whole in options)
            if len(options) == 1:
                rows += options[0][0] or ()
            elif all(o is not None for o, _ in options):
                clauses.append(tuple(o for o, _ in options if o is not None))
        made.append(Ruled(r, tuple(rows), tuple(clauses), complete))
    return made


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
