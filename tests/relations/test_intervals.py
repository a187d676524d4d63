"""One interval evaluator: whatever an expression is within its ranges lies inside, row by row."""

import math

import numpy as np
import pytest

from durometer.relations import expression
from durometer.relations.expression import Column, Const, Op
from durometer.relations.intervals import interval, spans

NAMES = "abc"
EVALUATED = {
    "neg": lambda u: -u,
    "+": lambda u, v: u + v,
    "*": lambda u, v: u * v,
    "/": lambda u, v: u / v,
    "**": lambda u, v: u**v,
    "%": lambda u, v: u - np.floor(u / v) * v,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "floor": np.floor,
    "log": np.log,
}


def drawn(rng, depth):
    """A random expression and what plain numpy makes of it."""
    if depth == 0 or rng.random() < 0.2:
        if rng.random() < 0.3:
            number = float(rng.integers(-3, 4))
            return Const(number), lambda x: np.full(len(x), number)
        i = int(rng.integers(3))
        return Column(NAMES[i]), lambda x: x[:, i]
    op = str(rng.choice(list(EVALUATED)))
    one = op in ("neg", "abs", "floor", "log")
    parts = [drawn(rng, depth - 1) for _ in range(1 if one else 2)]
    return (
        Op(op, tuple(e for e, _ in parts)),
        lambda x: EVALUATED[op](*(value(x) for _, value in parts)),
    )


@pytest.mark.parametrize("seed", range(200))
def test_every_value_lies_within_the_interval(seed):
    rng = np.random.default_rng(seed)
    e, value = drawn(rng, 3)
    ends = np.sort(rng.integers(-4, 5, (2, 3)).astype(float), axis=0)
    low, high = np.stack([ends[0], ends[0]]), np.stack([ends[1], ends[0]])  # the second: a point
    x = ends[0] + rng.random((300, 3)) * (ends[1] - ends[0])
    x = np.concatenate([x, np.round(x), low, high[:1]])
    place = {name: i for i, name in enumerate(NAMES)}
    with np.errstate(all="ignore"):
        values = value(x)
        at_point = value(low[1:])[0]
    values = values[np.isfinite(values)]
    whole = interval(e, {n: (ends[0, i], ends[1, i]) for n, i in place.items()})
    least, most = spans(e, place, low, low, high)
    assert least.shape == most.shape == (2,)
    assert (least[0], most[0]) == whole
    assert (values >= whole[0] - 1e-9 * (1 + abs(values))).all()
    assert (values <= whole[1] + 1e-9 * (1 + abs(values))).all()
    if math.isfinite(at_point):
        assert least[1] - 1e-9 * (1 + abs(at_point)) <= at_point
        assert at_point <= most[1] + 1e-9 * (1 + abs(at_point))


def test_an_original_value_is_known_and_squares_are_not_negative():
    x0, low, high = (np.full((1, 1), v) for v in (2.0, -1.0, 5.0))
    was = expression.Column("a", clean=True)
    least, most = spans(was, {"a": 0}, x0, low, high)
    assert (least[0], most[0]) == (2.0, 2.0)
    assert interval(Op("**", (Column("a"), Const(2.0))), {"a": (-3.0, 2.0)}) == (0.0, 9.0)
    assert interval(Op("*", (Const(0.0), Column("a"))), {"a": (-math.inf, math.inf)}) == (0.0, 0.0)
    assert interval(Op("**", (Const(10.0), Const(400.0))), {}) == (-math.inf, math.inf)
