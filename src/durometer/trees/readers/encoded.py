"""Encoders before trees: a pipeline that treats columns one by one, as trees over these columns.

One-hot and ordinal encoders, imputers, scalers, and a ColumnTransformer of such: each output is a
function of one input. A test "output <= t" is then a test of that input. Of a text or boolean
column it is "value in S", read off a table of all its values; of a number it is "x <= b", found by
bisection (`pipeline`), since what is done to numbers keeps their order.

What a reader would get wrong: XGBoost takes what a sparse matrix leaves out for missing, not for 0.
A ColumnTransformer hands out a sparse matrix where most cells are 0, so that a one-hot column of 0
goes where the tree sends missing values. And codes are the data's own: without the data's columns
such a pipeline cannot be read.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.data.columns import Column, Columns
from durometer.kernels.arrays import Floats, Ints
from durometer.model.frames import match_columns
from durometer.trees.agreement import positions, probes, raw_scores
from durometer.trees.builder import Grower
from durometer.trees.ensemble import Ensemble
from durometer.trees.readers.pipeline import SCALERS, borders

_BY_VALUE = ("OneHotEncoder", "OrdinalEncoder")
_PROBES = 500


def by_column(step: Any) -> bool:
    """Does this step make each output of one input, in order or by value?"""
    if step is None or isinstance(step, str):
        return step in (None, "passthrough", "drop")
    if hasattr(step, "transformers_"):
        turned = any(w <= 0 for w in (step.transformer_weights or {}).values())
        return not turned and all(by_column(t) for _, t, _ in step.transformers_)
    if hasattr(step, "steps"):
        return all(by_column(t) for _, t in step.steps)
    name = type(step).__name__
    if name in _BY_VALUE:  # numbers by value keep no order
        return all(c.dtype.kind not in "iuf" for c in getattr(step, "categories_", ()))
    if name == "FunctionTransformer":  # what a ColumnTransformer makes of "passthrough"
        return step.func is None
    if name == "SimpleImputer":  # a number that stands for "missing" jumps out of its order
        stand_in = step.missing_values
        return not isinstance(stand_in, numbers.Real) or bool(np.isnan(float(stand_in)))
    return name in SCALERS


def unread(model: Any) -> str | None:
    """The first step of a pipeline that does not treat columns one by one, or its last."""
    for name, step in getattr(model, "steps", [])[:-1]:
        inner = [(t, s) for t, s, _ in getattr(step, "transformers_", [])] or [(name, step)]
        for own, part in inner:
            if not by_column(part):
                return f"'{own}', {type(part).__name__}"
        if not by_column(step):
            return f"'{name}', {type(step).__name__} with a negative weight"
    if getattr(model, "steps", None):
        return f"'{model.steps[-1][0]}', {type(model.steps[-1][1]).__name__}"
    return None


def encoded(model: Any) -> bool:
    """Is it a pipeline of such steps before one last model?"""
    steps = [step for _, step in getattr(model, "steps", [])]
    return bool(steps) and all(by_column(s) for s in steps[:-1])


@dataclass(eq=False)
class Inputs:
    """The pipeline before its last step, asked with rows of codes and numbers."""

    model: Any
    columns: Columns  # the model's own, in its order
    named: bool
    codes: list[tuple[float, ...] | None]  # of each column, all values; None: a number

    def frame(self, x: Floats) -> Any:
        return self.columns.frame(x) if self.named else x

    def shown(self, x: Floats) -> Any:
        """What the last step is given, sparse or not."""
        out: Any = self.frame(x)
        for _, step in self.model.steps[:-1]:
            if step is not None and step != "passthrough":
                out = step.transform(out)
        return out if hasattr(out, "toarray") else np.asarray(out, dtype=np.float64)

    def __call__(self, x: Floats) -> Floats:
        out = self.shown(x)
        return np.asarray(out.toarray() if hasattr(out, "toarray") else out, dtype=np.float64)

    @property
    def base(self) -> Floats:
        return np.array([0.0 if c is None else c[0] for c in self.codes])

    def varied(self, i: int, values: Any) -> Floats:
        """The outputs as column i takes these values, one after the other."""
        rows = np.tile(self.base, (len(values), 1))
        rows[:, i] = values
        return self(rows)


def read(model: Any, columns: Columns) -> Ensemble:
    """The trees of the last step as tests of the data's columns, compared with the pipeline."""
    from durometer.trees import readers

    inputs, last = inputs_of(model, columns), model.steps[-1][1]
    trees = readers.read(last)
    if trees.categorical:
        raise Unsupported("an encoder before categorical splits: codes must not be encoded again")
    sparse = hasattr(inputs.shown(inputs.base[None]), "toarray")
    tests = _Tests(inputs, trees, sparse and type(last).__module__.startswith("xgboost"))
    grower = Grower(trees.outputs, "<=", "float64")
    for root in trees.roots.tolist():
        grower.close(tests.grow(grower, root, {}))
    made = grower.ensemble(
        base=trees.base.tolist(), n_features=len(inputs.columns), classes=trees.classes,
        source=f"encoded {trees.source}", cut=trees.cut, single=trees.single,
        missing=bool(tests.gone),
    )  # fmt: skip
    if tests.gone:
        made = replace(
            made, never_missing=tuple(i for i in range(len(inputs.codes)) if i not in tests.gone)
        )

    def library(x: Floats) -> Ints:
        return positions(made, model.predict(inputs.frame(x)))

    _check(made, inputs, last, library)
    return replace(made, library=library)


