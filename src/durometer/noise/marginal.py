"""One feature's noise: a distribution, and how it meets the record's value.

`how` says the convention, because the literature leaves it open: "add" (X = x + e; a normal e is
centred, an exponential e starts *at* the record, as in the paper), "multiply" (X = x * e),
"replace" (X = e). Bounds either condition the noise on staying inside ("truncate") or stop the
reading there ("clip"). `integer` rounds the reading, so mass sits on whole numbers.

What a reader would get wrong: everything downstream uses only `below` = P(X <= t) and its
complement `above`; both are kept, because 1 - P loses the upper tail below 1e-16."""

from collections.abc import Iterable
from dataclasses import field, fields, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import scipy  # `scipy.stats` is loaded when it is first asked for: half a second
from numpy.typing import ArrayLike, NDArray

from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import noun
from durometer.kernels.arrays import Floats

# families whose cdf and survival function scipy computes to 1e-13 or better (tested with mpmath)
ACCURATE = (
    "none", "norm", "uniform", "expon", "laplace", "logistic", "gumbel_r", "gumbel_l", "lognorm",
    "t", "gamma", "chi2", "beta", "cauchy", "weibull_min", "weibull_max", "rayleigh", "triang",
    "halfnorm", "pareto",
)  # fmt: skip
INACCURATE = 1e-7  # what others are taken to be off by; skewnorm was, by 2e-8
Outside = Literal["truncate", "clip"]  # what a reading beyond the bounds becomes


@lru_cache(maxsize=512)
def _frozen(name: str, params: tuple[float, ...]) -> Any:
    stats = scipy.stats
    known = [n for n in dir(stats) if isinstance(getattr(stats, n), stats.rv_continuous)]
    if name not in known:
        raise DurometerError(
            f"distribution {name!r} is no scipy.stats continuous distribution{nearest(name, known)}"
        )
    frozen = getattr(stats, name)(*params)
    if not np.isfinite(frozen.cdf(0.0)):
        raise DurometerError(
            f"{name}{params}: scipy refuses these parameters; see scipy.stats.{name}"
        )
    return frozen


