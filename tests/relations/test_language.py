"""The constraint language: Python's traps, the text form, and errors that say what to write."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.oracles.rules import holds

import durometer as du
from durometer.core.errors import DurometerError
from durometer.relations import parse
from durometer.relations.expression import FUNCTIONS
from durometer.relations.language import F, count, divide, implies, log, maximum, minimum, where
from durometer.verification import judge


@pytest.mark.parametrize(
    "trap",
    [
        lambda: 0 <= F.a <= F.b,
        lambda: (F.a <= F.b) and (F.b <= F.c),
        lambda: (F.a <= F.b) or (F.b <= F.c),
        lambda: not (F.a <= F.b),
        lambda: bool(F.a),
        lambda: 1 if F.a > 0 else 2,
        lambda: F.a <= F.b & F.c <= F.d,
        lambda: (F.a <= F.b) <= F.c,
        lambda: (F.a <= F.b) == F.c,
        lambda: min(F.a, F.b),
        lambda: F.a in [1, 2],
        lambda: (F.a <= F.b) & True,
        lambda: F.a + (F.b <= F.c),
        lambda: ~F.a,
        lambda: implies(True, F.a > 0),
        lambda: F.a.isin([]),
        lambda: F.a.isin("abc"),
        lambda: F.a + "x",
        lambda: sum(F.a),
    ],
)
def test_python_traps_raise_instead_of_losing_half(trap):
    with pytest.raises(
        DurometerError, match=r"write|expected|parentheses|negates|list|used as|no value"
    ):
        trap()


def test_the_message_gives_the_right_spelling():
    with pytest.raises(DurometerError, match=r"\(0 <= F.a\) & \(F.a <= F.b\)"):
        bool(0 <= F.a <= F.b)


PAIRS = [
    ("open_acc <= total_acc", F.open_acc <= F.total_acc),
    ("a >= b", F.a >= F.b),
    ("if ip > 0 then ratio > 0", implies(F.ip > 0, F.ratio > 0)),
    ("a >= 0 and a < b", (F.a >= 0) & (F.a < F.b)),
    ("b > a >= 0", (F.b > F.a) & (F.a >= 0)),
    ("a == b * (1 + r) ** t / 2 within 0.01", (F.a == F.b * (1 + F.r) ** F.t / 2).within(0.01)),
    ("term in {36, 60}", F.term.isin([36, 60])),
    ("term not in {36, 60}", ~F.term.isin([36, 60])),
    ("purpose == 'car' or purpose != 'a \\'b\\''", (F.purpose == "car") | (F.purpose != "a 'b'")),
    ("count(a > 0, b > 0) <= 1", count(F.a > 0, F.b > 0) <= 1),
    ("not (a > 0 and b > 0)", ~((F.a > 0) & (F.b > 0))),
    ("x == divide(a, b, -1)", F.x == divide(F.a, F.b, -1)),
    ("x == (a / b if b != 0 else 0)", F.x == where(F.b != 0, F.a / F.b, 0)),
    ("`odd name` >= `odd name`.original - 2", F["odd name"] >= F["odd name"].original - 2),
    ("sum(a, b, c) == d", sum([F.a, F.b, F.c]) == F.d),
    ("max(a, b) - min(a, b) <= abs(c) % 7", maximum(F.a, F.b) - minimum(F.a, F.b) <= abs(F.c) % 7),
    ("log(a, 0) + floor(b) < -c", log(F.a, 0) + du.relations.floor(F.b) < -F.c),
    ("a - (b - c) == 2 * a - 3", F.a - (F.b - F.c) == 2 * F.a - 3),
    ("-a ** 2 <= (-a) ** 2", -(F.a**2) <= (-F.a) ** 2),
    ("a / b / c <= a / (b / c)", F.a / F.b / F.c <= F.a / (F.b / F.c)),
    ("if a > 0 then b > 0 else c > 0", implies(F.a > 0, F.b > 0) & implies(F.a <= 0, F.c > 0)),
    ("a ≤ b", F.a <= F.b),
]


@pytest.mark.parametrize(("text", "python"), PAIRS, ids=[t for t, _ in PAIRS])
def test_text_and_python_agree(text, python):
    assert parse.relation(text) == python
    assert parse.relation(str(python)) == python


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = b", "write =="),
        ("a & b", "write 'and'"),
        ("a", "expected a relation"),
        ("(a <= b) + 1 <= 2", "expected a number"),
        ("a <= ", "expected a number"),
        ("a <= b c", "unexpected 'c'"),
        ("a <= 'x'", "labels have no order"),
        ("sqrt(a) <= 1", "no function 'sqrt'"),
        ("divide(a, b) <= 1", "takes 3"),
        ("a.b <= 1", "backquotes"),
        ("a in 3", "expected a list"),
        ("__import__('os').system('x') <= 1", "no function"),
        ("(" * 500 + "a" + ")" * 500 + " <= 1", "nested"),
        ("", "expected a number"),
        ("if a > 0 b > 0", "expected 'then'"),
    ],
)
def test_bad_text_says_where_and_what(text, message):
    with pytest.raises(DurometerError, match=message.replace("(", r"\(")):
        parse.relation(text)


def test_a_long_sum_is_no_deep_tree():
    total = sum(F[f"f{i}"] for i in range(2000))
    assert len(str(total <= 1)) > 10_000
    assert parse.relation(str(total <= 1)) == (total <= 1)


@pytest.mark.parametrize(
    ("name", "count"),
    [(n, k) for n, (few, most) in FUNCTIONS.items() for k in sorted({few, most or 2})],
)
def test_program_judge_and_oracle_agree_on_every_function(name, count):
    """A function of the language has three evaluators that share no code: one line in each.

    `durometer verify` died of a relation with fill(): the judge did not know it.
    """
    rng = np.random.default_rng(0)
    now, was = rng.choice([-2.0, -0.5, 0.0, 0.5, 1.0, 2.5], (2, 200, 3))
    inner = ["a", "b", "c.original"][:count]
    values = [f"{v} > 0" for v in inner] if name == "count" else inner
    found = parse.relation(f"{name}({', '.join(values)}) <= 0.75")
    features = [du.Feature(column, low=-3, high=3) for column in "abc"]
    schema = du.Schema(features, relations=[found])
    ours = schema.program.holds(torch.from_numpy(now), torch.from_numpy(was))[:, 0].numpy()
    judged = judge.relations_hold([found], features, was, now, 1e-6)
    rows = [[dict(zip("abc", row, strict=True)) for row in x.tolist()] for x in (now, was)]
    truth = [holds(found, *pair) for pair in zip(*rows, strict=True)]
    assert 0 < sum(truth) < len(truth)
    assert ours.tolist() == judged.tolist() == truth
