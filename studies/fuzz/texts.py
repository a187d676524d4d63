"""Configurations (TOML), relations and schemas, made odd."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import torch

import durometer as du
from durometer.config import sweep as configs
from durometer.relations import parse
from durometer.tables import files as schemas

EXAMPLES = Path(__file__).parents[2] / "examples"
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 10**400, -(10**30), 0.5, -0.0, 1e308, float("nan")),
    *(float("inf"), "", "a", "8/255", "1/0", "original", "\x00", "x" * 5000, "ü", "=1+1"),
    *([], [1, 2], ["a"], [[1], [2, 3]], {}, {"a": 1}, {"type": "PGD"}, (1, 2), [None], b"ab"),
]
Rng = random.Random


def mangled(text: str, rng: Rng) -> str:
    """A text with a few characters, words or lines moved, doubled, lost or replaced."""
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(7), rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((1, 1, 3, 20)))
        if kind == 0:
            text = text[:at] + text[to:]
        elif kind == 1:
            text = text[:at] + rng.choice("[]{}=\"\n.,0#\\'()<>-\x00é ") + text[at:]
        elif kind == 2:
            text = text[:to] + text[at:to] * rng.choice((1, 2, 60)) + text[to:]
        elif kind == 3:
            words = text.split(" ")
            i, j = rng.randrange(len(words)), rng.randrange(len(words))
            words[i], words[j] = words[j], words[i]
            text = " ".join(words)
        elif kind == 4:
            lines = text.split("\n")
            lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
            text = "\n".join(lines)
        elif kind == 5:
            odd = rng.choice(('"x"', "9" * rng.choice((3, 400, 5000)), "nan", "-inf", "[]", "{}"))
            text = text[:at] + odd + text[to:]
        else:
            text = text[:at]
    return text


def config(rng: Rng) -> str:
    base = rng.choice(sorted(EXAMPLES.glob("*.toml"))).read_text()
    return base if rng.random() < 0.02 else mangled(base, rng)


def play_config(text: str) -> None:
    configs.parse(text, EXAMPLES / "fuzz.toml")


ATOMS = ("a", "b", "c", "`d e`", "a.original", "1", "0.5", "1e9", "'car'", "36", "-2", "k")
SIGNS = ("+", "-", "*", "/", "%", "**", "<", "<=", "==", "!=", ">=", ">", "and", "or", "in", "not")


def sound(rng: Rng) -> str:
    """A relation of the right types: random text alone is refused at its first word."""

    def number(depth: int) -> str:
        kind = rng.randrange(8) if depth else 0
        if kind < 3:
            return rng.choice(("a", "b", "c", "`d e`", "a.original", "1", "0.5", "1e9", "36", "-2"))
        if kind < 6:
            return f"{number(depth - 1)} {rng.choice('+-*/%')} {number(depth - 1)}"
        if kind == 6:
            name, n = rng.choice((("abs", 1), ("floor", 1), ("log", 1), ("min", 2), ("max", 2)))
            return f"{name}({', '.join(number(depth - 1) for _ in range(n))})"
        return f"({number(depth - 1)}) ** {rng.choice((0, 1, 2, 0.5, -1))}"

    def truth(depth: int) -> str:
        kind = rng.randrange(8) if depth else 0
        if kind < 4:
            sign = rng.choice(("<", "<=", "==", "!=", ">=", ">"))
            return f"{number(depth)} {sign} {number(depth)}"
        if kind == 4:
            return f"{truth(depth - 1)} {rng.choice(('and', 'or'))} {truth(depth - 1)}"
        if kind == 5:
            return f"not ({truth(depth - 1)})"
        if kind == 6:
            return f"if {truth(depth - 1)} then {truth(depth - 1)}"
        return rng.choice(("c in {36, 60}", "k == 'car'", "k in {'car', 'bus'}", "b in {1, 2}"))

    return truth(rng.randint(0, 4))


def relation(rng: Rng) -> str:
    if rng.random() < 0.5:
        text = sound(rng)
        return mangled(text, rng) if rng.random() < 0.2 else text

    def some(depth: int) -> str:
        kind = rng.randrange(10) if depth else 0
        if kind < 3:
            return rng.choice(ATOMS)
        if kind < 6:
            return f"{some(depth - 1)} {rng.choice(SIGNS)} {some(depth - 1)}"
        if kind == 6:
            return f"({some(depth - 1)})"
        if kind == 7:
            name = rng.choice(("abs", "floor", "log", "divide", "min", "max", "sum", "count", "f"))
            return f"{name}({', '.join(some(depth - 1) for _ in range(rng.randint(0, 3)))})"
        if kind == 8:
            return f"if {some(depth - 1)} then {some(depth - 1)}"
        return f"{some(depth - 1)} in {{{', '.join(some(0) for _ in range(rng.randint(0, 3)))}}}"

    text = some(rng.randint(1, 5))
    if rng.random() < 0.05:  # long and deep ones
        part = rng.choice(("(", "not ", "-", "a + ", "a ** ", "a < ", "if a > 0 then "))
        text = part * rng.choice((60, 3000)) + text
    return mangled(text, rng) if rng.random() < 0.3 else text


FEATURES = [
    du.Feature("a", "real", 0, 10),
    du.Feature("b", "integer", 0, 10),
    du.Feature("c", "integer", "original", 60),
    du.Feature("d e", "boolean"),
    du.Feature("k", "category", values=("car", "bus")),
]


def play_relation(text: str) -> None:
    made = parse.relation(text)
    schema = du.Schema(FEATURES, [made])
    rows = torch.tensor([[1.0, 2, 36, 0, 0], [0, 0, 0, 1, 1]]).double()
    schema.validate(rows)
    if str(parse.relation(str(made))) != str(made):
        raise AssertionError(f"{made} is read back as {parse.relation(str(made))}")


def schema(rng: Rng) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "t",
        "relations": ["a <= b", "if a > 0 then b > 0"],
        "features": {
            "a": {"kind": "real", "low": 0, "high": 9.5, "unit": "$"},
            "b": {"kind": "integer", "low": "original", "high": 120, "mutable": False},
            "c": {"kind": "category", "values": ["x", "y"]},
            "d": {"kind": "boolean", "group": "g"},
            "e": {"kind": "boolean", "group": "g", "cost": 2.0},
            "f": {"kind": "real", "scale": [0, 1]},
        },
    }
    fields = ("kind", "low", "high", "mutable", "values", "group", "unit", "cost", "scale")
    fields += ("missing", "fill", "hide_cost", "zzz")
    for _ in range(rng.randint(1, 3)):
        odd = rng.choice([*ODD, *ODD, relation(rng), [relation(rng)]])
        if rng.random() < 0.15:
            made[rng.choice(("name", "relations", "features", "zzz"))] = odd
        elif isinstance(made["features"], dict):
            name = rng.choice([*made["features"], "new"])
            table = made["features"].get(name)
            if rng.random() < 0.15 or not isinstance(table, dict):
                made["features"][name] = odd
            else:
                table[rng.choice(fields)] = odd
    return made


def play_schema(content: dict[str, Any]) -> None:
    made = schemas.from_dict(content)
    with tempfile.TemporaryDirectory(prefix="durometer-fuzz-") as folder:
        path = Path(folder) / "schema.toml"
        path.write_text(made.toml(), encoding="utf-8")
        again = du.Schema.read(path)
    if again.names != made.names:
        raise AssertionError("names are lost on the way through a file")