@noun
class Marginal:
    """The noise of one numeric feature.

    Args:
        name: Name of a continuous distribution of scipy.stats; "none" is no noise.
        params: Its parameters, as scipy.stats takes them: shapes, location, scale.
        how: "add" (reading = value + error), "multiply" (value x error) or "replace" (the error
            alone).
        low: Lowest possible reading.
        high: Highest possible reading.
        outside: What happens beyond the bounds: "truncate" (the noise is conditioned on staying
            inside) or "clip" (the reading stops at the bound).
        integer: Whether readings are rounded to whole numbers.

    Raises:
        DurometerError: There is no such distribution, or a parameter has an impossible value.

    >>> float(exponential(3.0).below(np.array([5.0]), np.array([8.0]))[0])  # starts at the record
    0.6321205588285577
    """

    name: str = "norm"
    params: tuple[float, ...] = (0.0, 1.0)
    how: Literal["add", "multiply", "replace"] = "add"
    low: float = field(default=-np.inf, metadata={"least": -np.inf, "most": np.inf})
    high: float = field(default=np.inf, metadata={"least": -np.inf, "most": np.inf})
    outside: Outside = "truncate"
    integer: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", tuple(float(p) for p in self.params))
        if not self.low < self.high:
            raise DurometerError(f"bounds [{self.low}, {self.high}]: low must be below high")
        if self.name == "norm" and (len(self.params) != 2 or not self.params[1] >= 0):
            raise DurometerError(f"norm{self.params}: expected (mean, sd) with sd >= 0")
        if not self.no_noise and self.name != "norm":
            _frozen(self.name, self.params)

    def __repr__(self) -> str:
        changed = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)[2:]
            if getattr(self, f.name) != f.default
        ]
        return f"Marginal({', '.join([repr(self.name), repr(self.params), *changed])})"

    @property
    def no_noise(self) -> bool:
        """Whether there is no noise: the reading is the value."""
        return self.name == "none" or (
            self.name == "norm" and self.params == (0.0, 0.0) and self.how == "add"
        )

    @property
    def error(self) -> float:
        """How far `below` may be off: 0 for families that are computed accurately."""
        return 0.0 if self.name in ACCURATE else INACCURATE

    @property
    def plain(self) -> bool:
        """Whether it is a normal error that is added, without bounds or rounding."""
        free = self.low == -np.inf and self.high == np.inf and not self.integer
        return self.name == "norm" and self.how == "add" and free and self.params[1] > 0

    def below(self, x: ArrayLike, t: ArrayLike) -> Floats:
        """P(reading <= t).

        Args:
            x: Values of the record.
            t: Thresholds; broadcast against `x`.
        """
        return self._probability(np.asarray(x, float), np.asarray(t, float))[0]

    def above(self, x: ArrayLike, t: ArrayLike) -> Floats:
        """P(reading > t), accurate in the upper tail.

        Args:
            x: Values of the record.
            t: Thresholds; broadcast against `x`.
        """
        return self._probability(np.asarray(x, float), np.asarray(t, float))[1]

    def quantile(self, x: ArrayLike, u: ArrayLike) -> Floats:
        """The reading at a probability level: the inverse of `below`.

        Args:
            x: Values of the record.
            u: Levels between 0 and 1; broadcast against `x`.
        """
        x, u = np.broadcast_arrays(np.asarray(x, float), np.asarray(u, float))
        if self.no_noise:
            return np.array(x)
        low, high = self._edges()
        if self.outside == "truncate" and (np.isfinite(low) or np.isfinite(high)):
            a = self._raw(x, np.asarray(low))[0] if np.isfinite(low) else np.zeros(x.shape)
            b = self._raw(x, np.asarray(high))[0] if np.isfinite(high) else np.ones(x.shape)
            u = a + u * (b - a)
        level = np.where((self.how == "multiply") & (x < 0), 1 - u, u)
        e = (
            self.params[0] + self.params[1] * scipy.special.ndtri(level)
            if self.name == "norm"
            else _frozen(self.name, self.params).ppf(level)
        )
        value = (
            x + e
            if self.how == "add"
            else np.where(x == 0, 0.0, x * e)
            if self.how == "multiply"
            else e
        )
        value = np.clip(value, low, high)
        return np.asarray(np.rint(value) if self.integer else value, dtype=np.float64)

    def _edges(self) -> tuple[float, float]:
        return (
            (self.low - 0.5, self.high + 0.5)
            if self.integer and self.outside == "truncate"
            else (self.low, self.high)
        )

    def _probability(self, x: Floats, t: Floats) -> tuple[Floats, Floats]:
        x, t = np.broadcast_arrays(x, t)
        if self.no_noise:
            return (t >= x).astype(float), (t < x).astype(float)
        inside = np.floor(t) + 0.5 if self.integer else t
        low, high = self._edges()
        below, above = self._raw(x, inside)
        if self.outside == "clip":
            below, above = np.where(t < low, 0.0, below), np.where(t < low, 1.0, above)
            return np.where(t >= high, 1.0, below), np.where(t >= high, 0.0, above)
        if np.isfinite(low) or np.isfinite(high):
            below_low, above_low = self._raw(x, np.full(x.shape, low))
            below_high, above_high = self._raw(x, np.full(x.shape, high))
            kept = between(below_low, above_low, below_high, above_high)
            if np.any(kept <= 1e-12):
                bad = float(x[kept <= 1e-12].ravel()[0])
                raise DurometerError(
                    f"record value {bad}: its noise has no mass within [{self.low}, {self.high}]; "
                    "check the units, or use outside='clip'"
                )
            i = np.clip(inside, low, high)
            below_i, above_i = self._raw(x, i)
            below = between(below_low, above_low, below_i, above_i) / kept
            above = between(below_i, above_i, below_high, above_high) / kept
            below, above = np.where(inside < low, 0.0, below), np.where(inside < low, 1.0, above)
            below, above = (
                np.where(inside >= high, 1.0, below),
                np.where(inside >= high, 0.0, above),
            )
        return np.clip(below, 0.0, 1.0), np.clip(above, 0.0, 1.0)

    def _raw(self, x: Floats, t: Floats) -> tuple[Floats, Floats]:
        x, t = np.broadcast_arrays(x, t)
        if self.how == "add":
            return self._error(t - x)
        if self.how == "replace":
            return self._error(t)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = t / x
        below, above = self._error(np.where(x == 0, 0.0, ratio))
        below, above = np.where(x < 0, above, below), np.where(x < 0, below, above)
        return np.where(x == 0, t >= 0, below), np.where(x == 0, t < 0, above)

    def _error(self, e: Floats) -> tuple[Floats, Floats]:
        if self.name == "norm":
            mean, sd = self.params
            if sd == 0:
                return (e >= mean).astype(float), (e < mean).astype(float)
            z = (e - mean) / sd
            return scipy.special.ndtr(z), scipy.special.ndtr(-z)
        frozen = _frozen(self.name, self.params)
        return np.asarray(frozen.cdf(e), float), np.asarray(frozen.sf(e), float)


def between(below_a: Floats, above_a: Floats, below_b: Floats, above_b: Floats) -> Floats:
    """P(a < X <= b) from whichever tail loses fewer digits."""
    return np.maximum(np.where(below_a > 0.5, above_a - above_b, below_b - below_a), 0.0)


