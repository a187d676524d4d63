"""Normal noise: one standard deviation, one per feature, or a full covariance matrix.

The paper writes "0.1 on the main diagonal": that is a covariance, a standard deviation of 0.316.
"""

from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from durometer.core import serialization
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Joint, Part, align_columns, keys, numbers, widths
from durometer.noise.marginal import Marginal, Outside, no_noise
from durometer.noise.normal_boxes import snapped


@noun(eq=False)
class Normal(Joint):
    """Additive normal noise. Give exactly one of `sd` and `cov`.

    Per-feature parameters may be lists, mappings from names, or a pandas Series.

    Args:
        sd: Standard deviation, in the units of the data: one number, or one per feature.
        cov: Covariance matrix (features, features). "0.1 on the diagonal" is a standard deviation
            of 0.316.
        low: Lowest possible reading: one number, or one per feature.
        high: Highest possible reading, likewise.
        outside: What happens beyond these bounds: "truncate" (the noise is conditioned on staying
            inside) or "clip" (the reading stops at the bound).
        integer: Features whose readings are rounded to whole numbers, by position or name.
        immutable: Features without noise, by position or name.
        names: Names of the features. None: taken from the parameters, where these have names.

    Raises:
        DurometerError: Both or neither of `sd` and `cov` are given, or one of them is invalid.

    >>> noise = Normal(sd=2.0)
    >>> float(noise.mass([[0.0]], [[[-2.0]]], [[[2.0]]])[0, 0].round(4))
    0.6827
    """

    sd: Any = None
    cov: Any = None
    low: Any = -np.inf
    high: Any = np.inf
    outside: Outside = "truncate"
    integer: Any = ()  # features whose readings are whole numbers
    immutable: Any = ()  # features without noise
    names: tuple[str, ...] | None = None  # of the features, where parameters came by name

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __post_init__(self) -> None:
        if (self.sd is None) == (self.cov is None):
            raise DurometerError(
                "Normal needs exactly one of sd= (standard deviations) and cov= (a "
                "covariance matrix)"
            )
        given = {name: getattr(self, name) for name in ("sd", "cov", "low", "high")}
        names = self.names or next((n for n in map(keys, given.values()) if n is not None), None)
        if self.names is None and names is not None:
            for name, value in given.items():
                object.__setattr__(self, name, align_columns(name, value, names))
            object.__setattr__(self, "names", names)
        for name in ("integer", "immutable"):
            object.__setattr__(self, name, _places(name, getattr(self, name), names))
        if self.sd is not None:
            sd = numbers("sd", self.sd)
            if sd.ndim > 1 or not np.isfinite(sd).all() or (sd < 0).any():
                raise DurometerError(
                    f"sd={self.sd}: expected a number or one per feature, none negative"
                )
            object.__setattr__(self, "sd", float(sd) if sd.ndim == 0 else tuple(sd.tolist()))
            return
        cov = numbers("cov", self.cov)
        if cov.ndim != 2 or cov.shape[0] != cov.shape[1] or not np.isfinite(cov).all():
            raise DurometerError(f"cov of shape {cov.shape}: expected a finite square matrix")
        scale = max(float(np.abs(cov).max()), 1e-300)
        if not np.allclose(cov, cov.T, rtol=0, atol=1e-9 * scale):
            i, j = np.unravel_index(np.abs(cov - cov.T).argmax(), cov.shape)
            raise DurometerError(
                f"cov is not symmetric: [{i}, {j}] is {cov[i, j]}, [{j}, {i}] is {cov[j, i]}"
            )
        if float(np.linalg.eigvalsh(cov).min()) < -1e-9 * scale:
            raise DurometerError(
                f"cov is not positive semi-definite: its lowest eigenvalue is "
                f"{np.linalg.eigvalsh(cov).min():.3g}; "
                "estimate it from data, or shrink its off-diagonal entries"
            )
        object.__setattr__(self, "cov", tuple(tuple(row) for row in cov.tolist()))

    def __repr__(self) -> str:
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if np.any(np.asarray(getattr(self, f.name) != f.default))
        ]
        return f"Normal({', '.join(changed)})"

    @property
    def description(self) -> str:
        """The noise in a few words, for reports."""
        low, high = (f"{end:.3g}" for end in (self._sd().min(), self._sd().max()))
        sd = low if low == high else f"{low} to {high}"
        return f"{'normal' if self.cov is None else 'correlated normal'} noise of sd {sd}"

    def taken(self, at: list[int]) -> "Normal":
        def each(values: Any) -> Any:
            return values if values is None or np.ndim(values) == 0 else np.asarray(values)[at]

        cov = None if self.cov is None else np.asarray(self.cov)[np.ix_(at, at)]
        put = {place: i for i, place in enumerate(at)}
        return replace(
            self, sd=each(self.sd), cov=cov, low=each(self.low), high=each(self.high), names=None,
            integer=tuple(put[f] for f in self.integer),
            immutable=tuple(put[f] for f in self.immutable),
        )  # fmt: skip

    def marginals(self, features: int) -> tuple[Part, ...]:
        sd = self._sd()
        sd = np.full(features, sd) if sd.ndim == 0 else sd
        for name in ("integer", "immutable"):
            if max(getattr(self, name), default=0) >= features:
                raise DurometerError(
                    f"{name}={getattr(self, name)}: there are {features} features, counted from 0"
                )
        low, high = (
            np.broadcast_to(np.asarray(b, float), (features,)) for b in (self.low, self.high)
        )
        parts = [
            no_noise()
            if f in self.immutable or s == 0
            else _marginal(float(s), float(low[f]), float(high[f]), self.outside, f in self.integer)
            for f, s in enumerate(sd)
        ]
        return widths(parts, features)

    def correlation(self, features: int) -> Floats | None:
        if self.cov is None:
            return None
        cov, sd = np.asarray(self.cov), self._sd()
        used = sd > 0
        used[[f for f in self.immutable if f < len(sd)]] = False
        r = np.eye(len(sd))
        pair = np.ix_(used, used)
        r[pair] = snapped(cov[pair] / np.outer(sd[used], sd[used]))
        np.fill_diagonal(r, 1.0)
        return None if np.abs(r - np.eye(len(sd))).max() < 1e-15 else r

    def _sd(self) -> Floats:
        return (
            np.asarray(self.sd, float)
            if self.cov is None
            else np.sqrt(np.diag(np.asarray(self.cov)).copy())
        )


def _places(name: str, given: Any, names: tuple[str, ...] | None) -> tuple[int, ...]:
    """Features by their place, or by their name where the noise has names."""
    listed = tuple(given) if np.ndim(given) == 1 and not isinstance(given, str) else (given,)
    if names is not None:
        listed = tuple(names.index(f) if f in names else f for f in listed)
    if any(isinstance(f, bool) or not isinstance(f, int | np.integer) or f < 0 for f in listed):
        raise DurometerError(
            f"{name}={given!r}: expected places of features, counted from 0, e.g. {name}=(0, 7)"
        )
    return tuple(int(f) for f in listed)


@lru_cache(4096)  # asked for again with every record
def _marginal(sd: float, low: float, high: float, outside: str, integer: bool) -> Marginal:
    return Marginal("norm", (0.0, sd), low=low, high=high, outside=outside, integer=integer)
