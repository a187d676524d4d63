"""One representation for every tree ensemble: flat arrays, and thresholds that mean what they say.

Libraries disagree on the smallest thing: scikit-learn tests ``float32(x) <= t``, XGBoost
``float32(x) < t``, LightGBM ``float64(x) <= t``. Rounding to float32 moves the border by half a
unit in the last place, and the answer moves with it when the noise is of that size. `effective`
turns each test into the one ``x <= threshold`` on float64 that is true for exactly the same
float64 numbers; nothing after it needs to know which library a tree came from.

Two things a reader would get wrong. The label is read from *summed leaf values* in the library's
own order and precision (`single`: float32), never from a box's centre. And one output is not two
classes: with one output the label is 1 where the sum exceeds `cut`, with several it is the first
largest. Where two scores are closer than rounding can tell, only the library knows: `decide` asks
it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats, Ints
from durometer.kernels.native import Kernel, Layout

LARGEST = float(np.finfo(np.float32).max)
OVERFLOW = 2.0**128 - 2.0**103  # the first float64 that rounds to float32 infinity
LAYOUT = Layout(
    nodes="size",
    trees="size",
    outputs="size",
    feature="int32[nodes]",
    threshold="float64[nodes]",
    left="int32[nodes]",
    right="int32[nodes]",
    missing_left="bool[nodes]",
    value="float64[nodes, outputs]",
    roots="int32[trees]",
    base="float64[outputs]",
    cut="float64",
    single="int64",
)
_scores = Kernel(
    "scores",
    ensemble=LAYOUT,
    n="size",
    features="size",
    threads="int64",
    x="float64[n, features]",
    out="out float64[n, outputs]",
)


def effective(threshold: ArrayLike, operator: str, precision: str) -> Floats:
    """The float64 border b with: ``x <= b`` exactly when the library sends x left.

    >>> float(effective(1000.0, "<", "float32")[0])  # XGBoost: what is nearer rounds to 1000
    999.9999694824218
    """
    t = np.atleast_1d(np.asarray(threshold, dtype=np.float64)).copy()
    if operator not in ("<=", "<"):
        raise DurometerError(f"comparison {operator!r}: expected '<=' or '<'")
    if precision == "float64":
        return t if operator == "<=" else np.nextafter(t, -np.inf)
    if precision != "float32":
        raise DurometerError(f"precision {precision!r}: expected 'float32' or 'float64'")
    with np.errstate(over="ignore"):
        below = t.astype(np.float32)
        too_high = (
            below.astype(np.float64) > t if operator == "<=" else below.astype(np.float64) >= t
        )
        below = np.where(too_high, np.nextafter(below, np.float32(-np.inf)), below).astype(
            np.float32
        )
        above = np.nextafter(below, np.float32(np.inf))
    low, high = below.astype(np.float64), above.astype(np.float64)
    with np.errstate(invalid="ignore"):
        middle = low + (high - low) / 2  # exact in float64
    middle = np.where(np.isposinf(high), OVERFLOW, np.where(np.isneginf(low), -OVERFLOW, middle))
    even = (below.view(np.uint32) & 1) == 0  # a tie goes to the even neighbour
    border = np.where(even, middle, np.nextafter(middle, -np.inf))
    border = np.where(np.isneginf(low), -OVERFLOW, border)
    return np.where(np.isposinf(low), np.inf, border)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """A tree ensemble as flat arrays, the same for every library; made by `read`.

    Children may be shared, so that categorical splits are chains of thresholds.

    Args:
        feature: Feature that each node tests (nodes,); -1 at a leaf.
        threshold: Threshold of each node: x <= threshold, in float64, goes left exactly where the
            library goes left.
        left: Left child of each node.
        right: Right child of each node.
        missing_left: Whether a missing value goes left.
        value: Values of each node (nodes, outputs); those of leaves are summed.
        roots: Root of each tree, in the order in which the library sums.
        base: What is added to the sums (outputs,).
        n_features: Number of features.
        classes: The class labels.
        source: The library, for messages.
        operator: The library's own comparison: "<=" or "<".
        precision: The library's own precision: "float32" or "float64".
        cut: With one output: class 1 where the sum exceeds it.
        single: Whether scores are summed in float32.
        missing: Whether missing values are allowed.
        never_missing: Features in which a model that knows missing values takes none.
        categorical: Features that hold codes of categories.
        library: The library's own labels, asked where two scores are within rounding of a tie.
            None: not known.
    """

    feature: NDArray[np.int32]  # (nodes,) -1 at a leaf
    threshold: Floats  # (nodes,) effective: x <= threshold goes left
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: Floats  # (nodes, outputs)
    roots: NDArray[np.int32]  # (trees,) in the library's summing order
    base: Floats  # (outputs,)
    n_features: int
    classes: tuple[object, ...]
    source: str  # "xgboost", ...: for messages
    operator: str  # the library's own comparison, before `effective`
    precision: str
    cut: float = 0.0
    single: bool = False  # scores are summed in float32
    missing: bool = False  # NaN has a direction
    never_missing: tuple[int, ...] = ()  # ... but not in these columns
    categorical: tuple[int, ...] = ()  # features that hold codes, tested by chains of thresholds
    library: Callable[[Floats], Ints] | None = None  # the library's own labels, as `predict` gives

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @property
    def outputs(self) -> int:
        """Number of outputs: 1 for two classes in most boosting libraries."""
        return int(self.value.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def scores(self, x: ArrayLike) -> Floats:
        """The summed leaf values (n, outputs).

        Args:
            x: Records (n, features).
        """
        rows = self.rows(x)
        out = np.empty((len(rows), self.outputs))
        _scores(self, 1, rows, out)
        return out

    def predict(self, x: ArrayLike) -> Ints:
        """The class indices (n,), from the scores alone.

        Args:
            x: Records (n, features).
        """
        return self._label(self.scores(x))

    def decide(self, x: ArrayLike) -> Ints:
        """The class indices (n,); rows within rounding of a tie are asked of the library itself.

        Args:
            x: Records (n, features).
        """
        rows = self.rows(x)
        scores = self.scores(rows)
        label = self._label(scores)
        close = self._close(scores)
        if self.library is not None and close.any():
            label[close] = self.library(rows[close])
        return label

    def asked_by(self, place: Sequence[int], n_features: int) -> Ensemble:
        """The same trees for records with their columns in another order.

        Args:
            place: The column in which each feature stands.
            n_features: Number of columns of the records.
        """
        at = np.asarray(place, dtype=np.int32)
        if n_features == self.n_features and np.array_equal(at, np.arange(n_features)):
            return self
        library = self.library
        return replace(
            self,
            feature=np.where(self.feature < 0, -1, at[self.feature]).astype(np.int32),
            categorical=tuple(int(at[f]) for f in self.categorical),
            never_missing=tuple(int(at[f]) for f in self.never_missing),
            n_features=n_features,
            library=None if library is None else lambda x: library(np.ascontiguousarray(x[:, at])),
        )

    def near_tie(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Where the two best scores are too close for the library's own precision (n,).

        Args:
            x: Records (n, features).
        """
        return self._close(self.scores(x))

    def _label(self, s: Floats) -> Ints:
        if self.outputs == 1:
            return (s[:, 0] > self.cut).astype(np.int64)
        return np.asarray(np.argmax(s, axis=1), dtype=np.int64)

    def _close(self, s: Floats) -> NDArray[np.bool_]:
        if self.outputs == 1:
            return np.asarray(np.abs(s[:, 0] - self.cut) <= self.slack())
        top = np.partition(s, -2, axis=1)
        return np.asarray(top[:, -1] - top[:, -2] <= self.slack())

    def rows(self, x: ArrayLike) -> Floats:
        """Records as float64 rows, checked.

        Args:
            x: Records (n, features).

        Raises:
            DurometerError: The number of features is wrong, or a value is missing where it must not
                be.
        """
        a = np.ascontiguousarray(np.asarray(x, dtype=np.float64))
        if a.ndim != 2 or a.shape[1] != self.n_features:
            raise DurometerError(
                f"rows of shape {a.shape}: the {self.source} model takes (n, {self.n_features})"
            )
        barred: NDArray[np.bool_] = np.asarray(np.isnan(a).any(axis=0))
        if self.missing:
            barred[[f for f in range(self.n_features) if f not in self.never_missing]] = False
        if barred.any():
            raise DurometerError(
                f"NaN in column {int(barred.argmax())}: this {self.source} model was not trained "
                "with missing values there; impute them or train with them"
            )
        return a

    def slack(self) -> float:
        """By how much rounding in the library's summation may change a difference of two scores."""
        unit = 2.0**-24 if self.single else 2.0**-53
        size = np.where((self.feature < 0)[:, None], np.abs(self.value), 0.0)
        steps = np.maximum.reduceat(size, self.roots, axis=0)  # (trees, outputs)
        partial = np.abs(self.base) + np.cumsum(steps, axis=0)
        error = np.sort(unit * np.where(steps > 0, partial, 0.0).sum(axis=0))  # per output
        return float(error[-2:].sum() + 4 * unit * (1 + np.abs(self.base).max(initial=0.0)))
