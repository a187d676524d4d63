"""Noise from repeated measurements: the same specimens read several times.

Nobody knows the truth of a specimen, but its readings differ by their errors alone. With n_g
readings of specimen g the pooled variance

    s^2 = sum_g sum_i (x_gi - mean_g)^2 / sum_g (n_g - 1)

estimates that of one reading without bias, and (degrees of freedom) s^2 / sigma^2 is chi-squared if
errors are normal, which gives an interval for sigma (ISO 5725-2: repeatability).

What a reader would get wrong: residuals from a specimen's own mean are too small, by
sqrt(1 - 1/n_g); with pairs of readings that is 0.71. `residuals` are already put right for it. And
repeats of one day say nothing about a bias that all of them share:
`Nature.breakdown_noise_level(bias=True)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # `scipy.stats` is loaded when it is first asked for: half a second

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Floats
from durometer.noise.gaussian import Normal

if TYPE_CHECKING:
    import pandas as pd

_GROWS = 1e-3  # below this p-value the error is said to grow (or shrink) with the reading


@dataclass(frozen=True, eq=False)
class Repeatability:
    """What repeated measurements say about the errors of each feature.

    Args:
        table: One row per feature: `sd` with its interval `low`, `high`, degrees of freedom
            (`freedom`), number of specimens, and `grows`: Spearman's correlation of a specimen's
            spread with its level where that is significant, else 0.
        residuals: Errors (readings, features), corrected for the specimen's own mean; for
            `noise.fit`.
        covariance: Their covariance matrix (features, features).

    >>> found = from_replicates([[1.0], [3.0], [5.0], [5.0]], ["a", "a", "b", "b"])
    >>> found.noise().sd
    (1.0,)
    """

    table: pd.DataFrame
    residuals: Floats = field(repr=False)  # (readings, features), for `noise.fit`
    covariance: Floats = field(repr=False)

    def noise(self, end: str = "sd", correlated: bool = False) -> Normal:
        """Normal noise with these errors.

        Args:
            end: "sd" (the estimate), or an end of its interval: "low" or "high", the largest error
                that the repeats allow.
            correlated: Whether errors of different features are correlated.

        Raises:
            DurometerError: There is no such end.
        """
        if end not in ("sd", "low", "high"):
            raise DurometerError(
                f"end={end!r}: expected 'sd' or an end of its interval: 'low', 'high'"
            )
        sd = self.table[end].to_numpy()
        if not correlated:
            return Normal(sd=tuple(sd.tolist()))
        ratio = sd / np.maximum(self.table["sd"].to_numpy(), 1e-300)
        return Normal(cov=self.covariance * np.outer(ratio, ratio))


def from_replicates(readings: Any, specimen: Any, confidence: float = 0.95) -> Repeatability:
    """Estimates measurement errors from specimens that were measured several times (ISO 5725-2).

    Args:
        readings: The readings (n, features), a table or an array. Missing ones are left out.
        specimen: Whose each reading is: one value per row, or the name of a column.
        confidence: Confidence of the intervals.

    Returns:
        A `Repeatability`.

    Raises:
        DurometerError: A feature has too few repeats, or shapes do not fit.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = np.repeat(rng.normal(100, 20, 60), 2)
    >>> found = from_replicates((truth + rng.normal(0, 3, 120))[:, None], np.repeat(range(60), 2))
    >>> found.table.round(2).iloc[0][["low", "sd", "high"]].to_dict()
    {'low': 2.54, 'sd': 2.99, 'high': 3.64}
    """
    import pandas as pd

    if not 0 < confidence < 1:
        raise DurometerError(
            f"confidence={confidence}: expected a share between 0 and 1, e.g. 0.95"
        )
    if isinstance(specimen, str):
        if not hasattr(readings, "columns") or specimen not in readings.columns:
            raise DurometerError(
                f"specimen={specimen!r}: no such column; give one value per reading"
            )
        readings, specimen = readings.drop(columns=specimen), readings[specimen]
    frame = pd.DataFrame(readings)
    whose = np.asarray(specimen)
    if whose.shape != (len(frame),):
        raise DurometerError(f"specimen has shape {whose.shape} for {len(frame)} readings")
    try:
        values = frame.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DurometerError(f"readings: expected numbers only ({error})") from None
    group = np.unique(whose, return_inverse=True)[1]
    each = zip(frame, values.T, strict=True)
    lines = [_feature(column, group, name, confidence) for name, column in each]
    table = pd.DataFrame([line for line, _ in lines], index=list(frame))
    residuals = np.stack([r for _, r in lines], axis=1)
    return Repeatability(table, residuals, _covariance(residuals, table["sd"].to_numpy()))


def _feature(
    column: Floats, group: Any, name: Any, confidence: float
) -> tuple[dict[str, float], Floats]:
    known = ~np.isnan(column)
    count = np.bincount(group[known], minlength=group.max() + 1)
    total = np.bincount(group[known], column[known], minlength=len(count))
    mean = total / np.maximum(count, 1)
    many = count[group] > 1
    off = np.where(known & many, column - mean[group], np.nan)
    freedom = int((count - 1)[count > 1].sum())
    if freedom < 2:
        raise DurometerError(
            f"feature {name!r}: {freedom} repeats; at least 2 readings beyond the first of a "
            "specimen are needed"
        )
    squares = float(np.nansum(off**2))
    low, high = (
        scipy.stats.chi2.ppf(q, freedom) for q in ((1 - confidence) / 2, (1 + confidence) / 2)
    )
    spread = np.bincount(group[~np.isnan(off)], off[~np.isnan(off)] ** 2, len(count))[count > 1]
    rho, p = 0.0, 1.0
    if len(spread) > 7 and np.ptp(spread) > 0 and np.ptp(mean[count > 1]) > 0:
        found = scipy.stats.spearmanr(spread / (count - 1)[count > 1], mean[count > 1])
        rho, p = float(found.statistic), float(found.pvalue)
    line = {
        "sd": float(np.sqrt(squares / freedom)),
        "low": float(np.sqrt(squares / high)),
        "high": float(np.sqrt(squares / low)),
        "freedom": freedom,
        "specimens": int((count > 1).sum()),
        "grows": rho if p < _GROWS else 0.0,
    }
    n = np.maximum(count[group], 2)
    return line, off * np.sqrt(n / (n - 1))


def _covariance(residuals: Floats, sd: Floats) -> Floats:
    """Correlations of what was read together, with the pooled standard deviations."""
    d = len(sd)
    rho = np.eye(d)
    for i in range(d):
        for j in range(i):
            both = ~np.isnan(residuals[:, i]) & ~np.isnan(residuals[:, j])
            a, b = residuals[both, i], residuals[both, j]
            if len(a) > 2 and sd[i] > 0 and sd[j] > 0:
                rho[i, j] = rho[j, i] = (a @ b) / np.sqrt((a @ a) * (b @ b))
    values, vectors = np.linalg.eigh(rho)  # pairs with gaps may not fit together
    if values.min() < 0:
        rho = vectors @ np.diag(np.maximum(values, 1e-9)) @ vectors.T
        rho /= np.sqrt(np.outer(np.diag(rho), np.diag(rho)))
    return np.asarray(rho * np.outer(sd, sd))
