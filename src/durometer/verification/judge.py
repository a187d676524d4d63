"""The judge: may this input be handed in, and does the answer win? In plain numpy, from the spec.

Nothing here is imported from regions, goals or the referee: the rules are read once more from what
was asked (the spec's tables, a schema's features) and written down a second time.

What a reader would get wrong: where the judge knows no rule of its own (a space of somebody else,
missing cells) it says None, and whoever asks must take the space at its own word and say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from durometer.spaces import token_ids
from durometer.verification.images import on_levels, patch_allowed, rectangle_allowed
from durometer.verification.rules import relations_hold
from durometer.verification.text import text_allowed

Bools = NDArray[np.bool_]
Table = Mapping[str, Any]
_NORMS = {"Linf": np.inf, "L2": 2.0, "L1": 1.0, "L0": 0.0}
_SLACK = 1e-5  # of the size: stored inputs are rounded


def allowed(
    space: Table, x0: NDArray[Any], x: NDArray[Any], schema: Any = None, maker: Any = None
) -> Bools | None:
    """Which rows of `x` the space allows around `x0`; None: the judge has no rule for it.

    `maker` says what a word may be replaced by, in spaces of text.
    """
    kind = space.get("type")
    if kind == "Quantised" and np.ndim(x) == 4:
        inner = allowed(space["inner"], x0, x, schema)
        return None if inner is None else inner & on_levels(space, np.asarray(x, float))
    if kind in ("Patch", "Rectangle") and np.ndim(x) == 4:
        pixels = np.asarray(x0), np.asarray(x)
        return (
            patch_allowed(space, *pixels) if kind == "Patch" else rectangle_allowed(space, *pixels)
        )
    if kind == "Text":
        was, now = (token_ids.tokens(torch.from_numpy(np.asarray(v))) for v in (x0, x))
        return text_allowed(space, was, now, maker)
    a, b = (np.asarray(v, dtype=np.float64).reshape(len(v), -1) for v in (x0, x))
    if kind in _NORMS:
        shape = np.shape(x)[1:]
        low, high = (each(space.get(k, d), shape) for k, d in (("low", 0.0), ("high", 1.0)))
        boxed = ((b >= low - 1e-9) & (b <= high + 1e-9)).all(1) & np.isfinite(b).all(1)
        if np.ndim(space["eps"]):
            return boxed & _own_eps(each(space["eps"], shape), a, b, x.dtype, _NORMS[kind])
        rounding = _rounding(x, a, _NORMS[kind])
        size = float(space["eps"]) * (1 + _SLACK) + rounding
        inside: Bools = boxed & (_size(b - a, _NORMS[kind]) <= size)
        return inside
    if kind == "TableSpace" and schema is not None:
        if not (np.isfinite(a).all() and np.isfinite(b).all()) or space.get("cost") is not None:
            return None
        return _table_allowed(space, schema, a, b)
    return None


def each(value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """One number for each feature of an input: a list belongs to the first axis, the channels."""
    numbers = np.asarray(value, float)
    if numbers.ndim == 1 and len(shape) == 3:
        numbers = numbers[:, None, None]
    return np.broadcast_to(numbers, shape).reshape(-1)


def _own_eps(eps: NDArray[Any], a: NDArray[Any], b: NDArray[Any], kind: Any, p: float) -> Bools:
    """Each change is a share of its own eps; the norm of the shares is at most 1."""
    moved, may = np.abs(b - a), eps > 0
    unit = np.finfo(kind).eps * np.abs(a).max(1)[:, None] if kind.kind == "f" else 0.0
    still = (moved[:, ~may] == 0).all(1)
    if np.isinf(p):
        return np.asarray(still & (moved <= eps * (1 + _SLACK) + unit * may).all(1))
    most = 1 + _SLACK + _size((unit * np.ones(moved.shape))[:, may] / eps[may], p)
    return np.asarray(still & (_size(moved[:, may] / eps[may], p) <= most))


def _rounding(x: NDArray[Any], a: NDArray[Any], p: float) -> NDArray[Any]:
    if p == 0 or x.dtype.kind != "f":
        return np.zeros(len(a))
    dims = 1.0 if np.isinf(p) else a.shape[1] ** (1 / p)
    unit: NDArray[Any] = np.finfo(x.dtype).eps * np.abs(a).max(1) * dims
    return unit


def _size(d: NDArray[Any], p: float) -> NDArray[Any]:
    if p == 0:
        return np.asarray((d != 0).sum(1), dtype=float)
    return np.asarray(np.linalg.norm(d, ord=p, axis=1))


def _table_allowed(space: Table, schema: Any, a: NDArray[Any], b: NDArray[Any]) -> Bools:
    good = np.ones(len(b), bool)
    groups: dict[str, list[int]] = {}
    for j, f in enumerate(schema.features):
        was, now = a[:, j], b[:, j]
        if not f.mutable:
            good &= now == was
        if f.kind in ("integer", "boolean"):
            good &= now == np.round(now)
        if f.kind == "boolean":
            good &= (now == 0) | (now == 1)
        if f.kind == "category":
            good &= np.isin(now, np.asarray(f.codes))
        for side, sign in ((f.low, 1.0), (f.high, -1.0)):
            if side is not None:
                bound = was if isinstance(side, str) else np.full(len(was), float(side))
                good &= sign * (now - bound) >= -1e-6 * np.maximum(1.0, np.abs(bound))
        if f.group:
            groups.setdefault(f.group, []).append(j)
    for members in groups.values():
        good &= b[:, members].sum(1) == 1
    tolerance = float(space.get("tolerance", 1e-6))
    good &= relations_hold(schema.relations, schema.features, a, b, tolerance)
    return good & _near(space, schema, a, b)


def _near(space: Table, schema: Any, a: NDArray[Any], b: NDArray[Any]) -> Bools:
    """Within eps in the numeric features alone: what categories add can only make it more."""
    if "eps" not in space:
        return np.ones(len(b), bool)
    numeric = [j for j, f in enumerate(schema.features) if f.kind in ("real", "integer")]
    if not numeric:
        return np.ones(len(b), bool)
    span = np.array([schema.features[j].range[1] - schema.features[j].range[0] for j in numeric])
    change = (b - a)[:, numeric] / np.where(span > 0, span, 1.0)
    p = float(space.get("p", 2.0))
    return np.asarray(_size(change, p) <= float(space["eps"]) * (1 + 1e-4) + 1e-9)


def wins(
    goal: Table, y: NDArray[Any], answer: NDArray[Any], target: NDArray[Any], names: Any
) -> Bools | None:
    """Which answers reach the goal; None: the judge has no rule for this goal."""
    kind = goal.get("type")
    known = list(names or ())

    def index(c: Any) -> int:
        if isinstance(c, str) and c in known:
            return known.index(c)
        return int(c)

    if kind == "Untargeted":
        won = answer != y
        reject = goal.get("reject")
        return np.asarray(won if reject is None else won & (answer != index(reject)), bool)
    if kind in ("Targeted", "RandomTarget", "LeastLikely", "Quota"):
        if kind == "Targeted" and isinstance(goal.get("target"), str | int):
            target = np.full(len(y), index(goal["target"]))
        return np.asarray((answer == target) & (target >= 0) & (target != y))
    if kind == "Group":
        pairs = {(index(s), index(t)) for s, ts in goal["relation"].items() for t in ts}
        return np.array([(int(s), int(t)) in pairs for s, t in zip(y, answer, strict=True)], bool)
    return None


def wilson(hits: int, n: int) -> tuple[float, float, float]:
    """A share and its 95 % score interval: the two roots of (p - q)^2 n = z^2 q (1 - q)."""
    z2 = 3.841458820694124
    p = hits / n
    roots = np.roots([1 + z2 / n, -(2 * p + z2 / n), p * p])
    low, high = sorted(float(r.real) for r in roots)
    return p, max(0.0, low), min(1.0, high)
