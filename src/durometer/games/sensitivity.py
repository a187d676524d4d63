"""What a laboratory asks of a `Nature`: whose noise matters, how far an answer is certain, at which
noise level or bias a decision falls. Always with both ends of what is known.

What a reader would get wrong: a probability need not fall steadily with the noise.
`breakdown_noise_level` is about the levels it was asked about: up to "low" every one of them is
known to be safe, and "high" is the first that is known not to be.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from durometer.core.errors import DurometerError, Unsupported
from durometer.data.dataset import Dataset
from durometer.games.nature_methods import certificate, of_classes
from durometer.games.rows import feature_names, rows_of
from durometer.kernels.arrays import Floats
from durometer.noise.scaled import scaled
from durometer.noise.without_noise import without_noise
from durometer.probability.shifted import adversarial_shift
from durometer.probability.shifted import radius as smoothed_radius

if TYPE_CHECKING:
    from durometer.games.nature import Nature

# What a screening spends in turn: a share of the budget, and the width it stops at, as a share of
# what may change. Few records are so near the border that only the last stage's width tells.
STAGES = ((0.001, 1 / 4), (0.02, 1 / 4), (1.0, 1 / 100))
ROWS = 1000  # records at a time: their cells' masses must fit
LEVELS = tuple(float(k) for k in np.geomspace(1 / 16, 16, 33))


def importance(nature: Nature, data: Any, seed: int) -> Any:
    """A DataFrame: columns "low" and "high", each over the features, named by the data's schema or
    columns; a table's `attrs["units"]` ({"Glucose": "mg/dl"}) stand behind the names."""
    import pandas as pd

    ready, x = nature._named(data)._ready(), rows_of(data)
    stays = np.eye(ready._classes(x), dtype=bool)[ready.predict(x)]
    before = certificate(ready, x, stays, seed)
    low, high = {}, {}
    for f, name in enumerate(feature_names(data, x.shape[1])):
        quiet = without_noise(ready.noise, f, x.shape[1])
        if quiet is ready.noise:  # the feature has no noise: nothing to gain
            low[name] = high[name] = np.zeros(len(x))
            continue
        after = certificate(replace(ready, noise=quiet), x, stays, seed)
        low[name], high[name] = after.low - before.high, after.high - before.low
    ends = {"low": pd.DataFrame(low, _index(data)), "high": pd.DataFrame(high, _index(data))}
    return pd.concat(ends, axis=1)


def certified_radius(nature: Nature, data: Any, seed: int, like: int | None) -> Any:
    """A DataFrame: the likeliest class under noise ("label"), and the shift within which it stays
    the likeliest: in standard deviations of the noise ("sds") and in units of the data, by the
    quietest direction ("L2"). 0: not known to be the likeliest.

    `like`: stop where a probability is known as narrowly as the standard error of so many draws. To
    ask for 1e-6 everywhere costs most where it says least.
    """
    import pandas as pd

    if like is not None and not like >= 100:
        raise DurometerError(
            f"like={like}: expected a number of draws to be as precise as, e.g. 10**5"
        )
    named, x = nature._named(data), rows_of(data)
    per_unit = adversarial_shift(named.noise, x.shape[1], 2.0, 1.0).sds
    if per_unit is None:
        raise Unsupported("a radius is for normal noise; for uniform noise give evaluate a space")
    ready = named._ready()
    label, sds = np.zeros(len(x), np.int64), np.zeros(len(x))
    first = nature.tolerance if like is None else 0.3 / np.sqrt(like)
    width, todo = np.full(len(x), first), np.arange(len(x))
    for _ in range(1 if like is None else 4):
        for asked in np.unique(width[todo]):
            rows = todo[width[todo] == asked]
            low, high = of_classes(replace(ready, tolerance=float(asked)), x[rows], seed)
            label[rows], sds[rows] = _radii(low, high)
            gap, best = (high - low)[np.arange(len(rows)), label[rows]], high.max(axis=1)
            width[rows] = np.inf if like is None else _finer(gap, best, like, asked)
        todo = todo[np.isfinite(width[todo])]
        if not len(todo):
            break
    return pd.DataFrame({"label": label, "sds": sds, "L2": sds / per_unit}, _index(data))


def _radii(low: Floats, high: Floats) -> tuple[Any, Floats]:
    """Labels, and how far they stay the likeliest, in standard deviations."""
    label, rows = low.argmax(axis=1), np.arange(len(low))
    best, rivals = low[rows, label], high.copy()
    rivals[rows, label] = -np.inf
    return label, smoothed_radius(best, np.minimum(rivals.max(axis=1), 1 - best))


def _finer(gap: Floats, best: Floats, like: int, asked: float) -> Floats:
    """The width to ask for next, in powers of 4 so that records are asked together; infinite where
    nothing more is wanted, or the budget ended before the width `asked` for was reached."""
    wanted = np.sqrt(np.maximum(best * (1 - best), 1 / like) / like)
    finer = 4.0 ** np.floor(np.log(wanted) / np.log(4.0))
    return np.where((gap <= wanted) | (gap > 1.01 * asked), np.inf, finer)


