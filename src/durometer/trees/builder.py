"""Growing an `Ensemble` node by node: what every reader uses, and the only place that lays out
arrays.

A root comes before its own tree's nodes in no fixed order, but trees never interleave: tree t owns
the slice between two roots. A categorical test "code in S" becomes a chain of thresholds over the
sorted codes with shared children, so nothing downstream knows about categories. Libraries truncate
a code to an integer: category c is the half-open interval [c, c + 1), and in LightGBM category 0 is
(-1, 1). A sentinel that means "missing" (XGBoost's `missing=-999`) is a cell of its own in the same
way."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from durometer.core.errors import Unsupported
from durometer.trees.ensemble import Ensemble, effective


class Grower:
    """Collects nodes of one ensemble. Children are made before parents; `close` ends a tree."""

    def __init__(self, outputs: int, operator: str, precision: str) -> None:
        self.outputs, self.operator, self.precision = outputs, operator, precision
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.missing_left: list[bool] = []
        self.value: list[Sequence[float]] = []
        self.roots: list[int] = []
        self.categorical: set[int] = set()
        self._start = 0

    def leaf(self, value: Sequence[float]) -> int:
        return self._node(-1, 0.0, -1, -1, False, value)

    def split(
        self, feature: int, threshold: float, left: int, right: int, missing_left: bool
    ) -> int:
        return self._node(feature, threshold, left, right, missing_left, [0.0] * self.outputs)

    def sentinel(self, feature: int, mark: float, node: int, missing: int) -> int:
        """What `node` says, but the number `mark` (as the library rounds it) goes to `missing`."""
        if node == missing:
            return node
        one = np.float32(mark) if self.precision == "float32" else np.float64(mark)
        border = _strict(float(one), self.operator, self.precision)
        after = float(np.nextafter(one, type(one)(np.inf)))
        upto = self.split(feature, border, node, missing, False)
        return self.split(
            feature, _strict(after, self.operator, self.precision), upto, node, False
        )  # NaN goes right, to the node's own default

    def member(
        self,
        feature: int,
        codes: Collection[int],
        inside: int,
        outside: int,
        missing: int,
        zero: float = 0.0,
    ) -> int:
        """A test "category in codes" as a chain of thresholds, read from the highest code down.

        `zero`: numbers above it (or equal, if it is 0) count as category 0.
        """
        self.categorical.add(feature)
        if not codes or min(codes) < 0:
            raise Unsupported(f"categorical split on feature {feature} with codes {sorted(codes)}")
        marks = sorted({c for code in codes for c in (code, code + 1)})
        state = node = outside  # everything below the first code
        for mark in marks:
            above = inside if mark in codes else outside
            if above != state:  # below `mark` what was built so far, from it on `above`
                border = _strict(mark, self.operator, self.precision) if mark or not zero else zero
                node = self._node(feature, border, node, above, False, [0.0] * self.outputs)
                state = above
        return self.unless_missing(feature, node, missing)

    def unless_missing(self, feature: int, node: int, missing: int) -> int:
        """What `node` says, but NaN goes to `missing`: every number is <= inf."""
        return self._node(feature, np.inf, node, missing, False, [0.0] * self.outputs)

    def _node(
        self,
        feature: int,
        threshold: float,
        left: int,
        right: int,
        missing_left: bool,
        value: Sequence[float],
    ) -> int:
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.left.append(left)
        self.right.append(right)
        self.missing_left.append(missing_left)
        self.value.append(value)
        return len(self.feature) - 1

    def close(self, root: int) -> None:
        """End a tree: its root moves to the front of its slice."""
        a = self._start
        if root != a:
            columns: tuple[list[Any], ...] = (
                self.feature,
                self.threshold,
                self.left,
                self.right,
                self.missing_left,
                self.value,
            )
            for column in columns:
                column[a], column[root] = column[root], column[a]
            for child in (self.left, self.right):
                for i in range(a, len(child)):
                    child[i] = {a: root, root: a}.get(child[i], child[i])
        self.roots.append(a)
        self._start = len(self.feature)

    def ensemble(
        self,
        *,
        base: Sequence[float],
        n_features: int,
        classes: Sequence[object],
        source: str,
        cut: float = 0.0,
        single: bool = False,
        missing: bool = False,
    ) -> Ensemble:
        if not self.roots:
            raise Unsupported(f"the {source} model has no trees; fit it first")
        thresholds = effective(np.asarray(self.threshold), self.operator, self.precision)
        feature = np.asarray(self.feature, dtype=np.int32)
        return Ensemble(
            feature=feature,
            threshold=np.where(feature < 0, np.inf, thresholds),
            left=np.asarray(self.left, dtype=np.int32),
            right=np.asarray(self.right, dtype=np.int32),
            missing_left=np.asarray(self.missing_left, dtype=np.bool_),
            value=np.ascontiguousarray(
                np.asarray(self.value, dtype=np.float64).reshape(len(feature), -1)
            ),
            roots=np.asarray(self.roots, dtype=np.int32),
            base=np.asarray(base, dtype=np.float64),
            n_features=n_features,
            classes=tuple(classes),
            source=source,
            operator=self.operator,
            precision=self.precision,
            cut=cut,
            single=single,
            missing=missing,
            categorical=tuple(sorted(self.categorical)),
        )


def _strict(mark: float, operator: str, precision: str) -> float:
    """A raw threshold t for which the library's own comparison means x < mark."""
    if operator == "<":
        return float(mark)
    one = np.float32(mark) if precision == "float32" else np.float64(mark)
    return float(np.nextafter(one, type(one)(-np.inf)))