@noun
class Mixture:
    """One of several noises, drawn by chance for each reading: mostly fine, now and then far off.

    Args:
        parts: The noises.
        weights: How often each of them is drawn; they sum to 1.

    Raises:
        DurometerError: There are not as many weights as parts, or they are no probabilities.

    >>> from durometer import noise
    >>> meter = noise.Mixture((noise.normal(sd=1), noise.normal(sd=30)), (0.95, 0.05))
    >>> meter.above([100.0], 103.0).round(4)
    array([0.0243])
    """

    parts: tuple[Marginal, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "weights", tuple(float(w) for w in self.weights))
        if not self.parts or not all(isinstance(p, Marginal) for p in self.parts):
            raise DurometerError(
                "Mixture(parts=...): expected marginals, e.g. (noise.normal(sd=1), "
                "noise.normal(sd=30))"
            )
        weights = np.asarray(self.weights)
        if len(weights) != len(self.parts) or not (weights > 0).all():
            raise DurometerError(
                f"Mixture(weights={self.weights}): expected {len(self.parts)} numbers above 0"
            )
        if not np.isclose(weights.sum(), 1.0, rtol=0, atol=1e-12):
            raise DurometerError(
                f"Mixture(weights={self.weights}): they sum to {weights.sum():g}, not to 1"
            )

    @property
    def no_noise(self) -> bool:
        """Whether there is no noise: the reading is the value."""
        return all(part.no_noise for part in self.parts)

    @property
    def error(self) -> float:
        """How far `below` may be off: as the least accurate part."""
        return max(part.error for part in self.parts)

    def below(self, x: ArrayLike, t: ArrayLike) -> Floats:
        """P(reading <= t).

        Args:
            x: Values of the record.
            t: Thresholds; broadcast against `x`.
        """
        return self._sum(part.below(x, t) for part in self.parts)

    def above(self, x: ArrayLike, t: ArrayLike) -> Floats:
        """P(reading > t), accurate in the upper tail.

        Args:
            x: Values of the record.
            t: Thresholds; broadcast against `x`.
        """
        return self._sum(part.above(x, t) for part in self.parts)

    def _sum(self, values: Iterable[Floats]) -> Floats:
        total = sum(w * v for w, v in zip(self.weights, values, strict=True))
        return np.minimum(np.asarray(total, dtype=np.float64), 1.0)

    def quantile(self, x: ArrayLike, u: ArrayLike) -> Floats:
        """The reading at a probability level: the inverse of `below`, by bisection.

        Args:
            x: Values of the record.
            u: Levels between 0 and 1; broadcast against `x`.
        """
        x, u = np.broadcast_arrays(np.asarray(x, float), np.asarray(u, float))
        ends = np.stack([part.quantile(x, u) for part in self.parts])
        low, high = ends.min(0), ends.max(0)  # it lies between the parts' own
        finite = np.isfinite(low) & np.isfinite(high)
        for _ in range(BISECTIONS):
            middle = np.where(finite, low + (high - low) / 2, high)
            under = self.below(x, middle) < u
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        # A jump is met exactly: at a value that a part itself gives, if that is as near.
        nearest = ends[np.abs(ends - high).argmin(0), *np.indices(high.shape)]
        snapped = np.abs(nearest - high) <= 1e-12 * np.maximum(1.0, np.abs(high))
        value = np.where(snapped & (self.below(x, nearest) >= u), nearest, high)
        return np.asarray(np.rint(value) if all(p.integer for p in self.parts) else value)


BISECTIONS = 70


