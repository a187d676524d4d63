"""Normal form of a relation: names to positions, labels to codes, and a *shape* to group by.

The shape is the tree without its leaves; these (positions, constants, coefficients, tolerances,
scales) go to a list in the order in which the tree is walked, the same for all trees of a shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from durometer.core.errors import DurometerError, nearest
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
    columns,
    label,
)
from durometer.relations.intervals import Interval, interval

Linear = tuple[dict[tuple[str, bool], float], float]  # coefficient of each (name, clean); constant


@dataclass(frozen=True)
class Layout:
    """What relations need to know of a table: names, ranges, which are whole, labels' codes."""

    ranges: Mapping[str, Interval]  # in column order
    whole: frozenset[str] = frozenset()
    labels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reaches: Mapping[str, Interval] = field(
        default_factory=dict
    )  # values allowed, where not the range
    missing: frozenset[str] = frozenset()  # features that a record may lack

    @cached_property
    def place(self) -> dict[str, int]:
        """The position of each feature."""
        return {name: i for i, name in enumerate(self.ranges)}

    def least(self, e: Expr) -> float:
        """No record an attacker may hand in makes the expression smaller than this."""
        return interval(e, {**self.ranges, **self.reaches})[0]

    def labelled(self, name: str) -> bool:
        """Is it a category whose values are labels, held by codes that mean nothing?"""

        def stands_for_itself(label: str, code: float) -> bool:
            try:
                return float(label) == code
            except ValueError:
                return False

        codes = self.labels.get(name, {})
        return not all(stands_for_itself(label, code) for label, code in codes.items())

    def width(self, name: str) -> float:
        """The feature's range; 1 if it never varies."""
        low, high = self.ranges[name]
        return high - low if 0 < high - low < math.inf else 1.0


def normal_form(r: Relation, layout: Layout) -> Relation:
    """Only <=, <, ==, != are left; labels are codes; `abs(a - b) <= c` is `a == b within c`."""
    match r:
        case And():
            return And(tuple(normal_form(p, layout) for p in r.operands))
        case Or():
            return Or(tuple(normal_form(p, layout) for p in r.operands))
        case In():
            op = "!=" if r.negated else "=="
            each = tuple(normal_form(Compare(op, r.item, v), layout) for v in r.values)
            return each[0] if len(each) == 1 else And(each) if r.negated else Or(each)
        case Compare():
            if r.op in (">", ">="):
                return normal_form(
                    replace(r, op="<" if r.op == ">" else "<=", left=r.right, right=r.left), layout
                )
            left = _resolve(r.left, r.right, r, layout)
            right = _resolve(r.right, r.left, r, layout)
            if r.op == "<=" and r.tolerance is None and isinstance(left, Op) and left.op == "abs":
                inside = left.args[0]
                if isinstance(right, Const) and right.value >= 0 and _is_difference(inside):
                    a, b = inside.args  # type: ignore[attr-defined]
                    return Compare("==", a, -b, float(right.value))
            return _cleared(replace(r, left=left, right=right), layout)
    raise DurometerError(f"{r!r}: expected a relation")


def _cleared(r: Compare, layout: Layout) -> Relation:
    """A quotient bounded by a constant, with its denominator (never negative) multiplied out.

    a / b <= c becomes a <= c * b where b != 0: linear if a and b are, and measured in the units of
    a instead of those of a quotient that has no bound.
    """
    side = r.left if isinstance(r.right, Const) else r.right
    if r.op not in ("<=", "<") or r.tolerance is not None or not isinstance(side, Op):
        return r
    if side.op not in ("/", "divide") or not isinstance(
        r.left if side is r.right else r.right, Const
    ):
        return r
    a, b, *fill = side.args
    if not layout.least(b) >= 0 or (fill and not isinstance(fill[0], Const)):
        return r
    bound = r.right if side is r.left else r.left
    left, right = (a, bound * b) if side is r.left else (bound * b, a)
    cleared, zero = replace(r, left=left, right=right), Compare("<=", b, Const(0))
    if not fill:
        return And((normal_form(~zero, layout), cleared)) if layout.least(b) == 0 else cleared
    value, limit = float(fill[0].value), float(bound.value)  # type: ignore[attr-defined]
    low, high = (value, limit) if side is r.left else (limit, value)
    if low <= high if r.op == "<=" else low < high:
        return Or((replace(zero, tolerance=0.0), cleared))  # nearly 0 is no 0: the quotient counts
    return And((normal_form(~zero, layout), cleared))


def _is_difference(e: Expr) -> bool:
    return isinstance(e, Op) and e.op == "+" and len(e.args) == 2


def _resolve(e: Expr, other: Expr, r: Relation, layout: Layout) -> Expr:
    """Check the names below `e`; a label becomes its code in the column it is compared with."""
    match e:
        case Column():
            if e.name not in layout.place:
                raise DurometerError(
                    f"relation '{r}': no feature '{e.name}'{nearest(e.name, layout.place)}"
                )
            return e
        case Const() if isinstance(e.value, str):
            if not isinstance(other, Column) or other.name not in layout.labels:
                raise DurometerError(
                    f"relation '{r}': label '{e.value}' must be compared with a category"
                )
            codes = layout.labels[other.name]
            if e.value not in codes:
                raise DurometerError(
                    f"relation '{r}': '{other.name}' has no label '{e.value}'"
                    f"{nearest(e.value, codes)}"
                )
            return Const(codes[e.value])
        case Op(op="neg", args=(Op(op="neg", args=(inner,)),)):
            return _resolve(inner, other, r, layout)
        case Op():
            resolved = Op(e.op, tuple(_resolve(a, label(0), r, layout) for a in e.args))
            _refuse_arithmetic(resolved, r, layout)
            return resolved
        case Count():
            return Count(tuple(normal_form(p, layout) for p in e.operands))
        case Where():
            yes, no = (_resolve(a, label(0), r, layout) for a in (e.yes, e.no))
            if _guards(e.test, yes):
                return Op("divide", (*yes.args, no))  # type: ignore[attr-defined]
            return Where(normal_form(e.test, layout), yes, no)
    return e


