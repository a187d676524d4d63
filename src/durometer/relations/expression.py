"""The constraint language: relations between the features of a record, as Python expressions.

    (F.open_acc <= F.total_acc) & F.term.isin([36, 60])
    implies(F.ip > 0, F.ratio_digits > 0)
    F.ratio == divide(F.pub_rec, F.months, fill=-1)

The grammar is the CAA paper's (eqs. 1-2: comparisons, and, or, membership, arithmetic, constants
and the original record's value `F.x.original`) with `!=`, negation, implication, counting, safe
division and functions added. `str(relation)` is its text form, which `parse.relation` reads back.

What a reader would get wrong: Python itself loses halves of relations. `0 <= F.a <= F.b` and
`r1 and r2` ask for the truth value of the first half and then drop it. A relation therefore has no
truth value: asking for it raises and says how to spell what was meant.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn, SupportsFloat, SupportsIndex, TypeAlias, Union

from durometer.core.errors import DurometerError

NEGATED = {"<=": ">", ">": "<=", "<": ">=", ">=": "<", "==": "!=", "!=": "=="}
_SPELLING = (
    "write & for 'and', | for 'or', ~ for 'not' (each side in parentheses), "
    "(0 <= F.a) & (F.a <= F.b) for a chain, implies(A, B) for if-then, "
    "F.a.isin([...]) for 'in', minimum(...) and maximum(...) for min and max"
)


# What stands beside an operator: an expression, a number, or the label of a category.
Operand: TypeAlias = Union["Expr", SupportsFloat, SupportsIndex, str]


class Expr:
    """A number computed from a record: a column, a constant, or arithmetic on them."""

    __hash__ = object.__hash__

    def __add__(self, other: Operand) -> Expr:
        return _sum([self, expr(other)])

    def __radd__(self, other: Operand) -> Expr:
        started = isinstance(other, int) and other == 0  # sum([...]) starts from 0
        return self if started else _sum([expr(other), self])

    def __sub__(self, other: Operand) -> Expr:
        return _sum([self, -expr(other)])

    def __rsub__(self, other: Operand) -> Expr:
        return _sum([expr(other), -self])

    def __neg__(self) -> Expr:
        if isinstance(self, Op) and self.op == "neg":
            return self.args[0]
        if isinstance(self, Const) and isinstance(self.value, str):
            raise DurometerError(
                f"-{self.value!r}: a label has no negative; labels are compared by =="
            )
        return Const(-self.value) if isinstance(self, Const) else Op("neg", (self,))

    def __pos__(self) -> Expr:
        return self

    def __mul__(self, other: Operand) -> Expr:
        return Op("*", (self, expr(other)))

    def __rmul__(self, other: Operand) -> Expr:
        return Op("*", (expr(other), self))

    def __truediv__(self, other: Operand) -> Expr:
        return Op("/", (self, expr(other)))

    def __rtruediv__(self, other: Operand) -> Expr:
        return Op("/", (expr(other), self))

    def __pow__(self, other: Operand) -> Expr:
        return Op("**", (self, expr(other)))

    def __rpow__(self, other: Operand) -> Expr:
        return Op("**", (expr(other), self))

    def __mod__(self, other: Operand) -> Expr:
        return Op("%", (self, expr(other)))

    def __rmod__(self, other: Operand) -> Expr:
        return Op("%", (expr(other), self))

    def __abs__(self) -> Expr:
        return Op("abs", (self,))

    def __floor__(self) -> Expr:
        return Op("floor", (self,))

    def __le__(self, other: Operand) -> Relation:
        return Compare("<=", self, expr(other))

    def __lt__(self, other: Operand) -> Relation:
        return Compare("<", self, expr(other))

    def __ge__(self, other: Operand) -> Relation:
        return Compare(">=", self, expr(other))

    def __gt__(self, other: Operand) -> Relation:
        return Compare(">", self, expr(other))

    def __eq__(self, other: Operand) -> Relation:  # type: ignore[override]
        return Compare("==", self, label(other))

    def __ne__(self, other: Operand) -> Relation:  # type: ignore[override]
        return Compare("!=", self, label(other))

    def isin(self, values: Iterable[Operand]) -> Relation:
        """The value is one of these (numbers, category labels, or expressions)."""
        if isinstance(values, str):
            raise DurometerError(f"isin({values!r}): expected a list of values, got one string")
        members = tuple(label(v) for v in values)
        if not members:
            raise DurometerError(f"{self}.isin([]): no value is allowed, so no row can satisfy it")
        return In(self, members)

    def __bool__(self) -> NoReturn:
        raise DurometerError(f"'{self}' has no truth value; {_SPELLING}")

    def __and__(self, other: object) -> NoReturn:
        raise DurometerError(
            f"'{self} & {other}': & binds tighter than <= in Python; put parentheses around each "
            "relation: (F.a <= F.b) & (F.c <= F.d)"
        )

    __or__ = __rand__ = __ror__ = __and__

    def __invert__(self) -> NoReturn:
        raise DurometerError(
            f"'~{self}': ~ negates a relation, not a number; for a flag write F.a == 0"
        )

    def __iter__(self) -> Iterator[Expr]:
        raise DurometerError(f"'{self}' is one number, not a list; sum([F.a, F.b]) takes a list")

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A number or, compared with a category, a label."""

    value: Any

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        number = float(self.value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


@dataclass(frozen=True, eq=False, repr=False)
class Column(Expr):
    """The value of a feature in the record, or in the record before any attack (`clean`)."""

    name: str
    clean: bool = False

    @property
    def original(self) -> Column:
        """The feature's value in the record as it was before the attack."""
        return replace(self, clean=True)

    def __str__(self) -> str:
        plain = self.name.isidentifier() and self.name.isascii() and self.name not in RESERVED
        return (self.name if plain else f"`{self.name}`") + (".original" if self.clean else "")


@dataclass(frozen=True, eq=False, repr=False)
class Op(Expr):
    """Arithmetic: neg + * / ** % abs min max log floor, `divide` and `log` with a fill value."""

    op: str
    args: tuple[Expr, ...]

    def __str__(self) -> str:
        if self.op == "+":
            first, *rest = self.args
            return _wrap(first, 1) + "".join(
                f" - {_wrap(a.args[0], 2)}"
                if isinstance(a, Op) and a.op == "neg"
                else f" - {-a}"
                if _negative(a)
                else f" + {_wrap(a, 2)}"
                for a in rest
            )
        if self.op == "neg":
            return f"-{_wrap(self.args[0], 3)}"
        if self.op == "**":
            return f"{_wrap(self.args[0], 5)} ** {_wrap(self.args[1], 4)}"
        if self.op in _RANK:
            left, right = self.args
            return f"{_wrap(left, 2)} {self.op} {_wrap(right, 3)}"
        return f"{self.op}({', '.join(str(a) for a in self.args)})"


class Relation:
    """Holds for a record or does not. Join with &, |, ~; two are == if spelt alike.

    >>> from durometer import F, relations
    >>> str(~(F.a <= F.b))
    'a > b'
    """

    def __and__(self, other: object) -> Relation:
        return _join(And, self, other)

    def __or__(self, other: object) -> Relation:
        return _join(Or, self, other)

    def __invert__(self) -> Relation:
        raise DurometerError(f"cannot negate {self!s}")

    def __bool__(self) -> NoReturn:
        raise DurometerError(f"relation '{self}' has no truth value; {_SPELLING}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Relation):
            return str(self) == str(other)
        return self._chained(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def _chained(self, other: object) -> NoReturn:
        raise DurometerError(f"relation '{self}' compared with '{other}'; {_SPELLING}")

    __le__ = __lt__ = __ge__ = __gt__ = _chained

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False, repr=False)
class Compare(Relation):
    """left op right. `tolerance` (raw units) replaces the space's own, for this relation."""

    op: str
    left: Expr
    right: Expr
    tolerance: float | None = None

    def __invert__(self) -> Relation:
        return replace(self, op=NEGATED[self.op])

    def within(self, tolerance: float) -> Compare:
        """The same comparison, allowed to be off by this much in the feature's units."""
        if not tolerance >= 0:
            raise DurometerError(f"within({tolerance}): expected a number >= 0")
        return replace(self, tolerance=float(tolerance))

    def __str__(self) -> str:
        slack = "" if self.tolerance is None else f" within {Const(self.tolerance)}"
        return f"{self.left} {self.op} {self.right}{slack}"


@dataclass(frozen=True, eq=False, repr=False)
class In(Relation):
    """The value is (or with `negated`, is not) one of a few."""

    item: Expr
    values: tuple[Expr, ...]
    negated: bool = False

    def __invert__(self) -> Relation:
        return replace(self, negated=not self.negated)

    def __str__(self) -> str:
        members = ", ".join(str(v) for v in self.values)
        return f"{self.item} {'not ' if self.negated else ''}in {{{members}}}"


@dataclass(frozen=True, eq=False, repr=False)
class And(Relation):
    """All parts hold."""

    operands: tuple[Relation, ...]

    def __invert__(self) -> Relation:
        return Or(tuple(~p for p in self.operands))

    def __str__(self) -> str:
        return " and ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.operands)


@dataclass(frozen=True, eq=False, repr=False)
class Or(Relation):
    """At least one part holds."""

    operands: tuple[Relation, ...]

    def __invert__(self) -> Relation:
        return And(tuple(~p for p in self.operands))

    def __str__(self) -> str:
        return " or ".join(f"({p})" if isinstance(p, And) else str(p) for p in self.operands)


_RANK = {"+": 1, "*": 2, "/": 2, "%": 2, "neg": 3, "**": 4}


def _negative(e: Expr) -> bool:
    return isinstance(e, Const) and not isinstance(e.value, str) and float(e.value) < 0


def _wrap(e: Expr, rank: int) -> str:
    """Parentheses where the text form needs them to be read back as the same tree."""
    own = _RANK.get(e.op, 9) if isinstance(e, Op) else 3 if _negative(e) else 9
    return f"({e})" if own < rank else str(e)


def _sum(terms: list[Expr]) -> Expr:
    first, *rest = terms
    head = first.args if isinstance(first, Op) and first.op == "+" else (first,)
    return Op("+", (*head, *rest))


def _join(kind: type[And] | type[Or], left: Relation, right: object) -> Relation:
    other = relation(right)
    operands = left.operands if isinstance(left, kind) else (left,)
    return kind((*operands, *(other.operands if isinstance(other, kind) else (other,))))


def label(value: Operand) -> Expr:
    """As `expr`, and a string is the label of a category."""
    return Const(value) if isinstance(value, str) else expr(value)


def expr(value: Operand) -> Expr:
    """A number or expression as an expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Relation):
        raise DurometerError(f"relation '{value}' is no number; write count(relation) for 0 or 1")
    try:
        return Const(operator.index(value) if isinstance(value, SupportsIndex) else float(value))
    except (TypeError, ValueError):
        raise DurometerError(f"{value!r}: expected a number or a feature F.name") from None


def relation(value: object) -> Relation:
    """Check that something is a relation; a plain bool is what Python makes of a lost half."""
    if isinstance(value, Relation):
        return value
    raise DurometerError(f"{value!r} where a relation was expected; {_SPELLING}")


@dataclass(frozen=True, eq=False, repr=False)
class Count(Expr):
    """How many of these relations hold."""

    operands: tuple[Relation, ...]

    def __str__(self) -> str:
        return f"count({', '.join(str(p) for p in self.operands)})"


@dataclass(frozen=True, eq=False, repr=False)
class Where(Expr):
    """One value where a relation holds, another where it does not."""

    test: Relation
    yes: Expr
    no: Expr

    def __str__(self) -> str:
        return f"({self.yes} if {self.test} else {self.no})"


def columns(node: Expr | Relation) -> Iterator[Column]:
    """The columns it reads, those of the original record included, as often as they stand there."""
    return (e for e in walk(node) if isinstance(e, Column))


def changing(node: Expr | Relation) -> set[str]:
    """Names of the columns whose present value it reads."""
    return {c.name for c in columns(node) if not c.clean}


def walk(node: Expr | Relation) -> Iterator[Expr | Relation]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def children(node: Expr | Relation) -> tuple[Expr | Relation, ...]:
    """The nodes directly below."""
    match node:
        case Op():
            return node.args
        case Count() | And() | Or():
            return node.operands
        case Where():
            return (node.test, node.yes, node.no)
        case Compare():
            return (node.left, node.right)
        case In():
            return (node.item, *node.values)
    return ()


# Functions of the language: the fewest and the most values they take (0: any number).
FUNCTIONS = {"abs": (1, 1), "floor": (1, 1), "log": (1, 2), "divide": (3, 3), "fill": (2, 2),
             "min": (1, 0), "max": (1, 0), "sum": (1, 0), "count": (1, 0)}  # fmt: skip
# Words of the language: a column of such a name is written in quotes.
RESERVED = frozenset(
    {"if", "then", "else", "and", "or", "not", "in", "within", "original", *FUNCTIONS}
)
