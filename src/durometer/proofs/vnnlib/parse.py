"""A VNN-LIB file as cases: a box of inputs and linear conditions on the outputs.

Read is the part of the format that the benchmarks use:

    (declare-const X_0 Real)   (declare-const Y_0 Real)
    (assert (<= X_0 0.5))                                   a bound of one input
    (assert (>= Y_1 Y_0))   (assert (<= (+ Y_0 (* 2.0 Y_1)) 3.0))
    (assert (or (and (<= X_0 0.1) (>= Y_1 Y_0)) (and ...)))

The assertions together describe a counterexample. They are multiplied out into cases: a point is a
counterexample where one case holds with all its conditions. Everything else is refused by name.

What a reader would get wrong: numbers are kept as exact fractions, because a condition that holds
by rounding only is none; and nothing here calls itself, because files come from strangers and
brackets can be nested without end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from durometer.core.errors import DurometerError, Unsupported

MOST_BYTES = 64 * 2**20
MOST_CASES = 10_000
MOST_CONDITIONS = 1_000_000  # in all cases together
MOST_OUTPUTS = 100_000
DEEPEST = 64
_LONGEST = 60  # characters of a number: more digits than any type has
_TOKEN = re.compile(r"[()]|[^\s()]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_VARIABLE = re.compile(r"([XY])_(0|[1-9]\d{0,8})")
_KNOWN = "bounds of single inputs and linear conditions on outputs, joined by and / or"

Expression = str | list["Expression"]


@dataclass(frozen=True)
class Condition:
    """sum(weights[j] * Y_j) <= limit."""

    weights: tuple[tuple[int, Fraction], ...]
    limit: Fraction

    def holds(self, y: list[Fraction]) -> bool:
        """Whether outputs meet it, exactly."""
        return sum((w * y[j] for j, w in self.weights), Fraction(0)) <= self.limit


@dataclass(frozen=True)
class Case:
    """A box, and conditions that must all hold."""

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    conditions: tuple[Condition, ...]

    @property
    def empty(self) -> bool:
        """Is there no input in the box?"""
        return any(a > b for a, b in zip(self.low, self.high, strict=True))


@dataclass(frozen=True)
class Property:
    """What a file asks: is there an input for which one of the cases holds?"""

    inputs: int
    outputs: int
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class _Bound:
    """One side of one input."""

    at: int
    value: Fraction
    upper: bool


_Atom = _Bound | Condition


@dataclass
class _Node:
    """An `and` or `or` whose parts are still being read."""

    kind: str
    parts: list[Expression]
    cases: list[tuple[_Atom, ...]] = field(default_factory=list)
    at: int = 0


def read(path: Path) -> Property:
    """The property in a file.

    Args:
        path: The file.

    Raises:
        DurometerError: There is no such file, or it is no VNN-LIB.
        Unsupported: It asks for something other than boxes and linear conditions on outputs.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Unsupported(f"'{path}': more than {MOST_BYTES // 2**20} MB")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DurometerError(f"'{path}' cannot be read as text: {error}") from None
    return parse(text, str(path))


def parse(text: str, name: str = "the property") -> Property:
    """The property in a text.

    Args:
        text: The text.
        name: What messages call it.
    """
    declared: dict[str, set[int]] = {"X": set(), "Y": set()}
    common: list[_Atom] = []  # of all cases
    every: list[tuple[_Atom, ...]] = [()]
    for line, command in _commands(text, name):
        where = f"{name}, line {line}"
        head = command[0] if command and isinstance(command[0], str) else "()"
        if head == "declare-const" and len(command) == 3 and command[2] == "Real":
            kind, at = _variable(command[1], where)
            declared[kind].add(at)
        elif head == "declare-const":
            raise Unsupported(f"{where}: only (declare-const X_0 Real) and Y_0 are read")
        elif head == "assert" and len(command) == 2:
            found = _cases(command[1], where)
            if len(found) == 1:
                common += found[0]
            else:
                every = _product(every, found, where)
        else:
            raise Unsupported(f"{where}: '{_short(head)}'; read are declare-const and assert")
    for kind, there in declared.items():
        if not there or max(there) != len(there) - 1:
            raise DurometerError(f"{name}: {kind}_0, {kind}_1, ... are not declared without gaps")
    if len(declared["Y"]) > MOST_OUTPUTS:
        raise Unsupported(f"{name}: more than {MOST_OUTPUTS:,} outputs")
    sizes = len(declared["X"]), len(declared["Y"])
    box = _Box([None] * sizes[0], [None] * sizes[0], [])
    box.add(common, sizes[1], name)
    if (sizes[0] + len(box.conditions)) * len(every) > 4 * MOST_CONDITIONS:
        raise Unsupported(f"{name}: {len(every):,} cases of {sizes[0]:,} inputs")
    cases = []
    for atoms in every:
        own = _Box(list(box.low), list(box.high), list(box.conditions))
        own.add(atoms, sizes[1], name)
        cases.append(own.case(name))
    return Property(*sizes, tuple(cases))


