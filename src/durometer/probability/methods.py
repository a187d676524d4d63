"""Which method for which case: P(label = class) of a tree ensemble under noise, always as an
interval.

| ensemble | independent noise | correlated noise |
|---|---|---|
| one tree | leaves: exact | a factor per block: certified; else Genz's method: numerical |
| several | branch and bound: certified | a factor per block: certified; else sampled: estimate |

The four kinds are different promises. "exact" and "certified" contain the truth. "numerical" adds
an error *estimate*: of a lattice rule, or of a cdf that scipy computes to 1e-7 or so. "estimate" is
a 99 % confidence interval of randomised quasi-Monte-Carlo.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats, Ints
from durometer.noise.joint import Noise, normal_level
from durometer.noise.normal_boxes import QUANTILE, estimates
from durometer.probability import leaves
from durometer.probability.certified.bounds import Draws, bounds
from durometer.probability.estimated import quasi as correlated
from durometer.probability.factors import by_factors, factors
from durometer.probability.leaves import leaf_labels
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid

WIDE = 1e-3  # bounds by factors that are wider than this give way to the estimate
LATTICE = 16_384  # the most points of a lattice rule
UNHELPFUL = 0.01  # a wider certificate gets an estimate beside it


@dataclass(frozen=True, eq=False)
class Probability:
    """Probabilities of records as intervals, and what kind of intervals they are.

    Args:
        low: Lower ends (n,).
        high: Upper ends (n,).
        kind: "exact" and "certified" contain the truth; "numerical" adds an error estimate;
            "estimate", "sampled", "sequential" and "importance" are confidence intervals.
        estimate_low: Lower end of an estimate beside a wide certificate (n,); NaN where there is
            none. None: no row has one.
        estimate_high: Upper end of it.
        queries: Model queries per record; 0 for trees, which are read.
    """

    low: Floats
    high: Floats
    kind: str  # "exact", "certified", "numerical", "estimate", "sampled", "certified+sampled", ...
    estimate_low: Floats | None = None  # beside a wide certificate, NaN where it is narrow
    estimate_high: Floats | None = None
    queries: Ints | int = 0  # how often the model itself was asked, per record; trees are read

    @property
    def width(self) -> Floats:
        """Widths of the intervals (n,)."""
        return self.high - self.low

    @property
    def middle(self) -> Floats:
        """Middles of the intervals (n,)."""
        return (self.low + self.high) / 2


def probability(
    ensemble: Ensemble,
    noise: Noise,
    x: Floats,
    label: Ints,
    *,
    tolerance: float = 1e-6,
    budget: float = 1.0,
    seed: int = 0,
    workers: int | None = None,
    estimate: bool = False,
) -> Probability:
    """P(the noisy record i is labelled `label[i]`)."""
    allowed = np.zeros((len(x), ensemble.n_classes), dtype=bool)
    allowed[np.arange(len(x)), label] = True
    return inside(
        ensemble,
        noise,
        x,
        allowed,
        tolerance=tolerance,
        budget=budget,
        seed=seed,
        workers=workers,
        estimate=estimate,
    )


def inside(
    ensemble: Ensemble,
    noise: Noise,
    x: Floats,
    allowed: NDArray[np.bool_],
    *,
    tolerance: float = 1e-6,
    budget: float = 1.0,
    seed: int = 0,
    workers: int | None = None,
    estimate: bool = False,
    draws: Draws | None = None,
) -> Probability:
    """P(the label of the noisy record i is among `allowed[i]`), (n, classes)."""
    x = ensemble.rows(x)
    if not 0 < tolerance < 1:
        raise DurometerError(f"tolerance={tolerance}: expected between 0 and 1")
    if allowed.shape != (len(x), ensemble.n_classes):
        raise DurometerError(
            f"allowed of shape {allowed.shape}: expected ({len(x)}, {ensemble.n_classes})"
        )
    grid = Grid.of(ensemble)
    tied = noise.correlation(x.shape[1])
    found = factors(tied) if tied is not None and not estimate else None
    if ensemble.n_trees == 1 and found is None:
        low, high, kind = _single(ensemble, grid, noise, x, tied, tolerance)
        return Probability(*_sum(low, high, allowed), kind)
    if estimate or (tied is not None and found is None):
        return _estimate(ensemble, grid, noise, x, allowed, tolerance, budget, seed, workers)

    # the smaller side of each row, class by class: the events are disjoint, so the bounds add up
    flip = allowed.sum(axis=1) > ensemble.n_classes - allowed.sum(axis=1)
    wanted = np.where(flip[:, None], ~allowed, allowed)
    most = int(wanted.sum(axis=1).max(initial=1))
    low, high = np.zeros(len(x)), np.zeros(len(x))
    masses = grid.masses(noise, x) if tied is None else None
    for turn in range(most):
        rows = np.flatnonzero(wanted.sum(axis=1) > turn)
        label = np.array([np.flatnonzero(wanted[i])[turn] for i in rows], dtype=np.int64)
        ends: tuple[Floats, Floats] | None
        if found is not None:
            ends = by_factors(
                ensemble,
                grid,
                noise,
                x[rows],
                label,
                found,
                tolerance=tolerance / most,
                budget=budget / most,
                workers=workers,
            )
        else:
            assert masses is not None
            some = (
                None
                if draws is None
                else replace(
                    draws,
                    generators=[draws.generators[int(i)] for i in rows],
                    confidence=1 - (1 - draws.confidence) / most,
                )
            )
            ends = bounds(
                ensemble,
                grid,
                masses[rows],
                x[rows],
                label,
                tolerance=tolerance / most,
                budget=budget / most,
                workers=workers,
                draws=some,
            )[:2]
        if ends is None or (found is not None and (ends[1] - ends[0]).max() > max(tolerance, WIDE)):
            # so many values of the factors share the budget that an estimate is narrower
            if ensemble.n_trees == 1:
                low, high, kind = _single(ensemble, grid, noise, x, tied, tolerance)
                return Probability(*_sum(low, high, allowed), kind)
            return _estimate(ensemble, grid, noise, x, allowed, tolerance, budget, seed, workers)
        low[rows] += ends[0]
        high[rows] += ends[1]
    carried = _carried(grid, noise, x.shape[1])
    low, high = np.clip(low - carried, 0, 1), np.clip(high + carried, 0, 1)
    low, high = np.where(flip, 1 - high, low), np.where(flip, 1 - low, high)
    kind = "certified" if draws is None else "certified+sampled"
    return Probability(low, high, "numerical" if carried else kind)


def _estimate(
    ensemble: Ensemble,
    grid: Grid,
    noise: Noise,
    x: Floats,
    allowed: NDArray[np.bool_],
    tolerance: float,
    budget: float,
    seed: int,
    workers: int | None,
) -> Probability:
    _, low, high = correlated.estimate(
        ensemble, grid, noise, x, tolerance=tolerance, budget=budget, seed=seed, workers=workers
    )
    return Probability(*_sum(low, high, allowed), "estimate")


def _carried(grid: Grid, noise: Noise, features: int) -> float:
    """What the library's own cdfs may move a probability by: nothing for the families that are
    known to be accurate, else their error at every threshold."""
    parts = noise.marginals(features)
    return float(sum(part.error * len(t) for part, t in zip(parts, grid.thresholds, strict=True)))


def with_estimate(
    found: Probability,
    ensemble: Ensemble,
    noise: Noise,
    x: Floats,
    allowed: NDArray[np.bool_],
    *,
    tolerance: float,
    budget: float,
    seed: int = 0,
) -> Probability:
    """A certificate, and an estimate beside it for the records where it is wide."""
    rows = np.flatnonzero(found.width > max(tolerance, UNHELPFUL))
    if found.kind != "certified" or not len(rows):
        return found
    ends = np.full((2, len(x)), np.nan)
    some = _estimate(
        ensemble, Grid.of(ensemble), noise, ensemble.rows(x)[rows], allowed[rows],
        max(tolerance, WIDE), budget, seed, None,
    )  # fmt: skip
    ends[0, rows] = np.maximum(some.low, found.low[rows])  # the certificate holds for both
    ends[1, rows] = np.minimum(some.high, found.high[rows])
    return replace(found, estimate_low=ends[0], estimate_high=ends[1])


def distribution(
    ensemble: Ensemble,
    noise: Noise,
    x: Floats,
    *,
    tolerance: float = 1e-6,
    budget: float = 1.0,
    seed: int = 0,
    workers: int | None = None,
    estimate: bool = False,
) -> tuple[Floats, Floats, str]:
    """(low, high, kind): bounds on P(label = class) for every class, (n, classes)."""
    x = ensemble.rows(x)
    grid = Grid.of(ensemble)
    tied = noise.correlation(x.shape[1])
    if ensemble.n_trees == 1 and tied is None:
        return _single(ensemble, grid, noise, x, tied, tolerance)
    options = {
        "tolerance": tolerance,
        "budget": budget,
        "seed": seed,
        "workers": workers,
        "estimate": estimate,
    }
    low, high = np.zeros((len(x), ensemble.n_classes)), np.ones((len(x), ensemble.n_classes))
    kind = ""
    for c in range(ensemble.n_classes if ensemble.n_classes > 2 else 1):
        found = probability(ensemble, noise, x, np.full(len(x), c), **options)  # type: ignore[arg-type]
        low[:, c], high[:, c], kind = found.low, found.high, found.kind
    if ensemble.n_classes == 2:
        low[:, 1], high[:, 1] = 1 - high[:, 0], 1 - low[:, 0]
    # classes add up to 1: what the others leave bounds each
    low = np.maximum(low, 1 - (high.sum(axis=1, keepdims=True) - high))
    high = np.minimum(high, 1 - (low.sum(axis=1, keepdims=True) - low))
    return np.clip(low, 0, 1), np.clip(high, 0, 1), kind


def _single(
    ensemble: Ensemble,
    grid: Grid,
    noise: Noise,
    x: Floats,
    tied: Floats | None,
    tolerance: float,
) -> tuple[Floats, Floats, str]:
    carried = _carried(grid, noise, x.shape[1])
    if tied is None:
        found = leaves.distribution(ensemble, grid, grid.masses(noise, x), x)
        off = leaves.ROUNDING + carried
        kind = "numerical" if carried else "exact"
        return np.clip(found - off, 0, 1), np.clip(found + off, 0, 1), kind
    low, high = np.zeros((len(x), ensemble.n_classes)), np.zeros((len(x), ensemble.n_classes))
    parts = noise.marginals(x.shape[1])
    for pattern in np.unique(np.isnan(x), axis=0):
        rows = np.flatnonzero((np.isnan(x) == pattern).all(axis=1))
        boxes = leaf_boxes(ensemble, pattern)
        a, b = (np.empty((len(rows), *edge.shape)) for edge in (boxes.low, boxes.high))
        for f, part in enumerate(parts):
            v = np.nan_to_num(x[rows, f, None], nan=0.0)
            for z, edge in ((a, boxes.low), (b, boxes.high)):
                z[:, :, f] = normal_level(part, v, edge[None, :, f])
        points, open_rows = 1024, np.arange(len(rows))
        while len(open_rows):
            value, unseen = estimates(a[open_rows], b[open_rows], tied, points)
            half = np.zeros((len(open_rows), ensemble.n_classes))
            for c in range(ensemble.n_classes):
                # the leaves share each shift of the lattice: their errors add up
                mine = value[:, :, boxes.label == c].sum(axis=2)
                half[:, c] = QUANTILE * mine.std(axis=0, ddof=1) + leaves.ROUNDING + carried
                half[:, c] += unseen[:, boxes.label == c].sum(axis=1)
                low[rows[open_rows], c] = mine.mean(axis=0) - half[:, c]
                high[rows[open_rows], c] = mine.mean(axis=0) + half[:, c]
            points *= 4
            wide = 2 * half.max(axis=1) > tolerance
            open_rows = open_rows[wide] if points <= LATTICE else open_rows[:0]
    return np.clip(low, 0, 1), np.clip(high, 0, 1), "numerical"


def _sum(low: Floats, high: Floats, allowed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    inside_low, inside_high = (
        np.where(allowed, low, 0).sum(axis=1),
        np.where(allowed, high, 0).sum(axis=1),
    )
    outside_low, outside_high = (
        np.where(~allowed, low, 0).sum(axis=1),
        np.where(~allowed, high, 0).sum(axis=1),
    )
    return np.clip(np.maximum(inside_low, 1 - outside_high), 0, 1), np.clip(
        np.minimum(inside_high, 1 - outside_low), 0, 1
    )


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes (low, high] with the labels that a model gives inside them.

    Args:
        low: Lower corners (m, features), -inf where a box is open.
        high: Upper corners (m, features), inf where a box is open.
        label: The class of each box (m,), counted from 0.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> du.probability.boxes(tree).high.round(3).tolist()  # trees see single precision
    [[1.5], [inf]]
    """

    low: Floats
    high: Floats
    label: np.ndarray[tuple[int], np.dtype[np.int64]]

    def robustness(self, noise: Noise, record: ArrayLike, label: int) -> float:
        """The mass of the boxes that have a label: equation (4) of the paper.

        Args:
            noise: The noise.
            record: The record (features,).
            label: The label, counted from 0.
        """
        same = self.label == label
        row = np.asarray(record, dtype=float)[None]
        return float(noise.mass(row, self.low[None, same], self.high[None, same]).sum())


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
