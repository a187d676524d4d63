"""Is a proof about trees right? A certificate walked in plain numpy, with no code of the search.

A certificate is a tree of cuts `x_f <= t`. Cuts lose no point, so the parts at its ends cover the
region. Each end is refuted: no valid value is left by the constraints; or every tree has one leaf,
and their sum misses the goal; or the rival stays ahead of the target by

    base + sum_t min_leaf (v + sum_f min p_tf) + sum_f min_x theta_f(x) - sum_r m_r b_r
    theta_f(x) = sum_r m_r h_rf(x) - sum_t p_tf(x)

which is a lower bound of the lead for any potentials p and any multipliers m >= 0 (what is added
to trees is taken from features). The format is described in docs/understand/proofs.md.

What a reader would get wrong: that the constraints hold for valid points is not asked here but by
`assumptions`, and the trees are taken as read: that they answer as the model is asked elsewhere.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from durometer.verification.domain import (
    FUZZ,
    Constraint,
    Floats,
    Refused,
    Row,
    Term,
    least,
    tighten,
)


@dataclass(eq=False)
class _Numbers:
    all: Floats
    at: int = 0

    def __call__(self) -> float:
        self.at += 1
        if self.at > len(self.all):
            raise Refused("it ends before its proof does")
        return float(self.all[self.at - 1])

    def whole(self, below: float = 1e15) -> int:
        v = self()
        if not (0 <= v < below and v == int(v)):
            raise Refused(f"{v} where a whole number below {below:g} is expected")
        return int(v)

    def some(self, n: int) -> Floats:
        return np.array([self() for _ in range(n)])


def constraints(certificate: bytes) -> list[Constraint]:
    """What a certificate assumes of valid points, beside their bounds."""
    return _opening(certificate)[1]


def _opening(certificate: bytes) -> tuple[_Numbers, list[Constraint], tuple[float, float]]:
    try:
        raw = np.frombuffer(zlib.decompress(certificate), np.uint8).reshape(8, -1).T.tobytes()
    except (zlib.error, ValueError) as error:
        raise Refused(f"it cannot be read: {error}") from None
    n = _Numbers(np.frombuffer(raw, np.float64))
    if n() != 1:
        raise Refused("another version of the format")
    digests, made = (n(), n()), []
    for _ in range(n.whole()):
        bound, count = n(), n.whole()
        terms: list[Term] = []
        for _ in range(count):
            f, phi, a, sets = n.whole(), n.whole(5), n(), n.whole()
            if phi >= 2 and not a >= 0:
                raise Refused(f"a negative weight {a} of a distance or a set")
            terms.append((f, phi, a, n.some(2 * sets).reshape(-1, 2)))
        made.append((bound, terms))
    return n, made, digests


def check(certificate: bytes, trees: Any, row: Row) -> None:
    """Raise `Refused` unless the certificate proves that no valid point of the row succeeds."""
    n, made, digests = _opening(certificate)
    if digests[0] != _digest(row.x0):
        raise Refused("it is about another row")
    if digests[1] != _digest(*(getattr(trees, k) for k in _READ)):
        raise Refused("it is about another model")
    proof, targets = _Proof(trees, row, made), set()
    for _ in range(n.whole()):
        targets.add(target := n.whole(len(row.goal)))
        proof.walk(n, target)
    if n.at != len(n.all):
        raise Refused("it goes on after its proof")
    if missing := set(np.flatnonzero(row.goal).tolist()) - targets:
        raise Refused(f"it says nothing about class {min(missing)}")


_READ = ("feature", "threshold", "left", "right", "value", "roots", "base")


def _digest(*arrays: Any) -> float:
    whole = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
    return float(int.from_bytes(whole.digest()[:6], "little"))


@dataclass(eq=False)
class _Proof:
    trees: Any
    row: Row
    constraints: list[Constraint]
    tree: NDArray[np.int64] = field(init=False)  # (leaves,) of each leaf that the row can reach
    value: Floats = field(init=False)  # (leaves, outputs)
    low: Floats = field(init=False)  # (leaves, d): values in (low, high] lead to the leaf
    high: Floats = field(init=False)
    slack: float = field(init=False)

    def __post_init__(self) -> None:
        d, e = len(self.row.x0), self.trees
        self.gone = np.isnan(self.row.x0)
        self.constraints = [
            (np.inf, []) if any(self.gone[t[0]] for t in terms) else (bound, terms)
            for bound, terms in self.constraints
        ]
        found: list[tuple[int, int, Floats, Floats]] = []
        for t, root in enumerate(e.roots.tolist()):
            stack = [(root, np.full(d, -np.inf), np.full(d, np.inf))]
            while stack:
                node, low, high = stack.pop()
                f = int(e.feature[node])
                if f < 0:
                    found.append((t, node, low, high))
                    continue
                left, right = int(e.left[node]), int(e.right[node])
                if self.gone[f]:
                    stack.append((left if e.missing_left[node] else right, low, high))
                    continue
                cut = self.row.floor(f, float(e.threshold[node]))
                if cut >= self.row.low[f] and low[f] < cut:
                    stack.append((left, low, _with(high, f, min(cut, high[f]))))
                if cut < self.row.high[f] and cut < high[f]:
                    stack.append((right, _with(low, f, max(cut, low[f])), high))
        self.tree = np.array([t for t, *_ in found])
        self.value = e.value[[node for _, node, *_ in found]]
        self.low, self.high = (np.array([leaf[k] for leaf in found]) for k in (2, 3))
        self.slack = self._slack()
        tested = [e.threshold[e.feature == f] for f in range(d)]
        self.thresholds = [np.unique(t[np.isfinite(t)]) for t in tested]
        self.cuts = [self._cuts(f) for f in range(d)]

    def _slack(self) -> float:
        """How far the library's own sums of these leaves can be from the exact ones."""
        e = self.trees
        start = np.searchsorted(self.tree, np.arange(len(e.roots)))
        low, high = (u.reduceat(self.value, start, axis=0) for u in (np.minimum, np.maximum))
        partial = np.maximum(*(np.abs(e.base + np.cumsum(v, axis=0)) for v in (low, high)))
        error = np.sort(np.where((low != 0) | (high != 0), partial, 0.0).sum(0))
        unit = 2.0**-24 if e.single else 2.0**-53
        return float(unit * (1.001 * error[-2:].sum() + 4 * (1 + np.abs(e.base).max())))

    def _cuts(self, f: int) -> Floats:
        """Last values of the cells of a feature: nothing changes between two of them."""
        ends = [self.row.floor(f, t) for t in self.thresholds[f]]
        for _, terms in self.constraints:
            for g, _, _, sets in terms:
                for s0, s1 in sets if g == f else ():
                    last = self.row.floor(f, s0)
                    ends += [self.row.floor(f, s1), last if last < s0 else self.row.before(f, s0)]
        return np.unique([v for v in ends if np.isfinite(v)])

    def walk(self, n: _Numbers, target: int) -> None:
        low, high = (np.where(self.gone, 0.0, b) for b in (self.row.low, self.row.high))
        stack = [(low, high)]
        while stack:
            low, high = stack.pop()
            room = bool((low <= high).all()) and tighten(self.row, self.constraints, low, high)
            why = n.whole(4)
            if why == 1:
                f = n.whole(len(low))
                last = self.row.floor(f, n())
                if not np.isfinite(last) or self.gone[f]:
                    raise Refused(f"a cut of feature {f} at {last}")
                stack.append((_with(low, f, max(low[f], self.row.after(f, last))), high))
                stack.append((low, _with(high, f, min(high[f], last))))
            elif why == 2:
                lead, size = self.lead(n, target, low, high)
                if room and not lead - FUZZ * size > self.slack:
                    raise Refused(f"a part where the lead is bounded by {lead:.6g} only")
            elif room and (why == 0 or self.reaches(low, high)):
                raise Refused("a part that may hold a counterexample")

    def _live(self, low: Floats, high: Floats) -> NDArray[np.int64]:
        return np.flatnonzero(((self.high >= low) & (self.low < high)).all(1))

    def reaches(self, low: Floats, high: Floats) -> bool:
        """Could these leaves, one of each tree, reach the goal by the library's own sum?"""
        live, e = self._live(low, high), self.trees
        if len(live) != len(e.roots):
            raise Refused("a part that should have one leaf in every tree has several")
        numbers = np.concatenate([[e.base], self.value[live]])
        sums = np.cumsum(numbers, axis=0, dtype=np.float32 if e.single else np.float64)[-1]
        goal, exact = self.row.goal, not e.single and bool((numbers * 2**20 % 1 == 0).all())
        if e.outputs == 1:
            gap, label = abs(float(sums[0]) - e.cut), int(sums[0] > e.cut)
        else:
            gap = abs(float(sums[goal].max()) - float(sums[~goal].max()))
            label = int(np.argmax(sums))
        return bool(goal[label]) or (gap <= self.slack and not exact)

    def lead(self, n: _Numbers, target: int, low: Floats, high: Floats) -> tuple[float, float]:
        """A lower bound of the rival's lead on a part, and the size of all that was added up."""
        e, rival, grid = self.trees, n.whole(len(self.row.goal)), n()
        if self.row.goal[rival]:
            raise Refused(f"class {rival} is no rival: it counts as success")
        weight = np.zeros(e.outputs)
        if e.outputs == 1:
            weight[0], base = (-1.0, e.cut) if target == 1 else (1.0, -e.cut)
        else:
            weight[rival], weight[target], base = 1.0, -1.0, 0.0
        total = base + float(weight @ e.base)
        live = self._live(low, high)
        sums, size = self.value[live] @ weight, abs(total)
        size += float(np.abs(sums).max(initial=0.0)) * len(e.roots)
        uppers: dict[int, Floats] = {}
        theta: dict[int, Floats] = {}

        def cells(f: int) -> tuple[Floats, Floats]:
            if f not in theta:
                inside = self.cuts[f][(self.cuts[f] >= low[f]) & (self.cuts[f] < high[f])]
                uppers[f] = np.append(inside, high[f])
                theta[f] = np.zeros(len(uppers[f]))
            return np.array([low[f], *(self.row.after(f, v) for v in uppers[f][:-1])]), uppers[f]

        for _ in range(n.whole()):
            r, m = n.whole(len(self.constraints)), n()
            bound, terms = self.constraints[r]
            if not (m >= 0 and np.isfinite(m * bound)):
                raise Refused(f"multiplier {m} of constraint {r}")
            total, size = total - m * bound, size + abs(m * bound)
            for term in terms:
                h = m * least(term, self.row.x0, *cells(term[0]))
                theta[term[0]] += h
                size += float(np.abs(h).max())
        for _ in range(n.whole()):
            t, f, pieces = n.whole(len(e.roots)), n.whole(len(low)), n.whole()
            place = [n.whole(len(self.thresholds[f])) for _ in range(pieces - 1)]
            breaks = np.array([self.row.floor(f, self.thresholds[f][k]) for k in place])
            p = grid * n.some(pieces)
            if not (np.diff(breaks) > 0).all() or not np.isfinite(p).all():
                raise Refused("a potential that is no step function")
            cells(f)
            theta[f] -= p[np.searchsorted(breaks, uppers[f])]
            size += 2 * float(np.abs(p).max())
            mine = np.flatnonzero(self.tree[live] == t)
            first = np.maximum(self.low[live[mine], f], self.row.before(f, low[f]))
            a = np.searchsorted(breaks, first, side="right")
            b = np.searchsorted(breaks, np.minimum(self.high[live[mine], f], high[f]))
            sums[mine] += [p[i : j + 1].min() for i, j in zip(a, b, strict=True)]
        if not len(live):
            return np.inf, 0.0
        start = np.flatnonzero(np.diff(self.tree[live], prepend=-1))
        total += float(np.minimum.reduceat(sums, start).sum())
        return total + sum(float(v.min()) for v in theta.values()), size


def _with(values: Floats, f: int, v: float) -> Floats:
    out = values.copy()
    out[f] = v
    return out
