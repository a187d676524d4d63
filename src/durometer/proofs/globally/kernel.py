"""The compiled search over pairs of points (`native/proofs/pairs.cpp`) and its declaration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats
from durometer.kernels.native import Kernel, Layout

SWEEPS = 30, 5  # of messages: at the root, in every other box
PAIRS = 4096  # of leaves that a tree is merged with its copy into; more: both stand apart
ROOM = 64  # points that are handed back, each better than the one before
NEVER = -1e300  # a cost that no point has: look for the least
Cells32 = NDArray[np.int32]

QUESTION = Layout(
    features="size", nodes="size", trees="size", costs="size", constraints="size",
    entries="size", numbers="size", listed="size", scopes="size", flags="size", excluded="size",
    records="size",
    cells="int32[features]", copy="int32[features]", feature="int32[nodes]", cut="int32[nodes]",
    left="int32[nodes]", right="int32[nodes]", roots="int32[trees]",
    first="float64[nodes, costs]", second="float64[nodes, costs]", base="float64[costs]",
    entry_start="int64[constraints_1]", entry_feature="int32[entries]",
    table_start="int64[entries]", table="float64[numbers]", bound="float64[constraints]",
    scope_start="int64[listed_1]", scope_feature="int32[scopes]", flag_start="int64[listed]",
    flag="uint8[flags]", out="int32[excluded, features]", certain="uint8[excluded]",
    record_low="int32[records, features]", record_high="int32[records, features]",
    two="float64",
)  # fmt: skip
_pairs = Kernel(
    "pairs", question=QUESTION, features="size", room="size", answers="size", most="int64",
    stop="float64", gap="float64", seconds="float64", root_sweeps="int64", sweeps="int64",
    cells="out int32[room, features]", values="out float64[room]", answer="out float64[answers]",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees that test cells: a cell <= cut goes left; -1 marks a leaf."""

    feature: Cells32
    cut: Cells32
    left: Cells32
    right: Cells32
    roots: Cells32
    origin: NDArray[np.int64]  # (nodes,) the ensemble's node behind each


@dataclass(frozen=True, eq=False)
class Rows:
    """What every pair satisfies: sums of tables over cells, and lists of possible combinations."""

    sums: tuple[tuple[tuple[tuple[int, Floats], ...], float], ...] = ()
    lists: tuple[tuple[tuple[int, ...], NDArray[np.uint8]], ...] = ()
    near: tuple[Cells32, Cells32] | None = None  # (n, F) first and last cells: in one of these


@dataclass(frozen=True, eq=False)
class Program:
    """Minimise the largest of several costs, each a sum over trees of leaf values of x and x'."""

    cells: Cells32  # (F,)
    copy: Cells32  # (F,) the feature that x' has in its place
    trees: Trees
    first: Floats  # (nodes, costs)
    second: Floats
    base: Floats  # (costs,)
    rows: Rows
    two: bool
    out: Cells32  # (excluded, F)
    certain: NDArray[np.uint8]

    def without(self, cells: Cells32, certain: bool) -> Program:
        """The same without one combination of cells; `certain`: no valid point is in it."""
        return replace(
            self, out=np.ascontiguousarray(np.vstack([self.out, cells[None]])),
            certain=np.append(self.certain, np.uint8(certain)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Run:
    """What one run found: points from worst to best, and a cost that no point is below."""

    shut: bool  # every box is closed: of a decision, no point costs as little as `stop`
    least: float
    cells: Cells32  # (k, F)
    costs: Floats  # (k,)
    nodes: int
    seconds: float


def run(program: Program, stop: float, gap: float, seconds: float) -> Run:
    """One search; it ends at a cost of at most `stop`, or (NEVER) with the least to within gap."""
    sums, lists = program.rows.sums, program.rows.lists
    nobody = np.zeros((0, len(program.cells)), dtype=np.int32)
    first, last = program.rows.near or (nobody, nobody)
    entries = [entry for terms, _ in sums for entry in terms]
    sizes = [len(table) for _, table in entries]
    scopes = [f for scope, _ in lists for f in scope]
    flags = [flag.ravel() for _, flag in lists]
    t = program.trees
    question = SimpleNamespace(
        cells=program.cells, copy=program.copy, feature=t.feature, cut=t.cut, left=t.left,
        right=t.right, roots=t.roots, first=program.first, second=program.second,
        base=program.base,
        entry_start=np.cumsum([0, *(len(terms) for terms, _ in sums)]).astype(np.int64),
        entry_feature=np.array([f for f, _ in entries], dtype=np.int32),
        table_start=np.cumsum([0, *sizes]).astype(np.int64)[:-1],
        table=np.concatenate([table for _, table in entries]) if entries else np.zeros(0),
        bound=np.array([bound for _, bound in sums], dtype=np.float64),
        scope_start=np.cumsum([0, *(len(scope) for scope, _ in lists)]).astype(np.int64),
        scope_feature=np.array(scopes, dtype=np.int32),
        flag_start=np.cumsum([0, *map(len, flags)]).astype(np.int64)[:-1],
        flag=np.concatenate(flags) if flags else np.zeros(0, np.uint8),
        out=program.out, certain=program.certain, two=float(program.two),
        record_low=first, record_high=last,
    )  # fmt: skip
    cells = np.zeros((ROOM, len(program.cells)), dtype=np.int32)
    costs, answer = np.zeros(ROOM), np.zeros(8)
    _pairs(question, PAIRS, stop, gap, seconds, *SWEEPS, cells, costs, answer)
    kept = int(answer[4])
    return Run(
        bool(answer[0]), float(answer[1]), cells[:kept], costs[:kept], int(answer[2]),
        float(answer[3]),
    )  # fmt: skip