def _refuse_arithmetic(e: Op, r: Relation, layout: Layout) -> None:
    """Codes of labels are no amounts, and a constant must be a number that a computer has."""
    for part in e.args:
        if isinstance(part, Column) and layout.labelled(part.name):
            raise DurometerError(
                f"relation '{r}': '{part.name}' is a category with labels, and its code is no "
                f"amount to compute with ({e.op}); compare it: {part.name} == "
                f"'{next(iter(layout.labels[part.name]))}', or give it numbers as values"
            )
    if e.op == "**" and next(columns(e), None) is None:
        (base, _), (power, _) = (interval(part, {}) for part in e.args)
        try:
            base**power
        except OverflowError:
            raise DurometerError(
                f"relation '{r}': '{e}' is larger than any number; write the bound that is meant"
            ) from None
        except ZeroDivisionError:
            pass  # undefined, and said so where it is asked


def _guards(test: Relation, quotient: Expr) -> bool:
    """Is this `a / b if b != 0 else fill`?"""
    if not (isinstance(quotient, Op) and quotient.op == "/" and isinstance(test, Compare)):
        return False
    return test.op == "!=" and str(test.left) == str(quotient.args[1]) and str(test.right) == "0"


def linear(e: Expr) -> Linear | None:
    """The expression as coefficients and a constant, if it is linear in the features."""
    match e:
        case Const():
            return {}, float(e.value)
        case Column():
            return {(e.name, e.clean): 1.0}, 0.0
        case Op(op="neg"):
            return _combine([(linear(e.args[0]), -1.0)])
        case Op(op="+"):
            return _combine([(linear(a), 1.0) for a in e.args])
        case Op(op="*" | "/"):
            a, b = linear(e.args[0]), linear(e.args[1])
            if a is None or b is None:
                return None
            if not b[0] and (e.op == "*" or b[1] != 0):
                return _combine([(a, b[1] if e.op == "*" else 1 / b[1])])
            if not a[0] and e.op == "*":
                return _combine([(b, a[1])])
    return None


def _combine(operands: list[tuple[Linear | None, float]]) -> Linear | None:
    terms: dict[tuple[str, bool], float] = {}
    constant = 0.0
    for part, factor in operands:
        if part is None:
            return None
        constant += factor * part[1]
        for key, weight in part[0].items():
            terms[key] = terms.get(key, 0.0) + factor * weight
    return terms, constant


def is_whole(e: Expr, layout: Layout) -> bool:
    """Is the value a whole number for every record whose whole features are whole?"""
    match e:
        case Const():
            return float(e.value).is_integer()
        case Column():
            return e.name in layout.whole
        case Count():
            return True
        case Where():
            return is_whole(e.yes, layout) and is_whole(e.no, layout)
        case Op():
            if e.op == "floor":
                return True
            return e.op in ("neg", "+", "*", "abs", "min", "max", "%") and all(
                is_whole(a, layout) for a in e.args
            )
    return False


def scale(r: Compare, layout: Layout) -> float:
    """What left - right changes by when the features cross their ranges."""
    difference = linear(r.left - r.right)
    if difference is not None:
        moves = [w * layout.width(name) for (name, clean), w in difference[0].items() if not clean]
        return math.hypot(*moves) or 1.0
    sides = [interval(e, layout.ranges) for e in (r.left, r.right)]
    widths = [high - low for low, high in sides if 0 < high - low < math.inf]
    return min(
        widths, default=max(1.0, *(abs(v) for s in sides for v in s if math.isfinite(v)), 1.0)
    )


@dataclass
class Leaves:
    """The leaves of one tree, in the order of the walk."""

    layout: Layout
    scaled: bool = True
    items: list[float] = field(default_factory=list)


def pattern(node: Expr | Relation, leaves: Leaves) -> object:
    """The shape of a normal tree; its leaves are appended to `leaves`."""
    put, layout = leaves.items.append, leaves.layout
    match node:
        case And() | Or():
            kind = "and" if isinstance(node, And) else "or"
            return (kind, *(pattern(p, leaves) for p in node.operands))
        case Compare():
            put(math.nan if node.tolerance is None else node.tolerance)
            put(scale(node, layout) if leaves.scaled else 1.0)
            put(float(is_whole(node.left, layout) and is_whole(node.right, layout)))
            put(min(1.0, scale(node, layout)))  # the unit of its tolerance
            return ("compare", node.op, pattern(node.left, leaves), pattern(node.right, leaves))
        case Const():
            put(float(node.value))
            return ("const",)
        case Column():
            put(layout.place[node.name])
            return ("x0" if node.clean else "x",)
        case Count():
            pairs = [q for p in node.operands for q in (p, normal_form(~p, layout))]
            return ("count", *(pattern(q, leaves) for q in pairs))
        case Where():
            return ("where", *(pattern(q, leaves) for q in (node.test, node.yes, node.no)))
        case Op():
            form = linear(node)
            if form is None:
                return ("op", node.op, *(pattern(a, leaves) for a in node.args))
            terms, constant = form
            put(constant)
            for clean in (False, True):
                for (name, was), weight in terms.items():
                    if was == clean:
                        put(layout.place[name])
                        put(weight)
            clean_terms = sum(was for _, was in terms)
            return ("linear", len(terms) - clean_terms, clean_terms)
    raise DurometerError(f"{node!r}: cannot be compiled")