@noun
class Confusion:
    """The noise of a category: the probability of being read as each of the values.

    Args:
        matrix: Square matrix of probabilities; row c belongs to records of code c, and sums to 1.

    Raises:
        DurometerError: The matrix is not square, has negative entries, or a row does not sum to 1.

    >>> float(Confusion(((0.9, 0.1), (0.2, 0.8))).below(np.array([1.0]), np.array([0.5]))[0])
    0.2
    """

    matrix: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        m = np.asarray(self.matrix, dtype=float)
        if (
            m.ndim != 2
            or m.shape[0] != m.shape[1]
            or (m < 0).any()
            or not np.allclose(m.sum(axis=1), 1)
        ):
            raise DurometerError(
                f"confusion matrix of shape {m.shape}: expected square, non-negative, rows "
                f"that sum to 1"
            )
        object.__setattr__(self, "matrix", tuple(tuple(row) for row in m.tolist()))

    no_noise: ClassVar[bool] = False
    error = 0.0

    def below(self, x: ArrayLike, t: ArrayLike) -> Floats:
        """P(reading <= t).

        Args:
            x: Codes of the record.
            t: Thresholds; broadcast against `x`.
        """
        x, t = np.broadcast_arrays(np.asarray(x, float), np.asarray(t, float))
        code = self._code(x)
        sums = np.concatenate(
            [np.zeros((len(self.matrix), 1)), np.cumsum(self.matrix, axis=1)], axis=1
        )
        sums[:, -1] = 1.0
        upto = np.clip(
            np.floor(np.clip(t, -1, len(self.matrix))).astype(int) + 1, 0, len(self.matrix)
        )
        return np.asarray(sums[code, upto])

    def above(self, x: ArrayLike, t: ArrayLike) -> Floats:
        """P(reading > t).

        Args:
            x: Codes of the record.
            t: Thresholds; broadcast against `x`.
        """
        return np.asarray(1.0 - self.below(x, t))

    def quantile(self, x: ArrayLike, u: ArrayLike) -> Floats:
        """The code at a probability level: the inverse of `below`.

        Args:
            x: Codes of the record.
            u: Levels between 0 and 1; broadcast against `x`.
        """
        x, u = np.broadcast_arrays(np.asarray(x, float), np.asarray(u, float))
        sums = np.cumsum(self.matrix, axis=1)[self._code(x)]
        return np.asarray(
            np.minimum((sums < u[..., None]).sum(axis=-1), len(self.matrix) - 1), dtype=float
        )

    def _code(self, x: Floats) -> NDArray[np.int64]:
        code = np.nan_to_num(x, nan=0.0).astype(np.int64)
        if np.any((code != np.nan_to_num(x, nan=0.0)) | (code < 0) | (code >= len(self.matrix))):
            raise DurometerError(f"category codes must be whole numbers 0..{len(self.matrix) - 1}")
        return code


def normal(mean: float = 0.0, sd: float | None = None, **options: Any) -> Marginal:
    """A normal error of one feature: `normal(sd=12)` is a meter with a standard deviation of 12.

    Args:
        mean: Bias, in the units of the data.
        sd: Standard deviation; required.
        **options: Further parameters of `Marginal`, e.g. `low=0`.

    Raises:
        DurometerError: `sd` is missing or negative.

    >>> from durometer import noise
    >>> noise.normal(sd=12).below([100.0], 112.0).round(3)
    array([0.841])
    """
    if sd is None:
        raise DurometerError(f"normal({mean:g}): the sd is missing; write normal(sd={mean or 1:g})")
    return Marginal("norm", (mean, sd), **options)


def exponential(scale: float, **options: Any) -> Marginal:
    """An exponential error of one feature: one-sided, starting at the value.

    Args:
        scale: Mean of the error, in the units of the data.
        **options: Further parameters of `Marginal`.

    >>> from durometer import noise
    >>> noise.exponential(3.0).quantile([100.0], [0.0, 0.5]).round(2)
    array([100.  , 102.08])
    """
    return Marginal("expon", (0.0, scale), **options)


def uniform(low: float, high: float, **options: Any) -> Marginal:
    """A uniform error of one feature.

    Args:
        low: Smallest error, in the units of the data.
        high: Largest error.
        **options: Further parameters of `Marginal`.

    Raises:
        DurometerError: `low` is not below `high`.

    >>> from durometer import noise
    >>> noise.uniform(-1, 1).quantile([5.0], 0.75)
    array([5.5])
    """
    if not low < high:
        raise DurometerError(f"uniform({low}, {high}): low must be below high")
    return Marginal("uniform", (low, high - low), **options)


def lognormal(sigma: float, **options: Any) -> Marginal:
    """A lognormal factor of one feature, with median 1.

    Args:
        sigma: Standard deviation of the logarithm: 0.1 is about 10 %.
        **options: Further parameters of `Marginal`.

    >>> from durometer import noise
    >>> noise.lognormal(0.1).quantile([100.0], [0.5, 0.84]).round(1)
    array([100. , 110.5])
    """
    return Marginal("lognorm", (sigma,), **{"how": "multiply", **options})


def no_noise() -> Marginal:
    """A feature without noise.

    >>> from durometer import noise
    >>> noise.no_noise().quantile([5.0], 0.9)
    array([5.])
    """
    return Marginal("none", ())


def bounded(marginal: Marginal, low: float, high: float, outside: Outside = "truncate") -> Marginal:
    """The same noise within bounds of the feature.

    Args:
        marginal: The noise.
        low: Lowest possible reading.
        high: Highest possible reading.
        outside: "truncate" (the noise is conditioned on staying inside) or "clip" (the reading
            stops at the bound).

    >>> from durometer import noise
    >>> noise.bounded(noise.normal(sd=12), 0, 10).quantile([2.0], [0.01, 0.99]).round(1)
    array([0.1, 9.9])
    """
    return replace(marginal, low=low, high=high, outside=outside)
