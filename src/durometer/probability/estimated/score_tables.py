"""Scores of many sampled readings at once, one feature left open: trees as small tables.

A record's noise reaches a few leaves of each tree, so a tree is a table over its own few intervals
of each feature; trees that ask about the same features and move the same scores share one. A
reading then costs a few lookups instead of a walk, for a block of readings at a time. Along the
open feature a table holds differences: the scores along that feature are their sums, and the mass
of each class is exact. (kernels/native/estimated/score_tables.cpp)

What a reader would get wrong: a tree whose table would be too large is walked, and a single score
means class 1 above zero; of several the largest wins, the first of equal ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats, Ints
from durometer.kernels.bundle import unpack
from durometer.kernels.native import Kernel, Layout

Int32s = NDArray[np.int32]
STEPS = 128  # of the index that finds a reading's cell
FOREST = Layout(
    nodes="size",
    scores="size",
    features="int64",
    ends="size",
    nf="int32[nodes]",
    nc="int32[nodes]",
    nl="int32[nodes]",
    nr="int32[nodes]",
    score="float64[nodes, scores]",
    base="float64[scores]",
    slack="float64",
    start="int64[ends]",
    last="int64",
)
TABLES = Layout(
    tables="size",
    table_ends="size",
    columns="size",
    entries="size",
    parts="size",
    maps="size",
    places="size",
    walks="size",
    start="int64[table_ends]",
    wide="int64[tables]",
    column_start="int64[table_ends]",
    column="int64[columns]",
    value="float64[entries]",
    feature_start="int64[table_ends]",
    feature="int64[parts]",
    offset="int64[parts]",
    step="int32[maps]",
    place="int64[places]",
    part_start="int64[table_ends]",
    walked="int64[walks]",
)
GUIDE = Layout(
    cells="size",
    known="size",
    steps="size",
    edges="float64[cells]",
    begin="int64[known, steps]",
    low="float64[known]",
    rate="float64[known]",
    dimension="int64[known]",
)
_score_tables = Kernel(
    "score_tables", forest=FOREST, n="size", roots="int64[n]", handle="out int64[1]"
)
_guide = Kernel(
    "guide",
    cells="size",
    known="size",
    ends="size",
    edges="float64[cells]",
    start="int64[ends]",
    begin="out int64[known, 128]",
    low="out float64[known]",
    rate="out float64[known]",
)
_class_masses = Kernel(
    "class_masses",
    forest=FOREST,
    tables=TABLES,
    guide=GUIDE,
    dimensions="size",
    n="size",
    shifts="size",
    points="float64[dimensions, n]",
    shift="float64[shifts]",
    sd="float64",
    tied="int64",
    classes="size",
    out="out float64[classes]",
)


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees that one record's noise reaches; `score` (nodes, scores) is zero but at leaves."""

    nf: Int32s
    nc: Int32s
    nl: Int32s
    nr: Int32s
    score: Floats
    base: Floats
    slack: float  # scores that are closer are equal
    start: Ints  # first cell of each feature
    last: int  # the open feature

    @property
    def features(self) -> int:
        return len(self.start) - 1


@dataclass(frozen=True, eq=False)
class Tables:
    """Tables of all trees, one behind the other."""

    start: Ints
    wide: Ints  # entries of a table's one score
    column_start: Ints
    column: Ints  # the scores it moves
    value: Floats
    feature_start: Ints
    feature: Ints
    offset: Ints  # where a feature's map from cells to steps in the table begins
    step: Int32s
    place: Ints  # first cells of the open feature's parts
    part_start: Ints
    walked: Ints  # roots of trees without a table

    @classmethod
    def of(cls, forest: Forest, roots: Ints) -> Tables:
        """Trees that move the same scores together."""
        roots = roots.astype(np.int64)
        moved = np.logical_or.reduceat(forest.score != 0, roots)
        kinds, kind = np.unique(moved, axis=0, return_inverse=True)
        split = [
            (np.flatnonzero(k), roots[kind.ravel() == i]) for i, k in enumerate(kinds) if k.any()
        ]
        parts = []
        for columns, mine in split or [(np.arange(1), roots[:0])]:
            own = np.ascontiguousarray(forest.score[:, columns])
            parts.append(
                tabulate(replace(forest, score=own, base=forest.base[columns]), mine, columns)
            )
        return _behind(parts)


def tabulate(forest: Forest, roots: Ints, columns: Ints) -> Tables:
    """Tables of these trees, which all move the scores `columns`."""
    handle = np.zeros(1, np.int64)
    _score_tables(forest, np.ascontiguousarray(roots), handle)
    start, value, feature_start, feature, offset, step, place, part_start, walked = unpack(
        handle, np.int64, np.float64, *[np.int64] * 3, np.int32, *[np.int64] * 3
    )
    tables = len(start) - 1
    return Tables(
        start=start,
        wide=np.diff(start) // len(columns),
        column_start=len(columns) * np.arange(tables + 1),
        column=np.tile(columns, tables),
        value=value,
        feature_start=feature_start,
        feature=feature,
        offset=offset,
        step=step,
        place=place,
        part_start=part_start,
        walked=walked,
    )


def _behind(parts: list[Tables]) -> Tables:
    """Several parts as one; starts move by what stands before them."""

    def starts(name: str) -> Ints:
        ends = np.cumsum([0] + [int(getattr(p, name)[-1]) for p in parts])
        moved = [getattr(p, name)[:-1] + end for p, end in zip(parts, ends[:-1], strict=True)]
        return np.concatenate([*moved, ends[-1:]])

    def all_of(name: str) -> Ints:
        return np.concatenate([getattr(p, name) for p in parts])

    maps = np.cumsum([0] + [len(p.step) for p in parts])
    return Tables(
        start=starts("start"),
        wide=all_of("wide"),
        column_start=starts("column_start"),
        column=all_of("column"),
        value=np.concatenate([p.value for p in parts]),
        feature_start=starts("feature_start"),
        feature=all_of("feature"),
        offset=np.concatenate([p.offset + m for p, m in zip(parts, maps[:-1], strict=True)]),
        step=np.concatenate([p.step for p in parts]),
        place=all_of("place"),
        part_start=starts("part_start"),
        walked=all_of("walked"),
    )


@dataclass(frozen=True, eq=False)
class Guide:
    """Where the search for a reading's cell begins; `dimension`: where each feature's numbers are,
    -1 for the open one."""

    edges: Floats  # upper edges of the cells
    begin: Ints
    low: Floats
    rate: Floats
    dimension: Ints

    @classmethod
    def of(cls, edges: Floats, start: Ints, dimension: Ints) -> Guide:
        n = len(start) - 1
        begin, low, rate = np.empty((n, STEPS), np.int64), np.empty(n), np.empty(n)
        _guide(edges, start, begin, low, rate)
        return cls(edges, begin, low, rate, dimension)


def class_masses(
    forest: Forest,
    tables: Tables,
    guide: Guide,
    draw: tuple[Floats, Floats, float],
    tied: bool,
) -> Floats:
    """Mean mass of each class, over a draw: readings (dimensions, n), shift, sd.

    The open feature's law is N(shift, sd) where it is `tied` to the others, else its edges are
    masses.
    """
    points, shift, sd = draw
    out = np.empty(max(forest.score.shape[1], 2))
    _class_masses(forest, tables, guide, points, shift, sd, tied, out)
    return out