def _commands(text: str, name: str) -> Iterator[tuple[int, list[Expression]]]:
    """The expressions of a text, with their lines."""
    stack: list[list[Expression]] = []
    begun = 0
    for number, raw in enumerate(text.splitlines(), 1):
        for token in _TOKEN.findall(raw.split(";", 1)[0]):
            if token == "(":
                begun = begun if stack else number
                if len(stack) >= DEEPEST:
                    raise Unsupported(f"{name}, line {number}: more than {DEEPEST} brackets deep")
                stack.append([])
            elif not stack:
                raise DurometerError(f"{name}, line {number}: '{_short(token)}' outside brackets")
            elif token == ")":
                done = stack.pop()
                if stack:
                    stack[-1].append(done)
                else:
                    yield begun, done
            else:
                stack[-1].append(token)
    if stack:
        raise DurometerError(f"{name}: the bracket of line {begun} is never closed")


def _cases(expression: Expression, where: str) -> list[tuple[_Atom, ...]]:
    """An assertion multiplied out: any of the cases, and of a case all atoms."""
    stack: list[_Node] = [_Node("and", [expression], [()])]
    while True:
        node = stack[-1]
        if node.at == len(node.parts):
            stack.pop()
            if not stack:
                return node.cases
            _join(stack[-1], node.cases, where)
            continue
        part = node.parts[node.at]
        node.at += 1
        if isinstance(part, list) and part and part[0] in ("and", "or"):
            stack.append(_Node(str(part[0]), part[1:], [()] if part[0] == "and" else []))
        else:
            _join(node, [(_atom(part, where),)], where)


def _join(node: _Node, cases: list[tuple[_Atom, ...]], where: str) -> None:
    """Take over the cases of a part."""
    if node.kind == "or":
        node.cases.extend(cases)
    else:
        node.cases = _product(node.cases, cases, where)
    _limited(len(node.cases), 0, where)


def _product(
    first: list[tuple[_Atom, ...]], second: list[tuple[_Atom, ...]], where: str
) -> list[tuple[_Atom, ...]]:
    sizes = [sum(len(c) for c in cases) for cases in (first, second)]
    _limited(len(first) * len(second), sizes[0] * len(second) + sizes[1] * len(first), where)
    return [a + b for a in first for b in second]


def _limited(cases: int, atoms: int, where: str) -> None:
    if cases > MOST_CASES or atoms > MOST_CONDITIONS:
        raise Unsupported(
            f"{where}: multiplied out these are more than {MOST_CASES:,} cases or "
            f"{MOST_CONDITIONS:,} conditions"
        )


def _atom(expression: Expression, where: str) -> _Atom:
    """A comparison of two terms."""
    if not (isinstance(expression, list) and expression and isinstance(expression[0], str)):
        raise Unsupported(
            f"{where}: '{_short(str(expression))}' is no condition; read are {_KNOWN}"
        )
    head = expression[0]
    if head not in ("<=", ">="):
        raise Unsupported(f"{where}: the operator '{_short(head)}'; read are {_KNOWN}")
    if len(expression) != 3:
        raise DurometerError(f"{where}: '{head}' compares two terms, not {len(expression) - 1}")
    left, right = (_linear(e, where) for e in expression[1:])
    if head == ">=":
        left, right = right, left
    total = dict(left)  # left - right <= 0
    for name, value in right.items():
        total[name] = total.get(name, Fraction(0)) - value
    limit = -total.pop("", Fraction(0))
    total = {name: value for name, value in total.items() if value}
    kinds = {name[0] for name in total}
    if kinds == {"X"} and len(total) == 1:
        ((name, weight),) = total.items()
        return _Bound(int(name[2:]), limit / weight, weight > 0)
    if "X" in kinds:
        raise Unsupported(f"{where}: a condition on several inputs, or on inputs and outputs")
    return Condition(tuple(sorted((int(n[2:]), v) for n, v in total.items())), limit)


