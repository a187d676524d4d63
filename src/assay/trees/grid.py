"""Thresholds as a grid: every feature cut at its sorted thresholds, and how much noise falls in
each cell.

Cell j of a feature is (t[j-1], t[j]]; the last one is open. The grid's *product* is what the paper
enumerates; here only its edges are ever stored: masses per feature, (records, cells) in one flat
array."""

from dataclasses import dataclass

import numpy as np

from assay.noise.joint import Noise, normal_level
from assay.noise.marginal import Floats, between
from assay.trees.ensemble import Ensemble, Ints


@dataclass(frozen=True, eq=False)
class Grid:
    """Sorted thresholds per feature and, per node, which of them it tests."""

    thresholds: tuple[Floats, ...]
    start: Ints  # (features + 1,) first cell of each feature in the flat arrays
    cut: np.ndarray[tuple[int], np.dtype[np.int32]]  # (nodes,) a cell <= cut goes left

    @classmethod
    def of(cls, ensemble: Ensemble) -> "Grid":
        thresholds = []
        cut = np.full(len(ensemble.feature), -1, dtype=np.int32)
        for f in range(ensemble.n_features):
            nodes = np.flatnonzero(ensemble.feature == f)
            values = ensemble.threshold[nodes]
            t = np.unique(values[np.isfinite(values)])
            thresholds.append(t)
            cut[nodes] = np.where(np.isneginf(values), -1, np.searchsorted(t, values))
        sizes = [len(t) + 1 for t in thresholds]
        return cls(tuple(thresholds), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), cut)

    @property
    def boxes(self) -> float:
        """How many boxes the paper's equation (3) counts."""
        return float(np.prod([len(t) + 1.0 for t in self.thresholds]))

    def representatives(self) -> Floats:
        """One number inside each cell, flat: its upper edge."""
        return np.concatenate([np.append(t, np.inf) for t in self.thresholds])

    def masses(self, noise: Noise, x: Floats) -> Floats:
        """P(feature f reads in cell j) for every record, (n, cells)."""
        out = np.zeros((len(x), int(self.start[-1])))
        parts = noise.marginals(x.shape[1])
        for f, t in enumerate(self.thresholds):
            v = np.nan_to_num(x[:, f, None], nan=0.0)
            n = len(x)
            below = np.concatenate(
                [np.zeros((n, 1)), parts[f].below(v, t[None]), np.ones((n, 1))], axis=1
            )
            above = np.concatenate(
                [np.ones((n, 1)), parts[f].above(v, t[None]), np.zeros((n, 1))], axis=1
            )
            cells = between(below[:, :-1], above[:, :-1], below[:, 1:], above[:, 1:])
            out[:, self.start[f] : self.start[f + 1]] = cells / cells.sum(axis=1, keepdims=True)
        return out

    def levels(self, noise: Noise, x: Floats) -> Floats:
        """Each cell's upper edge as a standard normal number (the copula's coordinate), (n,
        cells)."""
        out = np.full((len(x), int(self.start[-1])), np.inf)
        parts = noise.marginals(x.shape[1])
        for f, t in enumerate(self.thresholds):
            if len(t):
                v = np.nan_to_num(x[:, f, None], nan=0.0)
                out[:, self.start[f] : self.start[f + 1] - 1] = normal_level(parts[f], v, t[None])
        return out
