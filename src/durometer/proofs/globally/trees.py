"""Tree ensembles: programs over cells, searched by the kernel and confirmed by the model.

A question becomes one or a few programs (`kernel.py`). A point that a run finds is built, judged by
the schema and asked of the model itself; what fails is taken out and the search goes on.

What a reader would get wrong: the bound of a run holds for all pairs that its constraints admit, a
superset of the valid ones. It is `high` whatever becomes of the points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.proofs.globally.cells import Cells
from durometer.proofs.globally.hunt import Costs, Counts, Hunt, Judge
from durometer.proofs.globally.kernel import NEVER, Cells32, Program, Rows, Run, Trees, run
from durometer.proofs.globally.points import Moves, Near, Points
from durometer.trees.ensemble import Ensemble

_ROUNDS = 40  # times that the search goes on after points that turned out not to be valid


@dataclass(frozen=True, eq=False)
class TreeSearch:
    """Pairs of records in cells."""

    ensemble: Ensemble
    cells: Cells
    moves: Moves
    trees: Trees
    copy: Cells32
    rows: Rows
    typical: Floats
    near: Near | None
    seconds: float
    gap: float  # in the units of the sums

    @staticmethod
    def of(
        ensemble: Ensemble, cells: Cells, moves: Moves, typical: Floats, near: Near | None,
        seconds: float, gap: float,
    ) -> TreeSearch:  # fmt: skip
        """The whole table, cut by the trees' own thresholds."""
        d = len(cells.schema)
        copy = np.arange(d + len(moves.of), dtype=np.int32)
        for k, i in enumerate(moves.of):
            copy[i] = d + k
        rows = cells.rows(copy)
        rows = Rows(
            (*rows.sums, *_limited(cells, moves)), (*rows.lists, *_gaps_alike(cells, moves))
        )
        if near is not None:
            rows = replace(rows, near=cells.near(near.low, near.high, copy))
        return TreeSearch(
            ensemble, cells, moves, cells.trees(ensemble), copy, rows, typical, near, seconds, gap
        )

    @property
    def weights(self) -> Floats:
        """(nodes, outputs) what each node adds to each score."""
        return self.ensemble.value[self.trees.origin]

    def program(self, costs: Costs) -> Program:
        """Minimise the largest of these costs over valid pairs."""
        sizes = [len(low) for low in self.cells.low]
        sizes += [sizes[i] for i in self.moves.of]
        ready = [
            np.ascontiguousarray(a, dtype=np.float64)
            for a in (costs.first, costs.second, costs.base)
        ]
        return Program(
            np.array(sizes, dtype=np.int32), self.copy, self.trees, ready[0], ready[1], ready[2],
            self.rows, bool(self.moves.of), np.zeros((0, len(sizes)), np.int32),
            np.zeros(0, np.uint8),
        )  # fmt: skip

    def hunt(
        self, costs: list[Costs], stop: float, judge: Judge, counts: Counts,
        known: Hunt | None = None,
    ) -> Hunt:  # fmt: skip
        """Search until a pair counts, or every box is closed, or the time is over."""
        points = Points(self.cells, self.moves, self.copy, self.typical, self.near)
        programs = [self.program(c) for c in costs]
        deciding = stop > NEVER
        pair, low = (None, None) if known is None else (known.pair, known.low)
        high, closed, nodes, spent = -np.inf, True, 0, 0.0
        for place, program in enumerate(programs):
            share = (self.seconds - spent) / (len(programs) - place)
            bound, left = np.inf, max(share, 1e-3)
            for _ in range(_ROUNDS):
                done = run(program, stop, self.gap, left)
                nodes, spent, left = nodes + done.nodes, spent + done.seconds, left - done.seconds
                bound = min(bound, -done.least if done.least < 1e299 else -np.inf)
                program, best, all_held = _checked(program, done, points, judge, counts)
                if best is not None and (low is None or best[1] > low):
                    pair, low = best
                if (deciding and best is not None) or all_held or left <= 0:
                    break
            high, closed = max(high, bound), closed and done.shut
            if deciding and pair is not None:
                high = np.inf if place + 1 < len(programs) else high
                break
        return Hunt(pair, low, high, closed and (pair is None or not deciding), nodes, spent)


def _checked(
    program: Program, done: Run, points: Points, judge: Judge, counts: Counts
) -> tuple[Program, tuple[tuple[Floats, Floats], float] | None, bool]:
    """The best point of a run that is valid and counts; the program without those before it."""
    for rank, cells in enumerate(done.cells[::-1]):
        made, certain = points.pair(cells)
        if made is not None:
            value = judge(*made)
            if value is not None and counts(value):
                return program, (made, value), rank == 0
            certain = points.inside(cells, *made)  # and all points there reach the same leaves
        program = program.without(cells, certain)
    return program, None, not len(done.cells)


def _limited(cells: Cells, moves: Moves) -> list[tuple[tuple[tuple[int, Floats], ...], float]]:
    """The largest change of each feature, and its direction, over cells.

    The kernel adds both ends as the check of a pair subtracts them, so no room for rounding is
    needed: a rounded difference grows with the difference.
    """
    d = len(cells.schema)
    made: list[tuple[tuple[tuple[int, Floats], ...], float]] = []
    for k, i in enumerate(moves.of):
        low, high, free = cells.low[i], cells.high[i], np.isnan(cells.low[i])
        eps = moves.within[k]
        if np.isfinite(eps):
            far = [np.where(np.isfinite(v), v, np.nan) for v in (low, high)]
            most = 4 * (np.nanmax(np.abs(np.concatenate(far)), initial=0.0) + eps + 1)
            start = np.where(free, -most, np.maximum(low, -most))
            end = np.where(free, -most, np.maximum(-high, -most))
            made += [
                (((i, start), (d + k, end)), eps),
                (((d + k, start), (i, end)), eps),
            ]
        if moves.ordered == i:
            at = np.arange(len(low), dtype=np.float64)
            made.append((((i, at), (d + k, -at)), 0.5))
    return made


def _gaps_alike(cells: Cells, moves: Moves) -> list[tuple[tuple[int, ...], Any]]:
    """Where a change has a size, a gap can only stay one."""
    d = len(cells.schema)
    made: list[tuple[tuple[int, ...], Any]] = []
    for k, i in enumerate(moves.of):
        if np.isfinite(moves.within[k]) and cells.gap[i]:
            gone = np.isnan(cells.low[i])
            made.append(((i, d + k), (gone[:, None] == gone[None]).astype(np.uint8)))
    return made
