"""The paper's own methods (Scher & Truegler 2022): every box of the threshold grid, or those near
a record.

Equation (3) counts the boxes: a product over features, hence exponential. All of them sum to the
probability (equation 4); the ones that meet the bounding box of the 99 % hyperellipsoid (section
3.2.1) leave a little mass out. Both read a box's label from the trees, not from its centre, which
an open box does not have.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import scipy  # `scipy.stats` is loaded when it is first asked for: half a second

from durometer.core.errors import DurometerError, Unsupported
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Noise
from durometer.noise.marginal import Marginal
from durometer.probability.methods import Boxes
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.readers import read

LIMIT = 5_000_000
Cells = list[np.ndarray[tuple[int], np.dtype[np.int64]]]


def boxes(
    model: Any, noise: Noise | None = None, record: Any = None, share: float | None = None
) -> Boxes:
    """The boxes that a tree or an ensemble cuts the space into, each with its label: the paper's
    "all boxes", or with a share its "99 % boxes" (Scher & Truegler, 2022).

    `Nature` does not need them: there are as many as the product over all features of their
    thresholds, and its bounds are found without. They are here to repeat the paper, and for trees
    so small that one wants to look at them.

    Args:
        model: A tree model of any kind that is read, or an `Ensemble`.
        noise: The noise around the record: normal, or none, in each feature. Only with `share`.
        record: The record (features,) around which boxes are kept. Only with `share`.
        share: Keep the boxes that meet the box around the hyperellipsoid with this share of the
            noise, e.g. 0.99. None: all boxes.

    Returns:
        `Boxes` with `low`, `high` and `label`; `robustness(noise, record, label)` sums their mass.

    Raises:
        Unsupported: There are more than 5 million boxes, or the noise is not normal.
        DurometerError: `share` is given without noise and record, or the other way round.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tree = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> found, noise = du.probability.boxes(tree), du.Normal(sd=0.5)
    >>> found.label.tolist(), round(found.robustness(noise, [1.0], 0), 4)
    ([0, 1], 0.8413)
    """
    ensemble = model if isinstance(model, Ensemble) else read(model)
    grid = Grid.of(ensemble)
    if share is None:
        if noise is not None or record is not None:
            raise DurometerError(
                "boxes(noise=, record=) without share=: all boxes need neither; share=0.99 keeps "
                "those near the record"
            )
        return _boxes(ensemble, [np.arange(len(t) + 1) for t in grid.thresholds])
    if noise is None or record is None:
        raise DurometerError(f"boxes(share={share}) needs noise= and record=, one row of features")
    if not 0 < share < 1:
        raise DurometerError(f"boxes(share={share}): expected between 0 and 1, e.g. 0.99")
    x = np.asarray(record, dtype=float)
    if x.shape != (ensemble.n_features,) or not np.isfinite(x).all():
        raise DurometerError(
            f"boxes(record=) of shape {x.shape}: expected ({ensemble.n_features},) numbers, none "
            "of them missing"
        )
    radius = float(np.sqrt(scipy.stats.chi2.ppf(share, len(x))))
    kept: Cells = []
    for f, (t, part) in enumerate(zip(grid.thresholds, noise.marginals(len(x)), strict=True)):
        if not (isinstance(part, Marginal) and (part.plain or part.no_noise)):
            raise Unsupported("the hyperellipsoid belongs to normal noise; leave share= out")
        mean, sd = (0.0, 0.0) if part.no_noise else part.params
        middle = x[f] + mean
        first, last = np.searchsorted(t, [middle - radius * sd, middle + radius * sd])
        kept.append(np.arange(first, last + 1))
    return _boxes(ensemble, kept)


def _boxes(ensemble: Ensemble, cells: Cells) -> Boxes:
    count = float(np.prod([float(len(c)) for c in cells]))
    if count > LIMIT:
        raise Unsupported(
            f"{count:.3g} boxes: their number is exponential in the features; du.Nature bounds the "
            "probability without them"
        )
    edges: list[Floats] = [
        np.concatenate([[-np.inf], t, [np.inf]]) for t in Grid.of(ensemble).thresholds
    ]
    index = np.array(list(product(*cells)), dtype=np.int64).reshape(int(count), len(cells))
    low = np.stack([e[index[:, f]] for f, e in enumerate(edges)], axis=1)
    high = np.stack([e[index[:, f] + 1] for f, e in enumerate(edges)], axis=1)
    above = np.where(np.isfinite(low), np.nextafter(low, np.inf), 0.0)
    return Boxes(low, high, ensemble.decide(np.where(np.isfinite(high), high, above)))