def rank_by_stability(nature: Nature, data: Any, share: float, seed: int) -> Any:
    """A DataFrame, the worst first: "low" and "high" of the probability that the answer stays, and
    "stays": is it `share` or more ("yes", "no", "open")?

    Cheap bounds first, the whole budget only for records they leave open: made for 100,000 records.
    """
    import pandas as pd

    if not 0 < share < 1:
        raise DurometerError(f"share={share}: expected a probability between 0 and 1, e.g. 0.99")
    ready, x = nature._named(data)._ready(), rows_of(data)
    label = ready.predict(x)
    low, high = np.zeros(len(x)), np.ones(len(x))
    todo = np.arange(len(x))
    for part, width in STAGES:
        quick = replace(
            ready, budget=part * nature.budget, tolerance=max(nature.tolerance, (1 - share) * width)
        )
        for rows in np.array_split(todo, max(len(todo) // ROWS, 1)):
            stays = np.eye(ready._classes(x[:1]), dtype=bool)[label[rows]]
            found = certificate(quick, x[rows], stays, seed)
            low[rows] = np.maximum(low[rows], found.low)
            high[rows] = np.minimum(high[rows], found.high)
        todo = todo[(low[todo] < share) & (high[todo] >= share)]
        if not len(todo):
            break
    known = np.where(low >= share, "yes", np.where(high < share, "no", "open"))
    table = pd.DataFrame({"low": low, "high": high, "stays": known}, _index(data))
    return table.sort_values(["high", "low"], kind="stable")


def breakdown_noise_level(
    nature: Nature, data: Any, share: float, bias: bool, feature: Any, levels: Any, seed: int
) -> Any:
    """A DataFrame: up to "low" the answer stays with probability `share` or more at every level
    asked, at "high" it does not (infinite: at none). With `feature`, only its noise grows."""
    import pandas as pd

    if not 0 < share < 1:
        raise DurometerError(f"share={share}: expected a probability between 0 and 1, e.g. 0.99")
    steps = np.sort(np.asarray(levels, dtype=float))
    if steps.ndim != 1 or not len(steps) or not steps[0] > 0:
        raise DurometerError(f"levels={levels}: expected positive multiples of the noise")
    ready, x = nature._named(data)._ready(), rows_of(data)
    places = None
    if feature is not None:
        known = feature_names(data, x.shape[1])
        if feature not in known:
            raise DurometerError(
                f"no feature {feature!r}; features are {', '.join(map(str, known))}"
            )
        places = (known.index(feature),)
    stays = np.eye(ready._classes(x), dtype=bool)[ready.predict(x)]
    safe, fallen = np.zeros(len(x)), np.full(len(x), np.inf)
    sure, todo = np.ones(len(x), dtype=bool), np.arange(len(x))
    for level in steps:
        lows, highs = _at(ready, x[todo], stays[todo], level, bias, places, seed)
        sure[todo] &= lows >= share
        safe[todo[sure[todo]]] = level
        fallen[todo[highs < share]] = level
        todo = todo[~(highs < share)]
        if not len(todo):
            break
    return pd.DataFrame({"low": safe, "high": fallen}, _index(data))


def html_report(nature: Nature, data: Any, share: float, rows: int, seed: int) -> str:
    """The page; gains and levels for the `rows` least certain records."""
    from markupsafe import Markup

    from durometer.report.page.nature import nature_page
    from durometer.report.page.regions import regions

    if not isinstance(rows, int) or rows < 1:
        raise DurometerError(f"rows={rows!r}: expected how many records to look at closely, e.g. 6")
    named, x = nature._named(data), rows_of(data)
    names = [str(name) for name in feature_names(data, x.shape[1])]
    screened = rank_by_stability(nature, data, share, seed)
    index = list(range(len(x))) if _index(data) is None else list(_index(data))
    least = [index.index(i) for i in screened.index[:rows]]
    few = Dataset(x[least], np.zeros(len(least), dtype=int), ids=[str(index[i]) for i in least])
    asked = replace(named._ready(), noise=named.noise)
    gains = importance(asked, few, seed).rename(columns=dict(enumerate(names)), level=1)
    levels = LEVELS[::2]
    noise = breakdown_noise_level(asked, few, share, False, None, levels, seed)
    drift = breakdown_noise_level(asked, few, share, True, None, levels, seed)
    picture = None
    if named._ready()._ensemble is not None and x.shape[1] > 1:
        best = np.argsort(-gains["low"].mean().to_numpy(), kind="stable")[:2]
        two = (int(best[0]), int(best[1]))
        drawn = regions(nature.model, named.noise, x[least[0]], two, names)
        picture = Markup(drawn)
    said = getattr(named.noise, "description", type(named.noise).__name__)
    title = f"durometer: {len(x):,} records under noise"
    return nature_page(title, str(said).rstrip("."), share, screened, gains, noise, drift, picture)


def _at(
    ready: Nature, x: Floats, stays: Any, level: float, bias: bool, places: Any, seed: int
) -> tuple[Floats, Floats]:
    """Bounds at one level; of a bias the worse of both directions."""
    noises = [
        scaled(
            ready.noise, x.shape[1], 1.0 if bias else level, sign * level if bias else 0.0, places
        )
        for sign in ((1.0, -1.0) if bias else (1.0,))
    ]
    found = [certificate(replace(ready, noise=noise), x, stays, seed) for noise in noises]
    return np.min([f.low for f in found], axis=0), np.min([f.high for f in found], axis=0)


def _index(data: Any) -> Any:
    return data.ids if isinstance(data, Dataset) else getattr(data, "index", None)
