"""The best record of a table for a linear score, by a mixed-integer program (HiGHS, in scipy).

Variables are the features (whole ones whole), a binary per value of a category, and what the
distance needs: |change| in L1 and in a cost budget, a binary "changed" in L0, and in L2 a square
per feature that is held from below by tangents. L2 alone is not linear: tangents are added where
the last solution bent them until it lies in the ball; every bound on the way is valid.

What a reader would get wrong: the answer is a *bound* (`HiGHS` may stop at its time), and relations
that are not linear were left out. So a bound below 0 is a proof, and a point above 0 is a candidate
that the referee still has to accept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from assay.kernels.arrays import Array
from assay.proofs.search.table_rows import Row, rules
from assay.tables.region import TableRegion

_CUTS = 40  # rounds of tangents


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

    def solve(self, objective: Array, seconds: float) -> tuple[float, Array | None]:
        """An upper bound on the objective, and the best point found; -inf: there is no point."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        starts = np.cumsum([0, *(len(p) for p, *_ in self.rows)])
        data = np.concatenate([w for _, w, *_ in self.rows]) if self.rows else np.zeros(0)
        places = np.concatenate([p for p, *_ in self.rows]) if self.rows else np.zeros(0, int)
        matrix = csr_array((data, places, starts), shape=(len(self.rows), len(self.low)))
        most, least = (np.array([r[k] for r in self.rows]) for k in (2, 3))
        cost = np.zeros(len(self.low))
        cost[: len(objective)] = -objective
        found = milp(
            cost,
            integrality=np.array(self.whole),
            bounds=Bounds(np.array(self.low), np.array(self.high)),
            constraints=LinearConstraint(matrix, least, most) if self.rows else (),
            options={"time_limit": seconds},
        )
        if found.status == 2:  # infeasible: no valid record at all
            return -np.inf, None
        bound = getattr(found, "mip_dual_bound", None)
        if bound is None or not np.isfinite(bound):
            bound = found.fun if found.status == 0 else -np.inf
        return -float(bound) if bound is not None else np.inf, found.x


def best(
    region: TableRegion,
    k: int,
    box: tuple[Tensor, Tensor],
    scores: list[tuple[Array, float]],
    seconds: float,
) -> tuple[float, Array | None]:
    """The highest lowest of the linear `scores` (w, b) over record k's region: bound and record."""
    program, d = Program(), region.x0.shape[1]
    low, high = (side[k].numpy() for side in box)
    schema = region.space.schema
    for i in range(d):
        program.column(low[i], high[i], bool(schema.whole[i]))
    squares = _distance(program, region, k, low, high, _codes(program, region, k, low, high))
    _relations(program, region, k, box)
    ends = [float(w @ np.where(w > 0, high, low) + b) for w, b in scores]
    lowest = [float(w @ np.where(w > 0, low, high) + b) for w, b in scores]
    margin = program.column(min(lowest) - 1.0, max(ends) + 1.0)
    for w, b in scores:
        program.row({margin: 1.0, **{int(i): -float(w[i]) for i in np.flatnonzero(w)}}, b)
    objective = np.zeros(margin + 1)
    objective[margin] = 1.0
    bound, point = np.inf, None
    for _ in range(_CUTS if squares else 1):
        bound, point = program.solve(objective, seconds)
        if point is None or bound < 0 or not squares or not _bend(program, squares, point):
            break
    return bound, None if point is None else point[:d]


def _codes(
    program: Program, region: TableRegion, k: int, low: Array, high: Array
) -> dict[int, int]:
    """Binaries of the categories that can move; the one that says "as it was" by column."""
    schema, home = region.space.schema, {}
    for column, _, codes, _ in region.space.encoding.categories:
        if high[column] <= low[column]:
            continue
        ons = [program.column(0, 1, True) for _ in codes]
        program.row({**{o: float(c) for o, c in zip(ons, codes, strict=True)}, column: -1.0}, 0, 0)
        program.row(dict.fromkeys(ons, 1.0), 1, 1)
        home[column] = ons[int((codes == region.x0[k, column]).int().argmax())]
    for members in schema.one_hot_groups.values():
        program.row(dict.fromkeys(members, 1.0), 1, 1)
    return home


Squares = list[tuple[int, int, float, float]]  # (column, its square, original, width)


def _distance(
    program: Program, region: TableRegion, k: int, low: Array, high: Array, home: dict[int, int]
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
            squares.append((i, size, was, width))
            for at in (far, -far, far / 3, -far / 3):
                _tangent(program, squares[-1], at)
    for column, _, _, unit in encoding.categories:
        if column in home:  # two coordinates of `unit` change
            price = {0.0: 1.0, 1.0: 2 * unit, 2.0: 2 * unit**2}[p]
            total[home[column]] = -price
            most -= price
    if p == 0:
        for members in region.space.schema.one_hot_groups.values():
            if any(high[m] > low[m] for m in members):
                at = members[int(region.x0[k, members].argmax())]
                total[at] = total.get(at, 0.0) - 1.0
                most -= 1.0
    program.row(total, most)
    return squares


def _tangent(program: Program, square: tuple[int, int, float, float], at: float) -> None:
    """square >= 2 at z - at^2 for z = (x - original) / width."""
    column, size, was, width = square
    program.row({column: 2 * at / width, size: -1.0}, at * at + 2 * at * was / width)


def _bend(program: Program, squares: Squares, point: Array) -> bool:
    """Add tangents where the solution's squares are too small; False: nowhere by enough."""
    bent = False
    for square in squares:
        column, size, was, width = square
        z = (point[column] - was) / width
        if z * z > point[size] + 1e-9:
            _tangent(program, square, z)
            bent = True
    return bent


def _relations(program: Program, region: TableRegion, k: int, box: tuple[Tensor, Tensor]) -> None:
    rows, clauses = rules(region, k, *box)
    low, high = (side[k].numpy() for side in box)

    def top(row: Row) -> float:
        w, at = row.weights, row.places
        return float(np.where(w > 0, w * high[at], w * low[at]).sum())

    for row in rows:
        program.row(dict(zip(row.places.tolist(), row.weights.tolist(), strict=True)), row.most)
    for clause in clauses:
        if not all(np.isfinite(top(row)) for option in clause for row in option):
            continue
        ons = [program.column(0, 1, True) for _ in clause]
        program.row(dict.fromkeys(ons, 1.0), np.inf, 1.0)
        for on, option in zip(ons, clause, strict=True):
            for row in option:
                room = max(0.0, top(row) - row.most)
                terms = dict(zip(row.places.tolist(), row.weights.tolist(), strict=True))
                program.row({**terms, on: room}, row.most + room)
