"""The judge: may this input be handed in, and does the answer win? In plain numpy, from the spec.

Nothing here is imported from regions, goals or the referee: the rules are read once more from what
was asked (the spec's tables, a schema's features) and written down a second time.

Relations are evaluated over their text's tree, where the package compiles a program; an undefined
number (a division by zero, a logarithm of nothing) breaks the relation it stands in. What is a
definition and nobody's work (the frame of a pair of eyeglasses, candidates of a word, opposites) is
read by both sides.

What a reader would get wrong: where the judge knows no rule of its own (a space of somebody else,
missing cells, a similarity of sentences) it says None, and whoever asks must take the space at its
own word and say so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from durometer.kernels.arrays import Array, Bools, Floats
from durometer.relations.expression import (
    And,
    Column,
    Compare,
    Const,
    Count,
    Expr,
    In,
    Op,
    Or,
    Relation,
    Where,
)
from durometer.spaces import lexicon, token_ids
from durometer.spaces.masks import eyeglasses
from durometer.spaces.text import STOPWORDS

Rows = Sequence[Sequence[str]]
Table = Mapping[str, Any]
_NORMS = {"Linf": np.inf, "L2": 2.0, "L1": 1.0, "L0": 0.0}
_SLACK = 1e-5  # of the size: stored inputs are rounded
_ROUNDING = 1e-6  # of stored float32 pictures


def allowed(
    space: Table, x0: Array, x: Array, schema: Any = None, maker: Any = None
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


def each(value: Any, shape: tuple[int, ...]) -> Array:
    """One number for each feature of an input: a list belongs to the first axis, the channels."""
    numbers = np.asarray(value, float)
    if numbers.ndim == 1 and len(shape) == 3:
        numbers = numbers[:, None, None]
    return np.broadcast_to(numbers, shape).reshape(-1)


def _own_eps(eps: Array, a: Array, b: Array, kind: Any, p: float) -> Bools:
    """Each change is a share of its own eps; the norm of the shares is at most 1."""
    moved, may = np.abs(b - a), eps > 0
    unit = np.finfo(kind).eps * np.abs(a).max(1)[:, None] if kind.kind == "f" else 0.0
    still = (moved[:, ~may] == 0).all(1)
    if np.isinf(p):
        return np.asarray(still & (moved <= eps * (1 + _SLACK) + unit * may).all(1))
    most = 1 + _SLACK + _size((unit * np.ones(moved.shape))[:, may] / eps[may], p)
    return np.asarray(still & (_size(moved[:, may] / eps[may], p) <= most))


def _rounding(x: Array, a: Array, p: float) -> Array:
    if p == 0 or x.dtype.kind != "f":
        return np.zeros(len(a))
    dims = 1.0 if np.isinf(p) else a.shape[1] ** (1 / p)
    unit: Array = np.finfo(x.dtype).eps * np.abs(a).max(1) * dims
    return unit


def _size(d: Array, p: float) -> Array:
    if p == 0:
        return np.asarray((d != 0).sum(1), dtype=float)
    return np.asarray(np.linalg.norm(d, ord=p, axis=1))


def _table_allowed(space: Table, schema: Any, a: Array, b: Array) -> Bools:
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


def _near(space: Table, schema: Any, a: Array, b: Array) -> Bools:
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


def wins(goal: Table, y: Array, answer: Array, target: Array, names: Any) -> Bools | None:
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
        said = goal.get("relation") or _dear(goal["cost"], float(goal.get("least") or 0))
        pairs = {(index(s), index(t)) for s, ts in said.items() for t in ts}
        return np.array([(int(s), int(t)) in pairs for s, t in zip(y, answer, strict=True)], bool)
    return None


def _dear(cost: Any, least: float) -> dict[Any, list[Any]]:
    """Source -> targets, of the confusions that cost anything, and no less than that."""
    lines = dict(cost) if isinstance(cost, Mapping) else dict(enumerate(cost))
    return {
        s: [t for t, price in (
            line.items() if isinstance(line, Mapping) else enumerate(line)
        ) if price > 0 and price >= least]
        for s, line in lines.items()
    }  # fmt: skip


def wilson(hits: int, n: int) -> tuple[float, float, float]:
    """A share and its 95 % score interval: the two roots of (p - q)^2 n = z^2 q (1 - q)."""
    z2 = 3.841458820694124
    p = hits / n
    roots = np.roots([1 + z2 / n, -(2 * p + z2 / n), p * p])
    low, high = sorted(float(r.real) for r in roots)
    return p, max(0.0, low), min(1.0, high)


def patch_allowed(space: Mapping[str, Any], a: Array, b: Array) -> Bools | None:
    """Changes under the mask alone; None where the mask is a function of somebody."""
    mask = _mask(space.get("mask", "eyeglasses"), a.shape[2], a.shape[3])
    if mask is None:
        return None
    outside = np.broadcast_to(~mask, a.shape)
    same: Bools = ((a == b) | ~outside).reshape(len(a), -1).all(1)
    return same & _shown(space, b)


def rectangle_allowed(space: Mapping[str, Any], a: Array, b: Array) -> Bools:
    """Changes inside one window: their rows and columns span no more than it."""
    changed = (a != b).any(1)
    good = _shown(space, b)
    for axis, most in ((2, int(space["height"])), (1, int(space["width"]))):
        hit = changed.any(axis)
        size = hit.shape[1]
        first, last = hit.argmax(1), size - 1 - hit[:, ::-1].argmax(1)
        good &= ~hit.any(1) | (last - first + 1 <= most)
    return good


def on_levels(space: Mapping[str, Any], b: Array) -> Bools:
    """Every value is one of so many, evenly from low to high."""
    inner = space["inner"]
    low, high = float(inner.get("low", 0.0)), float(inner.get("high", 1.0))
    steps = (b - low) / (high - low) * (int(space.get("levels", 256)) - 1)
    near = np.abs(steps - np.round(steps)).reshape(len(b), -1).max(1) <= 1e-3
    return np.asarray(near, bool)


def _shown(space: Mapping[str, Any], b: Array) -> Bools:
    low, high = float(space.get("low", 0.0)), float(space.get("high", 1.0))
    flat = b.reshape(len(b), -1)
    inside = (np.isfinite(flat) & (flat >= low - _ROUNDING) & (flat <= high + _ROUNDING)).all(1)
    return np.asarray(inside)


def _mask(given: Any, height: int, width: int) -> Bools | None:
    if isinstance(given, str):
        if given != "eyeglasses":
            return None
        return eyeglasses(height, width)
    return np.asarray(given).astype(bool)


def text_allowed(space: Mapping[str, Any], was: Rows, now: Rows, maker: Any) -> Bools | None:
    """Which sentences the space allows; None: no candidates are known, or a similarity is asked."""
    if maker is None or space.get("similarity") is not None:
        return None
    keep = {str(w).lower() for w in space.get("keep", STOPWORDS)}
    opposite = {} if space.get("antonyms") else lexicon.antonyms()
    share = float(space.get("most", 0.25))
    return np.array(
        [_row(a, b, share, keep, opposite, maker) for a, b in zip(was, now, strict=True)], bool
    )


def _row(
    was: Sequence[str], now: Sequence[str], share: float, keep: set[str],
    opposite: Mapping[str, Collection[str]], maker: Any,
) -> bool:  # fmt: skip
    if len(was) != len(now):
        return False
    places = [k for k, (a, b) in enumerate(zip(was, now, strict=True)) if a != b]
    if len(places) > max(1, int(share * len(was))):
        return False
    offered = maker(list(was))
    for k in places:
        if was[k].lower() in keep or _bare(was[k]) in keep or now[k] not in offered[k]:
            return False
        near = {_bare(word) for word in was[max(0, k - 2) : k + 3]}
        if " " in now[k] or near & set(opposite.get(_bare(now[k]), ())):
            return False
    return True


def _bare(word: str) -> str:
    """Without what stands before the first and behind the last letter or digit."""
    inner = [k for k, letter in enumerate(word) if letter.isalnum()]
    return (word[inner[0] : inner[-1] + 1] if inner else word).lower()


def relations_hold(
    relations: Sequence[Relation],
    features: Sequence[Any],
    was: Floats,
    now: Floats,
    tolerance: float,
) -> Bools:
    """(n,) whether every relation holds in a row."""
    walk = _Walk(features, was, now, tolerance)
    good = np.ones(len(now), bool)
    with np.errstate(all="ignore"):
        for relation in relations:
            good &= walk.holds(relation)
    return good


class _Walk:
    def __init__(self, features: Sequence[Any], was: Floats, now: Floats, tolerance: float) -> None:
        self.place = {f.name: j for j, f in enumerate(features)}
        self.features, self.was, self.now, self.tolerance = features, was, now, tolerance

    def sides(self, r: Compare) -> tuple[Floats, Floats]:
        """Both sides; a label is the code of the category on the other side."""
        left, right = r.left, r.right
        for a, b in ((left, right), (right, left)):
            if isinstance(a, Const) and isinstance(a.value, str) and isinstance(b, Column):
                f = self.features[self.place[b.name]]
                code = dict(zip(map(str, f.values), f.codes, strict=True))[a.value]
                left, right = (Const(code), b) if a is left else (b, Const(code))
                break
        return self.number(left), self.number(right)

    def number(self, e: Expr) -> Floats:
        match e:
            case Const():
                return np.full(len(self.now), float(e.value))
            case Column():
                return np.asarray((self.was if e.clean else self.now)[:, self.place[e.name]])
            case Count():
                return np.asarray(sum(self.holds(p).astype(float) for p in e.operands))
            case Where():
                return np.asarray(
                    np.where(self.holds(e.test), self.number(e.yes), self.number(e.no))
                )
            case Op():
                return np.asarray(_operate(e.op, [self.number(a) for a in e.args]))
        raise TypeError(f"{type(e).__name__}: no number")

    def holds(self, r: Relation) -> Bools:
        match r:
            case And():
                return np.asarray(np.all([self.holds(p) for p in r.operands], axis=0))
            case Or():
                return np.asarray(np.any([self.holds(p) for p in r.operands], axis=0))
            case In():
                same = [self.holds(Compare("==", r.item, v)) for v in r.values]
                other = [self.holds(Compare("!=", r.item, v)) for v in r.values]
                return np.asarray(np.all(other, axis=0) if r.negated else np.any(same, axis=0))
            case Compare():
                a, b = self.sides(r)
                slack: Any = r.tolerance
                if slack is None:
                    slack = self.tolerance * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
                same, less, more = np.abs(a - b) <= slack, a < b, a > b
                found = {"<=": less | same, "<": less & ~same, ">=": more | same,
                         ">": more & ~same, "==": same, "!=": ~same}[r.op]  # fmt: skip
                return np.asarray(found & np.isfinite(a) & np.isfinite(b))
        raise TypeError(f"{type(r).__name__}: no relation")


def _operate(op: str, a: list[Floats]) -> Any:
    match op:
        case "+":
            return np.sum(a, axis=0)
        case "*":
            return a[0] * a[1]
        case "neg":
            return -a[0]
        case "/":
            return np.where(a[1] == 0, np.nan, a[0] / a[1])
        case "divide":
            return np.where(a[1] == 0, a[2], a[0] / a[1])
        case "%":
            return np.where(a[1] == 0, np.nan, a[0] - a[1] * np.floor(a[0] / a[1]))
        case "**":
            return a[0] ** a[1]
        case "log":
            return np.where(a[0] > 0, np.log(a[0]), a[1] if len(a) > 1 else np.nan)
        case "fill":
            return np.where(np.isnan(a[0]), a[1], a[0])
        case "abs":
            return np.abs(a[0])
        case "floor":
            return np.floor(a[0])
        case "min":
            return np.min(a, axis=0)
        case "max":
            return np.max(a, axis=0)
    raise TypeError(f"{op}: no operation")