def _linear(expression: Expression, where: str) -> dict[str, Fraction]:
    """A linear term: weights by variable; "" is the constant."""
    total: dict[str, Fraction] = {}
    stack: list[tuple[Expression, Fraction]] = [(expression, Fraction(1))]
    while stack:
        term, factor = stack.pop()
        if isinstance(term, str):
            name, value = _leaf(term, where)
            total[name] = total.get(name, Fraction(0)) + factor * value
            continue
        head = term[0] if term and isinstance(term[0], str) else "()"
        rest = term[1:]
        if head == "+" and rest:
            stack += [(t, factor) for t in rest]
        elif head == "-" and len(rest) == 1:
            stack.append((rest[0], -factor))
        elif head == "-" and rest:
            stack += [(rest[0], factor), *((t, -factor) for t in rest[1:])]
        elif head == "*" and len(rest) == 2:
            known = [_constant(t) for t in rest]
            if known[0] is None and known[1] is None:
                raise Unsupported(f"{where}: a product of two terms that vary")
            at = 0 if known[0] is not None else 1
            scale = known[at]
            stack.append((rest[1 - at], factor * (scale if scale is not None else 1)))
        else:
            raise Unsupported(f"{where}: the term '{_short(head)}'; read are numbers, +, - and *")
    return total


def _constant(term: Expression) -> Fraction | None:
    """A number, also as (- 3.0); None: something else."""
    if isinstance(term, list) and len(term) == 2 and term[0] == "-" and isinstance(term[1], str):
        value = _constant(term[1])
        return None if value is None else -value
    known = isinstance(term, str) and len(term) <= _LONGEST and _NUMBER.fullmatch(term)
    return Fraction(str(term)) if known else None


def _leaf(term: str, where: str) -> tuple[str, Fraction]:
    value = _constant(term)
    if value is not None:
        return "", value
    kind, at = _variable(term, where)
    return f"{kind}_{at}", Fraction(1)


def _variable(term: Expression, where: str) -> tuple[str, int]:
    found = _VARIABLE.fullmatch(term) if isinstance(term, str) else None
    if found is None:
        raise Unsupported(f"{where}: '{_short(str(term))}' is no number, X_0, X_1, ... or Y_0, ...")
    return found[1], int(found[2])


@dataclass
class _Box:
    """The narrowest bounds so far, and the conditions."""

    low: list[Fraction | None]
    high: list[Fraction | None]
    conditions: list[Condition]

    def add(self, atoms: Sequence[_Atom], outputs: int, name: str) -> None:
        """All these hold, too."""
        for atom in atoms:
            if isinstance(atom, Condition):
                if atom.weights and atom.weights[-1][0] >= outputs:
                    raise DurometerError(f"{name}: Y_{atom.weights[-1][0]} is not declared")
                self.conditions.append(atom)
                continue
            if atom.at >= len(self.low):
                raise DurometerError(f"{name}: X_{atom.at} is not declared")
            side = self.high if atom.upper else self.low
            held = side[atom.at]
            if held is None or (atom.value < held if atom.upper else atom.value > held):
                side[atom.at] = atom.value

    def case(self, name: str) -> Case:
        """A case whose inputs all have both bounds."""
        below = [v for v in self.low if v is not None]
        above = [v for v in self.high if v is not None]
        if len(below) < len(self.low) or len(above) < len(self.high):
            sides = ((self.low, "lower"), (self.high, "upper"))
            at, word = next((v.index(None), w) for v, w in sides if None in v)
            raise Unsupported(f"{name}: X_{at} has no {word} bound; inputs must lie in a box")
        return Case(tuple(below), tuple(above), tuple(self.conditions))


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
