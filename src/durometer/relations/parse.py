"""Relations as text: what stands in a TOML file, read by a recursive-descent parser (no `eval`).

    open_acc <= total_acc                       0 <= a < b <= 10          term in {36, 60}
    if ip > 0 then ratio_digits > 0             not (a > 0 and b > 0)     purpose == 'car'
    ratio == divide(pub_rec, months, -1)        rate == a / b within 0.01
    `any name` >= `any name`.original           count(a > 0, b > 0) <= 1
    x == (a / b if b != 0 else 0)

What a reader would get wrong: parentheses may hold a number or a relation, and which one is known
only at the end. So everything is parsed by one ladder of precedences and each operator checks what
kind it was given; that keeps parsing linear and lets the message say what was found.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NoReturn

from durometer.core.errors import DurometerError, nearest
from durometer.relations.expression import (
    FUNCTIONS,
    RESERVED,
    And,
    Column,
    Compare,
    Const,
    Expr,
    In,
    Op,
    Relation,
    Where,
)
from durometer.relations.language import count, implies

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*|`[^`]+`)"
    r"|(?P<label>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<op>\*\*|<=|>=|==|!=|[-+*/%(){}\[\],.<>≤≥≠])"
    r"|(?P<bad>\S))"
)
_COMPARE = {"<": "<", "<=": "<=", "==": "==", "!=": "!=", ">=": ">=", ">": ">",
            "≤": "<=", "≥": ">=", "≠": "!="}  # fmt: skip
_HINTS = {"=": "write == for equality", "&": "write 'and'", "|": "write 'or'", "~": "write 'not'",
          "!": "write 'not', or != for unequal", "^": "write ** for powers"}  # fmt: skip
_DEEPEST = 50
_FACTORS = 100  # each is a level of the tree that is made of it
_SHOWN = 400  # characters of a relation in a message


def relation(text: str) -> Relation:
    """The relation a text describes.

    >>> relation("if ip > 0 then 0 < digits <= 1")
    ip <= 0 or (0 < digits and digits <= 1)
    """
    parser = _Parser(text, list(_tokens(text)))
    node = parser.anything()
    if parser.kind != "end":
        parser.fail(f"unexpected '{parser.text}'")
    return parser.relation(node)


def expression(text: str) -> Expr:
    """The number a text describes."""
    parser = _Parser(text, list(_tokens(text)))
    node = parser.anything()
    if parser.kind != "end":
        parser.fail(f"unexpected '{parser.text}'")
    return parser.number(node)


def _tokens(source: str) -> list[tuple[str, str, int]]:
    if not isinstance(source, str):
        raise DurometerError(f"relation {source!r}: expected text")
    found, place = [], 0
    source = source.rstrip()
    while place < len(source):
        match = _TOKEN.match(source, place)
        assert match is not None  # the last alternative takes any character
        kind = str(match.lastgroup)
        found.append((kind, match[kind], match.start(kind)))
        place = match.end()
    return [*found, ("end", "the end", len(source))]


@dataclass
class _Parser:
    source: str
    tokens: list[tuple[str, str, int]]
    at: int = 0
    depth: int = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    def fail(self, what: str) -> NoReturn:
        kind, text, place = self.tokens[self.at]
        hint = f"; {_HINTS[text]}" if kind == "bad" and text in _HINTS else ""
        source = self.source
        if len(source) > _SHOWN:
            start = max(0, place - _SHOWN // 2)
            source = f"... {source[start : start + _SHOWN]} ..."
        raise DurometerError(f"relation '{source}', at character {place + 1}: {what}{hint}")

    def take(self, *options: str) -> str | None:
        """Step over the next token if it is one of these words or signs."""
        if self.kind in ("name", "op") and self.text in options:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            self.fail(f"expected '{sign}', found '{self.text}'")

    def relation(self, node: Expr | Relation) -> Relation:
        if isinstance(node, Relation):
            return node
        self.fail(f"'{node}' is a number, expected a relation such as '{node} > 0'")

    def number(self, node: Expr | Relation) -> Expr:
        if isinstance(node, Expr):
            return node
        self.fail(f"'{node}' is a relation, expected a number; count({node}) makes it 0 or 1")

    def anything(self) -> Expr | Relation:
        """if A then B [else C] | value if A else value | or."""
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail(f"nested more than {_DEEPEST} deep")
        if self.take("if"):
            premise = self.relation(self.either())
            self.expect("then")
            node: Expr | Relation = implies(premise, self.relation(self.anything()))
            if self.take("else"):
                node = self.relation(node) & implies(~premise, self.relation(self.anything()))
        else:
            node = self.either()
            if self.take("if"):
                test = self.relation(self.either())
                self.expect("else")
                node = Where(test, self.number(node), self.number(self.anything()))
        self.depth -= 1
        return node

    def either(self) -> Expr | Relation:
        node = self.both()
        while self.take("or"):
            node = self.relation(node) | self.relation(self.both())
        return node

    def both(self) -> Expr | Relation:
        node = self.negation()
        while self.take("and"):
            node = self.relation(node) & self.relation(self.negation())
        return node

    def negation(self) -> Expr | Relation:
        turns = 0
        while self.take("not"):
            turns += 1
        node = self.comparison()
        for _ in range(turns):
            node = ~self.relation(node)
        return node

    def comparison(self) -> Expr | Relation:
        node = self.sum()
        operands: list[Relation] = []
        while self.kind == "op" and self.text in _COMPARE:
            sign = _COMPARE[self.text]
            self.at += 1
            left, right = self.number(node), self.number(self.sum())
            if sign not in ("==", "!=") and any(_is_label(e) for e in (left, right)):
                self.fail("labels have no order; compare them by == or != or 'in'")
            operands.append(Compare(sign, left, right))
            node = right
        if operands:
            if self.take("within"):
                slack = self.literal()
                operands = [p.within(slack) for p in operands if isinstance(p, Compare)]
            return operands[0] if len(operands) == 1 else And(tuple(operands))
        negated = self.tokens[self.at][1] == "not" and self.tokens[self.at + 1][1] == "in"
        self.at += negated
        if self.take("in"):
            return In(self.number(node), self.members(), negated)
        return node

    def members(self) -> tuple[Expr, ...]:
        opening = self.take("{", "[", "(")
        if opening is None:
            self.fail(f"expected a list {{a, b}} after 'in', found '{self.text}'")
        values = [self.number(self.sum())]
        while self.take(","):
            values.append(self.number(self.sum()))
        self.expect({"{": "}", "[": "]", "(": ")"}[opening])
        return tuple(values)

    def literal(self) -> float:
        if self.kind != "number":
            self.fail(f"expected a number, found '{self.text}'")
        self.at += 1
        return float(self.tokens[self.at - 1][1])

    def sum(self) -> Expr | Relation:
        node = self.product()
        while sign := self.take("+", "-"):
            other = self.number(self.product())
            node = self.number(node) + other if sign == "+" else self.number(node) - other
        return node

    def product(self) -> Expr | Relation:
        node, factors = self.sign(), 1
        while sign := self.take("*", "/", "%"):
            factors += 1
            if factors > _FACTORS:
                self.fail(f"a product of more than {_FACTORS} factors")
            node = Op(sign, (self.number(node), self.number(self.sign())))
        return node

    def sign(self) -> Expr | Relation:
        negative = False
        while sign := self.take("-", "+"):
            negative ^= sign == "-"
        node = self.power()
        return -self.number(node) if negative else node

    def power(self) -> Expr | Relation:
        node = self.atom()
        if self.take("**"):
            self.depth += 1  # a ** b ** c is a ** (b ** c)
            if self.depth > _DEEPEST:
                self.fail(f"nested more than {_DEEPEST} deep")
            node = Op("**", (self.number(node), self.number(self.sign())))
            self.depth -= 1
        return node

    def atom(self) -> Expr | Relation:
        kind, text, _ = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            if float(text) == math.inf:
                self.at -= 1
                self.fail("a number larger than any that can be computed with (1.8e308)")
            return Const(int(text) if text.isdigit() else float(text))
        if kind == "label":
            return Const(re.sub(r"\\(.)", r"\1", text[1:-1]))
        if kind == "op" and text == "(":
            node = self.anything()
            self.expect(")")
            return node
        if kind == "name" and self.kind == "op" and self.text == "(":
            return self.call(text)
        if kind == "name" and text not in RESERVED:
            return self.column(text.strip("`"))
        self.at -= 1
        self.fail(f"expected a number, a feature or '(', found '{text}'")

    def column(self, name: str) -> Expr:
        if self.take("."):
            if not self.take("original"):
                self.fail(
                    f"after '{name}.' expected 'original'; names with dots go in `backquotes`"
                )
            return Column(name, clean=True)
        return Column(name)

    def call(self, name: str) -> Expr:
        if name not in FUNCTIONS:
            self.at -= 1
            self.fail(f"no function '{name}'{nearest(name, FUNCTIONS)}")
        self.expect("(")
        args = [self.anything()]
        while self.take(","):
            args.append(self.anything())
        self.expect(")")
        fewest, most = FUNCTIONS[name]
        if len(args) < fewest or (most and len(args) > most):
            self.fail(f"{name}() takes {most} value(s), got {len(args)}")
        if name == "count":
            return count(*[self.relation(a) for a in args])
        numbers = tuple(self.number(a) for a in args)
        if name == "sum":
            return numbers[0] if len(numbers) == 1 else Op("+", numbers)
        return Op(name, numbers)


def _is_label(e: Expr) -> bool:
    return isinstance(e, Const) and isinstance(e.value, str)
