"""Gaussian copula (NORTA, Cario & Nelson 1997): any marginals, tied by rank correlations.

Spearman's rho of the readings becomes R = 2 sin(pi rho / 6) of the normal numbers behind them
(Pearson 1907). R need not be positive semi-definite even when rho is: then the nearest correlation
matrix (Higham's alternating projections) stands in, and `moved` says by how much."""

import warnings
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from durometer.core import serialization
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.validation import noun
from durometer.kernels.arrays import Floats
from durometer.noise.joint import Joint, Part, align_columns, as_list, check_count, keys, widths
from durometer.noise.marginal import Confusion
from durometer.noise.normal_boxes import snapped


@noun(eq=False)
class Copula(Joint):
    """Noise with any marginals, tied by rank correlations: a Gaussian copula (NORTA, Cario &
    Nelson, 1997).

    Where the rank correlations cannot be met exactly, the nearest correlation matrix is used, with
    a warning; `moved` says by how much it differs.

    Args:
        parts: One marginal per feature, a list or a mapping from names.
        rank_correlation: Spearman's correlations, a symmetric matrix (features, features), or a
            data frame with names.
        names: Names of the features. None: taken from `parts` or `rank_correlation`, where these
            have names.

    Raises:
        DurometerError: The matrix has the wrong shape, or is no correlation matrix.
        Unsupported: A category is correlated with another feature.

    >>> from durometer.noise.marginal import normal, exponential
    >>> noise = Copula((normal(0, 12), exponential(3)), rank_correlation=[[1, 0.5], [0.5, 1]])
    >>> float(noise.correlation(2)[0, 1].round(4))
    0.5176
    """

    parts: Sequence[Part]
    rank_correlation: Any
    names: tuple[str, ...] | None = None
    _matrix: Floats = field(init=False, repr=False)  # Pearson's, the nearest possible
    moved: float = field(default=0.0, init=False)  # largest change to make R positive semi-definite

    __eq__, __hash__ = serialization.equal_fields, serialization.hash_by_type

    def __post_init__(self) -> None:
        names = self.names or keys(self.parts) or keys(self.rank_correlation)
        if self.names is None and names is not None:
            for name in ("parts", "rank_correlation"):
                object.__setattr__(self, name, align_columns(name, getattr(self, name), names))
            object.__setattr__(self, "names", names)
        object.__setattr__(self, "parts", as_list(self.parts))
        rho = np.asarray(self.rank_correlation, dtype=float)
        d = len(self.parts)
        if rho.shape != (d, d):
            raise DurometerError(
                f"rank_correlation of shape {rho.shape}: expected ({d}, {d}), one row per marginal"
            )
        if not np.isfinite(rho).all() or np.abs(rho).max() > 1 + 1e-12:
            raise DurometerError(
                f"rank_correlation holds {rho.ravel()[np.abs(rho).argmax()]}: expected "
                f"values in [-1, 1]"
            )
        if not np.allclose(rho, rho.T, atol=1e-9) or not np.allclose(np.diag(rho), 1.0):
            raise DurometerError("rank_correlation must be symmetric with ones on its diagonal")
        tied = np.abs(rho - np.eye(d)).max(axis=1) > 0
        for f, part in enumerate(self.parts):
            if isinstance(part, Confusion) and tied[f]:
                raise Unsupported(
                    f"feature {f}: a confusion matrix has no ranks; set its rank correlations to 0"
                )
        raw = snapped(2 * np.sin(np.pi * rho / 6))
        near = nearest_correlation(raw)
        object.__setattr__(self, "moved", float(np.abs(near - raw).max()))
        object.__setattr__(self, "_matrix", near)
        object.__setattr__(self, "rank_correlation", tuple(tuple(row) for row in rho.tolist()))
        if self.moved > 1e-6:
            warnings.warn(
                f"2 sin(pi rho / 6) is not positive semi-definite; the nearest correlation "
                f"matrix is used "
                f"(largest change {self.moved:.2g})",
                stacklevel=3,
            )

    @property
    def description(self) -> str:
        """The noise in a few words, for reports."""
        return f"correlated noise ({check_count(self.parts)})"

    def taken(self, at: list[int]) -> "Copula":
        rho = np.asarray(self.rank_correlation)[np.ix_(at, at)]
        return Copula(tuple(self.parts[i] for i in at), rho)

    def marginals(self, features: int) -> tuple[Part, ...]:
        return widths(self.parts, features)

    def correlation(self, features: int) -> Floats | None:
        matrix = self._matrix.copy()
        for f, part in enumerate(self.parts):
            if part.no_noise:  # no noise, nothing to be tied to
                matrix[f, :] = matrix[:, f] = 0.0
                matrix[f, f] = 1.0
        return None if np.abs(matrix - np.eye(len(matrix))).max() < 1e-15 else matrix


def nearest_correlation(r: Floats, rounds: int = 200) -> Floats:
    """The nearest matrix with unit diagonal and no negative eigenvalue (Higham 2002)."""
    if np.linalg.eigvalsh(r).min() >= -4 * len(r) * np.finfo(float).eps:  # singular, rounded
        return r
    y, correction = r.copy(), np.zeros_like(r)
    for _ in range(rounds):
        step = y - correction
        values, vectors = np.linalg.eigh(step)
        positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
        correction = positive - step
        y = positive.copy()
        np.fill_diagonal(y, 1.0)
    values, vectors = np.linalg.eigh(y)
    y = (vectors * np.maximum(values, 1e-10)) @ vectors.T
    scale = 1 / np.sqrt(np.diag(y))
    return np.asarray(y * np.outer(scale, scale))
