"""Thresholds as a grid: every feature cut at its sorted thresholds, and how much noise falls in
each cell.

Cell j of a feature is (t[j-1], t[j]]; the last one is open. The grid's *product* is what the paper
enumerates; here only its edges are ever stored: masses per feature, (records, cells) in one flat
array."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second

from durometer.kernels.arrays import Floats, Ints
from durometer.noise.joint import Noise, normal_level
from durometer.noise.marginal import Marginal, between
from durometer.trees.ensemble import Ensemble


@dataclass(frozen=True, eq=False)
class Grid:
    """Sorted thresholds per feature and, per node, which of them it tests."""

    thresholds: tuple[Floats, ...]
    start: Ints  # (features + 1,) first cell of each feature in the flat arrays
    cut: np.ndarray[tuple[int], np.dtype[np.int32]]  # (nodes,) a cell <= cut goes left

    @classmethod
    def of(cls, ensemble: Ensemble) -> "Grid":
        """Made once for each ensemble."""
        if ensemble not in _made:
            thresholds = []
            cut = np.full(len(ensemble.feature), -1, dtype=np.int32)
            for f in range(ensemble.n_features):
                nodes = np.flatnonzero(ensemble.feature == f)
                values = ensemble.threshold[nodes]
                t = np.unique(values[np.isfinite(values)])
                thresholds.append(t)
                cut[nodes] = np.where(np.isneginf(values), -1, np.searchsorted(t, values))
            sizes = [len(t) + 1 for t in thresholds]
            start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            _made[ensemble] = cls(tuple(thresholds), start, cut)
        return _made[ensemble]

    @property
    def boxes(self) -> float:
        """How many boxes the paper's equation (3) counts."""
        return float(np.prod([len(t) + 1.0 for t in self.thresholds]))

    def representatives(self) -> Floats:
        """One finite number inside each cell, flat: its upper edge, or just above the lower one."""
        return np.concatenate(
            [np.append(t, np.nextafter(t[-1], np.inf) if len(t) else 0.0) for t in self.thresholds]
        )

    def masses(self, noise: Noise, x: Floats) -> Floats:
        """P(feature f reads in cell j) for every record, (n, cells)."""
        below, above = self._edges(noise, x)
        last = self.start[1:] - 1
        inner = np.delete(np.arange(self.start[-1]), last)  # cells that end at a threshold
        ends = np.ones((2, len(x), int(self.start[-1])))  # below and above each cell's upper end
        ends[1] = 0.0
        ends[0][:, inner], ends[1][:, inner] = below, above
        begins = np.zeros_like(ends)
        begins[1] = 1.0
        begins[0][:, inner + 1], begins[1][:, inner + 1] = below, above
        cells = between(*begins, *ends)
        whole = np.add.reduceat(cells, self.start[:-1], axis=1)
        return np.asarray(cells / np.repeat(whole, np.diff(self.start), axis=1))

    def _edges(self, noise: Noise, x: Floats) -> tuple[Floats, Floats]:
        """P(X <= t) and P(X > t) at every threshold, (n, thresholds)."""
        parts = noise.marginals(x.shape[1])
        sizes = np.array([len(t) for t in self.thresholds])
        feature, t = np.repeat(np.arange(len(sizes)), sizes), np.concatenate(self.thresholds)
        values = np.nan_to_num(x, nan=0.0)
        below, above = np.empty((len(x), len(t))), np.empty((len(x), len(t)))
        law = np.array(
            [p.params if isinstance(p, Marginal) and p.plain else (0.0, 0.0) for p in parts]
        )
        plain = law[:, 1] > 0
        some = plain[feature]
        if some.any():  # all normal features at once
            mean, sd = law[feature[some]].T
            z = (t[some] - values[:, feature[some]] - mean) / sd
            below[:, some], above[:, some] = scipy.special.ndtr(z), scipy.special.ndtr(-z)
        ends = np.cumsum(sizes)
        for f in np.flatnonzero(~plain & (sizes > 0)):
            here = slice(int(ends[f] - sizes[f]), int(ends[f]))
            v = values[:, f, None]
            below[:, here], above[:, here] = (
                parts[f].below(v, t[None, here]),
                parts[f].above(v, t[None, here]),
            )
        return below, above

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


_made: WeakKeyDictionary[Ensemble, Grid] = WeakKeyDictionary()
