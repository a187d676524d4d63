"""Noise from data: a signal-to-noise ratio where nothing better is known, a fit where residuals
are.

`from_data` is the paper's Pima recipe: each feature's noise has 1/ratio of the feature's
*variance* (so ratio 10 is a standard deviation of 0.316 of the feature's) and, if wanted, the
data's own rank correlations. That the noise should be correlated like the data is an assumption;
residuals of repeated measurements tell."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy  # `scipy.stats` is loaded when it is first asked for: half a second

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats
from durometer.noise.copula import Copula
from durometer.noise.independent import Independent
from durometer.noise.joint import Part
from durometer.noise.marginal import Marginal, exponential, no_noise, normal

FAMILIES = ("norm", "laplace", "logistic", "expon", "gumbel_r", "gumbel_l")


def from_data(
    data: Any,
    ratio: float = 10.0,
    kinds: Mapping[Any, str] | None = None,
    correlated: bool = True,
    immutable: Sequence[Any] = (),
) -> Copula | Independent:
    """Noise in a given signal-to-noise ratio to data, where nothing better is known (Scher &
    Truegler, 2022).

    Args:
        data: The records, a table or an array (records, features) of numbers.
        ratio: Variance of each feature divided by the variance of its noise: 10 is a standard
            deviation of 0.316 of the feature's.
        kinds: Features whose noise is "exponential" instead of "normal", by name or position.
        correlated: Whether the noise has the rank correlations of the data; that is an assumption.
        immutable: Features without noise, by name or position.

    Returns:
        A `Copula`, or an `Independent` noise.

    Raises:
        DurometerError: A feature does not exist, or there are fewer than two records.

    >>> noise = from_data(np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]]), ratio=4, correlated=False)
    >>> noise.parts[0].params
    (0.0, 1.0)
    """
    if not ratio > 0:
        raise DurometerError(f"ratio={ratio}: a signal-to-noise ratio must be positive")
    values, names = _table(data)
    kinds = dict(kinds or {})
    for given in (*kinds, *immutable):
        if given not in names:
            raise DurometerError(f"no feature {given!r}; features are {', '.join(map(str, names))}")
    if len(values) < 2:
        raise DurometerError("1 record: at least 2 are needed to know how much a feature varies")
    sd = np.nanstd(values, axis=0, ddof=1) / np.sqrt(ratio)
    parts: list[Part] = []
    for name, s in zip(names, sd, strict=True):
        kind = kinds.get(name, "normal")
        if kind not in ("normal", "exponential"):
            raise DurometerError(f"kinds[{name!r}]={kind!r}: expected 'normal' or 'exponential'")
        if name in immutable or s == 0:
            parts.append(no_noise())
        else:
            parts.append(normal(0.0, float(s)) if kind == "normal" else exponential(float(s)))
    return _tie(parts, values) if correlated else Independent(tuple(parts))


def fit(
    residuals: Any, families: Sequence[str] = FAMILIES, correlated: bool = True
) -> Copula | Independent:
    """Fits noise to measured errors: for each feature the distribution of lowest AIC.

    Args:
        residuals: Errors, reading minus truth: a table or an array (measurements, features).
        families: Distributions of scipy.stats to choose from.
        correlated: Whether to fit rank correlations too.

    Returns:
        A `Copula`, or an `Independent` noise.

    Raises:
        DurometerError: A feature has fewer than 8 errors, or there is no such distribution.

    >>> import numpy as np
    >>> from durometer import noise
    >>> residuals = np.random.default_rng(0).normal(0, 2, (200, 1))
    >>> found = noise.fit(residuals, ("norm", "laplace")).parts[0]
    >>> found.name, round(found.params[1], 1)
    ('norm', 1.9)
    """
    values, names = _table(residuals)
    stats = scipy.stats
    known = stats.rv_continuous
    unknown = [name for name in families if not isinstance(getattr(stats, name, None), known)]
    if unknown or not families:
        raise DurometerError(
            f"families={list(families)}: expected names of scipy.stats, e.g. {FAMILIES}"
        )
    parts: list[Part] = []
    for name, column in zip(names, values.T, strict=True):
        column = column[~np.isnan(column)]
        if len(column) < 8:
            raise DurometerError(
                f"feature {name!r} has {len(column)} residuals: at least 8 are needed to fit a "
                "distribution"
            )
        parts.append(
            no_noise() if np.ptp(column) == 0 and column[0] == 0 else _best(column, families)
        )
    return _tie(parts, values) if correlated else Independent(tuple(parts))


def _best(column: Floats, families: Sequence[str]) -> Marginal:
    def aic(name: str) -> tuple[float, tuple[float, ...]]:
        family = getattr(scipy.stats, name)
        params = family.fit(column)
        return 2 * len(params) - 2 * float(family.logpdf(column, *params).sum()), params

    scored = sorted((*aic(name), name) for name in families)
    return Marginal(scored[0][2], tuple(float(p) for p in scored[0][1]))


def _tie(parts: list[Part], values: Floats) -> Copula | Independent:
    d = len(parts)
    if d < 2:
        return Independent(tuple(parts))
    ranks = np.apply_along_axis(scipy.stats.rankdata, 0, values, nan_policy="omit")
    moving = [f for f, p in enumerate(parts) if not p.no_noise]
    rho = np.eye(d)
    for i in moving:
        for j in moving:
            if i < j:
                both = ~np.isnan(ranks[:, i]) & ~np.isnan(ranks[:, j])
                rho[i, j] = rho[j, i] = np.corrcoef(ranks[both, i], ranks[both, j])[0, 1]
    return Copula(tuple(parts), rho)


def _table(data: Any) -> tuple[Floats, list[Any]]:
    try:
        values = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DurometerError(
            f"data: expected numbers only ({error}); leave other columns out, or code them"
        ) from None
    if values.ndim != 2 or not len(values):
        raise DurometerError(f"data of shape {values.shape}: expected (records, features)")
    names = list(data.columns) if hasattr(data, "columns") else list(range(values.shape[1]))
    return values, names
