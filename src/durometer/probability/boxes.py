"""The leaves of a tree as boxes: a single tree's answer is constant on each of them."""

from dataclasses import dataclass

import numpy as np

from durometer.kernels.arrays import Floats
from durometer.noise.joint import Noise
from durometer.probability.leaves import leaf_labels
from durometer.trees.ensemble import Ensemble


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes with their labels; `mass` integrates them."""

    low: Floats
    high: Floats
    label: np.ndarray[tuple[int], np.dtype[np.int64]]

    def robustness(self, noise: Noise, x: Floats, label: int) -> float:
        """Equation (4): the mass of the boxes that share the record's label."""
        same = self.label == label
        return float(noise.mass(x[None], self.low[None, same], self.high[None, same]).sum())


def leaf_boxes(ensemble: Ensemble, nan: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Boxes:
    """The leaves of a single tree as boxes, for records with these features missing."""
    low: list[Floats] = []
    high: list[Floats] = []
    leaf: list[int] = []
    d = ensemble.n_features
    stack = [(int(ensemble.roots[0]), np.full(d, -np.inf), np.full(d, np.inf))]
    while stack:
        node, a, b = stack.pop()
        f = int(ensemble.feature[node])
        if f < 0:
            low.append(a)
            high.append(b)
            leaf.append(node)
        elif nan[f]:
            side = ensemble.left if ensemble.missing_left[node] else ensemble.right
            stack.append((int(side[node]), a, b))
        else:
            t = float(ensemble.threshold[node])
            if t > a[f]:
                upper = b.copy()
                upper[f] = min(t, b[f])
                stack.append((int(ensemble.left[node]), a, upper))
            if t < b[f]:
                lower = a.copy()
                lower[f] = max(t, a[f])
                stack.append((int(ensemble.right[node]), lower, b))
    return Boxes(np.array(low), np.array(high), leaf_labels(ensemble)[leaf])