def inputs_of(model: Any, columns: Columns) -> Inputs:
    """The steps before the last, over the columns of the data."""
    own = match_columns(model, columns)
    each = list(columns.each if own is None else columns.select(own).each)
    codes: list[tuple[float, ...] | None] = []
    for i, c in enumerate(each):
        if c.kind == "date":
            raise Unsupported(f"column '{c.name}' holds dates: a pipeline with dates is not read")
        codes.append(c.codes if c.kind == "label" else (0.0, 1.0) if c.kind == "boolean" else None)
        if codes[-1] is None:
            each[i] = Column(c.name, "real")  # whole numbers too: bisection goes between them
    if any(v != int(v) or v < 0 for c in codes if c is not None for v in c):
        raise Unsupported("a text column with codes that are no whole numbers is not read")
    return Inputs(model, Columns(tuple(each)), own is not None, codes)


def owners(inputs: Inputs) -> tuple[Ints, dict[int, Floats], dict[int, Floats]]:
    """The input that each output is made of (-1: none), the outputs of every code, and those of a
    missing value of each input that may be missing."""
    first = inputs(inputs.base[None])[0]
    owner = np.full(len(first), -1)
    table: dict[int, Floats] = {-1: first[None]}
    gone = _gone(inputs)
    for i, codes in enumerate(inputs.codes):
        out = inputs.varied(i, (-1e6, -1.0, 0.0, 1.0, 1e6) if codes is None else codes)
        moved = (out != out[0]).any(0)
        if i in gone:
            moved |= gone[i] != out[0]
        if (owner[moved] >= 0).any():
            raise Unsupported("an output of the pipeline's first steps depends on several columns")
        owner[moved] = i
        table[i] = out
    return owner, table, gone


def _gone(inputs: Inputs) -> dict[int, Floats]:
    """The outputs of a missing value, of each column of which the steps take one."""
    found: dict[int, Floats] = {}
    for i in range(len(inputs.codes)):
        try:
            found[i] = inputs.varied(i, [np.nan])[0]
        except Exception:  # scikit-learn's own: this column may not be missing
            continue
    return found


