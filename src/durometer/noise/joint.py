"""A joint noise is marginals plus the correlation of the normal numbers behind them (NORTA).

Feature f reads q_f(Phi(z_f)) with z ~ N(0, R). Independent noise is R = I (`correlation` None), a
multivariate normal is normal marginals with its own R, a copula is anything else. So sampling, box
masses and everything the trees need is written once, here.

What a reader would get wrong: NaN in a record stays NaN (a missing value has no measurement
error), and the mass of a correlated box is an *estimate* of Genz's method; only independent masses
are exact."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import scipy  # its parts are loaded when they are first asked for: a third of a second
from numpy.typing import ArrayLike

from durometer.core.errors import DurometerError, nearest
from durometer.kernels.arrays import Floats
from durometer.noise.marginal import Confusion, Marginal, Mixture, between
from durometer.noise.normal_boxes import normal_boxes

Part = Marginal | Confusion | Mixture


@runtime_checkable
class Noise(Protocol):
    """What a game needs from a noise: marginals tied by the correlation of normal numbers behind
    them.

    >>> from durometer import noise
    >>> from durometer import Normal
    >>> both: noise.Noise = Normal(sd=1.0)
    >>> [part.name for part in both.marginals(2)]
    ['norm', 'norm']
    """

    def marginals(self, features: int) -> tuple[Part, ...]:
        """The noise of each feature by itself.

        Args:
            features: Number of features of the records.
        """
        ...

    def correlation(self, features: int) -> Floats | None:
        """The correlation matrix of the normal numbers behind the features; None: independent.

        Args:
            features: Number of features of the records.
        """
        ...

    def sample(self, x: ArrayLike, n: int, rng: np.random.Generator) -> Floats:
        """Draws noisy readings.

        Args:
            x: Records (m, features).
            n: Readings per record.
            rng: The random numbers.

        Returns:
            (m, n, features); missing values stay missing.
        """
        ...

    def place(self, x: Floats, z: Floats) -> Floats:
        """Turns independent standard normal numbers into readings.

        Args:
            x: Records (m, features).
            z: The numbers (m, n, features).

        Returns:
            (m, n, features).
        """
        ...

    def mass(self, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> Floats:
        """The probability of boxes, low < reading <= high.

        Args:
            x: Records (m, features).
            low: Lower corners (m, boxes, features).
            high: Upper corners, likewise.

        Returns:
            (m, boxes); exact for independent noise, by Genz's method for correlated noise.
        """
        ...


class Joint:
    """The base class of noises: a subclass gives marginals and correlation, this class does the
    rest.

    >>> import numpy as np
    >>> from durometer import noise
    >>> from durometer import Independent, Normal
    >>> both = Independent([noise.normal(0, 1), noise.no_noise()])
    >>> both.mass(
    ...     np.zeros((1, 2)), np.full((1, 1, 2), -np.inf), np.array([[[0.0, np.inf]]])
    ... )
    array([[0.5]])
    """

    names: tuple[str, ...] | None = None  # the features its parameters were given by, in order

    def arranged(self, columns: Sequence[str] | None) -> Self:
        """The same noise with its features in the order of given columns, matched by name.

        Args:
            columns: Names of the columns. None: the records have none.

        Raises:
            DurometerError: A feature is missing, or the noise has names and the records have none.
        """
        if self.names is None:
            return self
        if columns is None:
            raise DurometerError(
                f"the noise names its features ({', '.join(self.names[:4])} ...), and the records "
                "have no columns: give them as a table, or the noise as a list in their order"
            )
        return self.taken(places(self.names, columns))

    def taken(self, at: list[int]) -> Self:
        """The same noise for some of its features.

        Args:
            at: Their positions, in the new order.
        """
        raise TypeError("abstract")

    @property
    def description(self) -> str:
        """What it is, in a few words."""
        return f"{type(self).__name__} noise"

    def marginals(self, features: int) -> tuple[Part, ...]:
        raise TypeError("abstract")

    def correlation(self, features: int) -> Floats | None:
        raise TypeError("abstract")

    def sample(self, x: ArrayLike, n: int, rng: np.random.Generator) -> Floats:
        """Draws `n` noisy readings of each record, (m, n, features); see `Noise.sample`."""
        x = rows(x)
        m, d = x.shape
        return self.place(x, rng.standard_normal((m, n, d)))

    def place(self, x: Floats, z: Floats) -> Floats:
        """Turns independent standard normal numbers (m, n, features) into readings; see
        `Noise.place`.
        """
        d = x.shape[1]
        parts, correlation = self.marginals(d), self.correlation(d)
        if correlation is not None:
            z = z @ factor(correlation).T
        out = np.empty_like(z)
        for f, part in enumerate(parts):
            if isinstance(part, Marginal) and plain_normal(part):
                out[..., f] = x[:, None, f] + part.params[0] + part.params[1] * z[..., f]
            else:
                out[..., f] = part.quantile(x[:, None, f], scipy.special.ndtr(z[..., f]))
        return np.where(np.isnan(x)[:, None, :], np.nan, out)

    def mass(self, x: ArrayLike, low: ArrayLike, high: ArrayLike) -> Floats:
        """The probability of boxes (m, boxes, features); see `Noise.mass`."""
        x = rows(x)
        low, high = np.asarray(low, float), np.asarray(high, float)
        parts, correlation = self.marginals(x.shape[1]), self.correlation(x.shape[1])
        if correlation is None:
            out = np.ones(np.broadcast_shapes((len(x), 1), low.shape[:-1], high.shape[:-1]))
            for f, part in enumerate(parts):
                v = x[:, None, f]
                a, b = (part.below(v, t[..., f]) for t in (low, high))
                out = out * between(a, part.above(v, low[..., f]), b, part.above(v, high[..., f]))
            return out
        shape = np.broadcast_shapes((len(x), 1, 1), low.shape, high.shape)
        a, b = np.empty(shape), np.empty(shape)
        for f, part in enumerate(parts):
            for z, t in ((a, low), (b, high)):
                z[..., f] = normal_level(part, x[:, None, f], t[..., f])
        return normal_boxes(a, b, correlation)[0]


def normal_level(part: Part, x: Floats, t: ArrayLike) -> Floats:
    """The standard normal number whose level is P(X <= t), accurate in both tails."""
    below, above = part.below(x, t), part.above(x, t)
    return np.where(below < 0.5, scipy.special.ndtri(below), -scipy.special.ndtri(above))


def plain_normal(part: Marginal) -> bool:
    """Nothing but x + N(mean, sd): no need to go through levels."""
    return bool(
        part.name == "norm"
        and part.how == "add"
        and not part.integer
        and np.isneginf(part.low)
        and np.isposinf(part.high)
    )


def rows(x: ArrayLike) -> Floats:
    """Records as float64 (n, d)."""
    a = np.asarray(x, dtype=np.float64)
    if a.ndim != 2:
        raise DurometerError(f"records of shape {a.shape}: expected (n, features)")
    return a


def factor(correlation: Floats) -> Floats:
    """A matrix L with L L' = correlation, also when it is singular."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def keys(given: Any) -> tuple[str, ...] | None:
    """The features that a mapping, a Series or a table names; None for what has only places."""
    if isinstance(given, Mapping):
        return tuple(str(name) for name in given)
    index = getattr(given, "index", None)
    if index is None or callable(index) or all(isinstance(i, int | np.integer) for i in index):
        return None
    return tuple(str(name) for name in index)


