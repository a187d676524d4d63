"""The words of the constraint language in Python: F.column, implies, count, divide, ..."""

from __future__ import annotations

from collections.abc import Iterable

from durometer.core.errors import DurometerError
from durometer.relations.expression import (
    Column,
    Count,
    Expr,
    Op,
    Operand,
    Relation,
    Where,
    expr,
    relation,
)


def implies(premise: Relation, conclusion: Relation) -> Relation:
    """The relation "if `premise`, then `conclusion`".

    Args:
        premise: A relation.
        conclusion: The relation that must hold wherever the premise does.

    Returns:
        The relation.

    >>> implies(F.ip > 0, F.digits > 0)
    ip <= 0 or digits > 0
    """
    return ~relation(premise) | relation(conclusion)


def count(*operands: Relation | Iterable[Relation]) -> Expr:
    """How many of several relations hold, as a number to compare.

    Args:
        *operands: The relations, or lists of them.

    Raises:
        DurometerError: There is no relation.

    >>> from durometer import F, relations
    >>> str(relations.count(F.a > 0, F.b > 0) <= 1)
    'count(a > 0, b > 0) <= 1'
    """
    flat = [relation(r) for p in operands for r in ([p] if isinstance(p, Relation | Expr) else p)]
    if not flat:
        raise DurometerError("count(): expected at least one relation")
    return Count(tuple(flat))


def fill(a: Operand, value: Operand) -> Expr:
    """A value, or a default where it is missing, so that a relation over it is always known.

    Args:
        a: The value, e.g. `F.income`.
        value: What to take where it is missing.

    >>> from durometer import F, relations
    >>> relations.fill(F.income, 0) <= 9
    fill(income, 0) <= 9
    """
    return Op("fill", (expr(a), expr(value)))


def divide(a: Operand, b: Operand, fill: Operand) -> Expr:
    """A quotient with a value for division by zero.

    Args:
        a: The dividend.
        b: The divisor.
        fill: The value where `b` is 0.

    >>> from durometer import F, relations
    >>> str(F.ratio == relations.divide(F.paid, F.months, fill=-1))
    'ratio == divide(paid, months, -1)'
    """
    return Op("divide", (expr(a), expr(b), expr(fill)))


def minimum(*values: Operand) -> Expr:
    """The smallest of several values.

    Args:
        *values: Features, numbers or expressions.

    >>> from durometer import F, relations
    >>> str(F.low <= relations.minimum(F.a, F.b))
    'low <= min(a, b)'
    """
    return Op("min", tuple(expr(v) for v in values))


def maximum(*values: Operand) -> Expr:
    """The largest of several values.

    Args:
        *values: Features, numbers or expressions.

    >>> from durometer import F, relations
    >>> str(F.top >= relations.maximum(F.a, F.b))
    'top >= max(a, b)'
    """
    return Op("max", tuple(expr(v) for v in values))


def log(a: Operand, fill: Operand | None = None) -> Expr:
    """The natural logarithm.

    Args:
        a: The value.
        fill: The result where `a` is 0 or less. None: the logarithm is then undefined.

    >>> from durometer import F, relations
    >>> str(F.size == relations.log(F.amount))
    'size == log(amount)'
    """
    return Op("log", (expr(a),) if fill is None else (expr(a), expr(fill)))


def floor(a: Operand) -> Expr:
    """The largest whole number that is not above a value.

    Args:
        a: The value.

    >>> from durometer import F, relations
    >>> str(F.years == relations.floor(F.months / 12))
    'years == floor(months / 12)'
    """
    return Op("floor", (expr(a),))


def where(test: Relation, yes: Operand, no: Operand) -> Expr:
    """One of two values, by whether a relation holds.

    Args:
        test: The relation.
        yes: The value where it holds.
        no: The value elsewhere.

    >>> from durometer import F, relations
    >>> str(F.rate == relations.where(F.age > 60, 0.5, 1))
    'rate == (0.5 if age > 60 else 1)'
    """
    return Where(relation(test), expr(yes), expr(no))


class Columns:
    """`F.name` or `F["any name"]`: the value of that feature.

    >>> from durometer import F
    >>> str((F.open_acc <= F.total_acc) & F.term.isin([36, 60]))
    'open_acc <= total_acc and term in {36, 60}'
    """

    def __getattr__(self, name: str) -> Column:
        if name.startswith("__"):
            raise AttributeError(name)
        return Column(name)

    def __getitem__(self, name: str) -> Column:
        return Column(name)


F = Columns()
