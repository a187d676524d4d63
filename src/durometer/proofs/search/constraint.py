"""Constraints that are sums of functions of one feature each: what the dual can bound.

    sum_i a_i phi_i(x_f(i)) <= b        phi: x, log x, |x - x0|, (x - x0)^2, 1[x outside a set]

One `Constraint` holds for all rows of a batch, with coefficients and bounds per row, because a
relation may name the original record. Two bounds: `outer` is implied by the relation (proofs),
`inner` implies it (points), so that neither tolerance nor rounding can make a wrong verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from durometer.kernels.arrays import Array, Bools, Floats

LINEAR, LOG, ABSOLUTE, SQUARE, OUTSIDE = range(5)


@dataclass(frozen=True, eq=False)
class Term:
    """a phi(x_f); `sets` (n, k, 4) for OUTSIDE: low and high of outer, then inner intervals."""

    feature: int
    phi: int
    a: Floats  # (n,)
    sets: Floats | None = None


@dataclass(frozen=True, eq=False)
class Constraint:
    """The terms' sum is at most `outer` on every valid point; at most `inner` is enough."""

    terms: tuple[Term, ...]
    outer: Floats  # (n,)
    inner: Floats

    def where(self, rows: Bools) -> Constraint:
        """The same, asked of these rows (a mask) only."""
        if rows.all():
            return self
        terms = tuple(Term(t.feature, t.phi, np.where(rows, t.a, 0.0), t.sets) for t in self.terms)
        free = np.where(rows, 0.0, np.inf)
        return Constraint(terms, self.outer + free, self.inner + free)


def pack(constraints: list[Constraint], rows: int) -> dict[str, Array]:
    """Flat arrays for the kernel."""
    terms = [t for c in constraints for t in c.terms]
    sizes = [0 if t.sets is None else t.sets.shape[1] for t in terms]
    sets = [t.sets for t in terms if t.sets is not None]
    return {
        "term_start": np.cumsum([0, *(len(c.terms) for c in constraints)]).astype(np.int64),
        "term_feature": np.array([t.feature for t in terms], dtype=np.int32),
        "term_phi": np.array([t.phi for t in terms], dtype=np.int32),
        "set_start": np.cumsum([0, *sizes]).astype(np.int64),
        "coefficient": _columns([t.a for t in terms], rows),
        "sets": np.ascontiguousarray(
            np.concatenate(sets, axis=1) if sets else np.zeros((rows, 0, 4)), dtype=np.float64
        ),
        "bound": _finite(_columns([c.outer for c in constraints], rows)),
        "bound_in": _finite(_columns([c.inner for c in constraints], rows)),
    }


def _columns(parts: list[Floats], rows: int) -> Floats:
    return np.ascontiguousarray(np.stack(parts, axis=1) if parts else np.zeros((rows, 0)))


def _finite(bounds: Floats) -> Floats:
    return np.nan_to_num(bounds, nan=1e300, posinf=1e300, neginf=-1e300)