def places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Where each column stands among the names; both must be the same features."""
    for given, other, whose in ((columns, names, "the noise"), (names, columns, "the records")):
        missing = [name for name in given if name not in other]
        if missing:
            raise DurometerError(
                f"feature '{missing[0]}' is not in {whose}{nearest(missing[0], other)}"
            )
    return [list(names).index(name) for name in columns]


def align_columns(name: str, given: Any, names: tuple[str, ...] | None) -> Any:
    """What was given per feature as plain values, in the order of `names` where it has names."""
    own = keys(given)
    if own is None:
        if names is not None and np.ndim(given) > 0 and not isinstance(given, str):
            raise DurometerError(
                f"{name} has no names where others have: give all of them by feature"
            )
        return given
    assert names is not None
    at = places(own, names)
    values: Any = list(given.values()) if isinstance(given, Mapping) else given.to_numpy()
    if getattr(given, "ndim", 1) == 2:
        return values[np.ix_(at, [[str(c) for c in given.columns].index(n) for n in names])]
    return [values[i] for i in at]


def numbers(name: str, given: Any) -> Floats:
    """What was given as an array of floats."""
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise DurometerError(f"{name}={given!r}: expected numbers ({error})") from None


def as_list(parts: Any) -> tuple[Part, ...]:
    """One marginal per feature, and nothing else among them."""
    given = tuple(parts) if isinstance(parts, Iterable) else ()
    wrong = [p for p in given if not isinstance(p, Part)] if given else [parts]
    if wrong:
        raise DurometerError(
            f"parts: {wrong[0]!r}; expected a list with one marginal per feature, e.g. "
            "[du.noise.normal(sd=2), du.noise.no_noise()]; for the same normal error in all, "
            "du.Normal(sd=2)"
        )
    return given


def widths(given: Sequence[Part], features: int) -> tuple[Part, ...]:
    """The marginals, after a check of their number."""
    if len(given) != features:
        raise DurometerError(
            f"noise for {len(given)} features, records with {features}: give one marginal "
            f"per feature"
        )
    return tuple(given)


def check_count(parts: Sequence[Part]) -> str:
    """How many features have which kind of noise.

    >>> check_count((Marginal("norm", (0, 2)), Marginal("none", ()), Marginal("norm", (0, 1))))
    'norm 2, still 1'
    """
    kinds = [
        "still" if p.no_noise else p.name if isinstance(p, Marginal) else type(p).__name__.lower()
        for p in parts
    ]
    return ", ".join(f"{kind} {n}" for kind, n in Counter(kinds).most_common())
