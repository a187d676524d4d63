"""retention: how much of what a feature tells survives an attacker who moves that feature alone.

For one feature, the attacked class and a class it may be pushed to: the area under the ROC curve
between the two, less one half, as it is and after every attacked row has moved the feature as far
towards the other class as its box allows. The retention is the second over the first, summed over
the pairs of classes that the goal names: 1 for a feature nobody can move, 0 or less for one that
tells nothing once it is attacked. (Cf. the robust split gain of Chen et al. 2019 and GROOT, which
ask the same of one threshold at a time.)

What a reader would get wrong: it is a ranking of features, no proof of anything. It looks at one
feature at a time and at no relation; the exact search judges the model that comes of it.
"""

from __future__ import annotations

import numpy as np
import torch

from durometer.data.dataset import Dataset
from durometer.goals.goal import Goal
from durometer.kernels.arrays import Bools, Floats
from durometer.spaces.region import Space

_ROWS = 4000  # looked at: the ranking needs no more


def retention(data: Dataset, space: Space, goal: Goal) -> Floats:
    """One number per feature, at most 1.

    >>> import durometer as du
    >>> x = np.repeat([[0.0, 0.50], [1.0, 0.52]], 20, axis=0)  # far apart, and close together
    >>> data = Dataset(x, np.repeat([0, 1], 20))
    >>> retention(data, du.Linf(0.1), du.Untargeted()).round(1).tolist()
    [1.0, -1.0]
    """
    part = data if len(data) <= _ROWS else data.sample(_ROWS)
    x, y = part.x.double().numpy(), part.y.numpy()
    low, high = reach(space, part)
    pairs = harms(part, goal)
    coded = _coded(part, x.shape[1])
    found = np.ones(x.shape[1])
    for f in range(x.shape[1]):
        moves, known = low[:, f] < high[:, f], ~np.isnan(x[:, f])
        if not any(moves[y == s].any() for s, _ in pairs):
            continue
        if coded[f]:
            found[f] = 0.0  # codes have no order to move along
            continue
        before = after = 0.0
        for s, t in pairs:
            one, two = (y == s) & known, (y == t) & known  # a gap stays one
            if not one.any() or not two.any():
                continue
            clean = _auc(x[one, f], x[two, f]) - 0.5
            up = clean >= 0  # the attacked lie above: they move down, the others, if attacked, up
            ours = (low if up else high)[one, f]
            theirs = (high if up else low)[two, f] if (t, s) in pairs else x[two, f]
            before += abs(clean)
            after += (_auc(ours, theirs) - 0.5) * (1 if up else -1)
        found[f] = after / before if before > 1e-9 else 0.0
    return found


def reach(space: Space, data: Dataset) -> tuple[Floats, Floats]:
    """(n, d) the lowest and the highest value of each feature under attack; NaN for a gap."""
    x = data.x.double().clone()
    gone = x.isnan()
    if bool(gone.any()):
        usual = x.nanmedian(0).values.nan_to_num()  # a value of the column: of codes, a code
        x = torch.where(gone, usual, x)
    low, high = (b.double().clone() for b in space.around(x).box())
    low[gone], high[gone] = torch.nan, torch.nan
    return np.asarray(low.numpy()), np.asarray(high.numpy())


def harms(data: Dataset, goal: Goal) -> set[tuple[int, int]]:
    """Pairs (true class, class it may be pushed to) that occur in the data."""
    y = data.y
    count = max(2, len(data.classes or ()), int(y.max()) + 1)
    mask = goal.targets(y, torch.zeros(len(y), count), torch.arange(len(y)), data.classes)
    return {
        (int(s), int(t))
        for s in y.unique()
        for t in mask[y == s].any(0).nonzero()[:, 0]
        if bool((y == t).any())
    }


def _auc(a: Floats, b: Floats) -> float:
    """The chance that a row of `a` lies above one of `b`; ties count a half."""
    order = np.sort(b)
    below, upto = np.searchsorted(order, a, "left"), np.searchsorted(order, a, "right")
    return float((below + upto).mean() / (2 * len(b)))


def _coded(data: Dataset, d: int) -> Bools:
    if data.schema is None:
        return np.zeros(d, dtype=bool)
    return np.array([f.kind == "category" for f in data.schema.features])
