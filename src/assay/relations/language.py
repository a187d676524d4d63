"""The words of the constraint language in Python: F.column, implies, count, divide, ..."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.errors import AssayError
from assay.relations.conditional import Count, Where
from assay.relations.expression import Column, Expr, Op, Relation, expr, relation


def implies(premise: Relation, conclusion: Relation) -> Relation:
    """Where the premise holds, the conclusion must hold.

    >>> implies(F.ip > 0, F.digits > 0)
    ip <= 0 or digits > 0
    """
    return ~relation(premise) | relation(conclusion)


def count(*operands: Relation | Iterable[Relation]) -> Expr:
    """How many of these relations hold, as a number to compare: `count(F.a > 0, F.b > 0) <= 1`."""
    flat = [relation(r) for p in operands for r in ([p] if isinstance(p, Relation | Expr) else p)]
    if not flat:
        raise AssayError("count(): expected at least one relation")
    return Count(tuple(flat))


def divide(a: Any, b: Any, fill: Any) -> Expr:
    """a / b, and `fill` where b is 0."""
    return Op("divide", (expr(a), expr(b), expr(fill)))


def minimum(*values: Any) -> Expr:
    """The smallest of several values."""
    return Op("min", tuple(expr(v) for v in values))


def maximum(*values: Any) -> Expr:
    """The largest of several values."""
    return Op("max", tuple(expr(v) for v in values))


def log(a: Any, fill: Any = None) -> Expr:
    """Natural logarithm; with `fill`, that value where a <= 0."""
    return Op("log", (expr(a),) if fill is None else (expr(a), expr(fill)))


def floor(a: Any) -> Expr:
    """The largest integer not above a."""
    return Op("floor", (expr(a),))


def where(test: Relation, yes: Any, no: Any) -> Expr:
    """`yes` where the relation holds, `no` elsewhere."""
    return Where(relation(test), expr(yes), expr(no))


class Columns:
    """`F.name` or `F["any name"]`: the value of that feature."""

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):
            raise AttributeError(name)
        return Column(name)

    def __getitem__(self, name: str) -> Column:
        return Column(name)


F = Columns()