class _Tests:
    """Each test of the last step's trees, as one of a column."""

    def __init__(self, inputs: Inputs, trees: Ensemble, gaps: bool) -> None:
        self.inputs, self.trees, self.gaps = inputs, trees, gaps  # gaps: 0 is missing
        self.owner, self.table, self.gone = owners(inputs)
        number = np.array([c is None for c in inputs.codes] + [False])  # [-1]: of no column
        f = np.maximum(trees.feature, 0)
        at = (trees.feature >= 0) & number[self.owner[f]]
        outputs = np.unique(trees.feature[at])
        below, zero = (self._borders(outputs, np.full(len(outputs), t)) for t in (-5e-324, 0.0))
        self.zero = dict(zip(outputs.tolist(), zip(below, zero, strict=True), strict=True))
        self.border = np.full(len(f), np.nan)
        self.border[at] = self._borders(trees.feature[at], trees.threshold[at])

    def _borders(self, feature: Ints, threshold: Floats) -> Floats:
        """The largest number of an output's column for which it is at most the threshold."""
        if not len(feature):
            return np.empty(0)
        tests, place = np.unique(np.stack([feature, threshold], 1), axis=0, return_inverse=True)
        column, at = tests[:, 0].astype(np.int64), np.arange(len(tests))

        def passes(values: Floats) -> Any:
            rows = np.tile(self.inputs.base, (len(tests), 1))
            rows[at, self.owner[column]] = values
            return self.inputs(rows)[at, column] <= tests[:, 1]

        same = tests[:, 1]  # what is passed through needs no bisection
        finite = bool((np.abs(same) < 1e300).all())
        if not finite or not (passes(same) & ~passes(np.nextafter(same, np.inf))).all():
            same = borders(passes, len(tests))
        return same[place.ravel()]

    def grow(self, grower: Grower, node: int, done: dict[int, int]) -> int:
        if node not in done:
            done[node] = self._grow(grower, node, done)
        return done[node]

    def _grow(self, grower: Grower, node: int, done: dict[int, int]) -> int:
        e = self.trees
        f, t = int(e.feature[node]), float(e.threshold[node])
        if f < 0:
            return grower.leaf(e.value[node].tolist())
        i, left, right = int(self.owner[f]), int(e.left[node]), int(e.right[node])
        gap = left if e.missing_left[node] else right

        def goes(values: Any) -> Any:
            """Where these outputs are sent."""
            to = np.where(np.isnan(values), gap, np.where(values <= t, left, right))
            return np.where(values == 0, gap, to) if self.gaps else to

        codes = self.inputs.codes[i] if i >= 0 else ()
        gone = int(goes(self.gone[i][f])) if i in self.gone else None
        if codes is None:
            low, high = (self.grow(grower, n, done) for n in (left, right))
            made = grower.split(i, float(self.border[node]), low, high, gone == left)
            if self.gaps:
                below, zero = self.zero[f]
                made = grower.split(i, float(zero),
                                    grower.split(i, float(below), made, done[gap], False),
                                    made, False)  # fmt: skip
            return made
        to = goes(self.table[i][:, f])
        ends = {int(n): self.grow(grower, int(n), done) for n in {*to.tolist(), gone} - {None}}
        if (to == to[0]).all():
            made = ends[int(to[0])]
            return made if gone in (None, to[0]) else grower.unless_missing(i, made, ends[gone])
        some = [int(c) for c, n in zip(codes, to, strict=True) if n == left]
        return grower.member(
            i, some, ends[left], ends[right], ends[right if gone is None else gone]
        )


def _check(made: Ensemble, inputs: Inputs, last: Any, library: Callable[[Floats], Ints]) -> None:
    """Raise unless trees and pipeline agree beside every threshold and on every value."""
    rng = np.random.default_rng(0)
    x = probes(made, _PROBES, rng)
    for i, codes in enumerate(inputs.codes):
        if codes is not None:
            gaps = made.missing and i not in made.never_missing
            x[:, i] = rng.choice([*codes, np.nan] if gaps else codes, len(x))
    off = np.abs(made.scores(x) - raw_scores(made, last, inputs.shown(x))).max(axis=1)
    wrong = ~(off <= made.slack())
    wrong |= (made.predict(x) != library(x)) & ~made.near_tie(x)
    if wrong.any():
        raise Unsupported(
            f"the reading of this {made.source} pipeline disagrees with its predict on "
            f"{int(wrong.sum())} of {len(x)} rows; please report it, and use a search: Graft"
        )
