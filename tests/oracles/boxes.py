"""The paper's own methods (Scher & Truegler 2022): every box of the threshold grid, or those near
the record.

Equation (3) counts the boxes: a product over features, hence exponential. `all_boxes` sums the
mass of those with the record's label (equation 4); `near_boxes` keeps the ones that meet the
bounding box of the 99 % hyperellipsoid (section 3.2.1). Both read a box's label from the trees,
not from its centre, which an open box does not have.
"""

from itertools import product

import numpy as np
from scipy import stats

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Noise
from durometer.noise.marginal import Marginal
from durometer.probability.methods import Boxes
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid

LIMIT = 5_000_000


def all_boxes(ensemble: Ensemble) -> Boxes:
    """Every box of the grid."""
    return _boxes(ensemble, [np.arange(len(t) + 1) for t in Grid.of(ensemble).thresholds])


def near_boxes(ensemble: Ensemble, noise: Noise, x: Floats, share: float = 0.99) -> Boxes:
    """The boxes that meet the bounding box of the `share` hyperellipsoid of a normal noise around
    x."""
    radius = np.sqrt(stats.chi2.ppf(share, len(x)))
    kept = []
    for f, (t, part) in enumerate(
        zip(Grid.of(ensemble).thresholds, noise.marginals(len(x)), strict=True)
    ):
        if not (isinstance(part, Marginal) and part.name in ("norm", "none")):
            raise Unsupported("the hyperellipsoid belongs to normal noise; use all_boxes")
        sd = part.params[1] if part.name == "norm" else 0.0
        first = np.searchsorted(t, x[f] - radius * sd)
        last = np.searchsorted(t, x[f] + radius * sd)
        kept.append(np.arange(first, last + 1))
    return _boxes(ensemble, kept)


def _boxes(ensemble: Ensemble, cells: list[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> Boxes:
    count = float(np.prod([float(len(c)) for c in cells]))
    if count > LIMIT:
        raise Unsupported(
            f"{count:.3g} boxes: the grid is exponential in the features; use exact.probability"
        )
    edges = [np.concatenate([[-np.inf], t, [np.inf]]) for t in Grid.of(ensemble).thresholds]
    index = np.array(list(product(*cells)), dtype=np.int64).reshape(int(count), len(cells))
    low = np.stack([e[index[:, f]] for f, e in enumerate(edges)], axis=1)
    high = np.stack([e[index[:, f] + 1] for f, e in enumerate(edges)], axis=1)
    above = np.where(np.isfinite(low), np.nextafter(low, np.inf), 0.0)
    return Boxes(low, high, ensemble.decide(np.where(np.isfinite(high), high, above)))
