"""Relations as constraints: the valid satisfy the outer form, the inner form makes valid."""

import numpy as np
import pytest
import torch

import durometer as du
from durometer.proofs.search.constraint import ABSOLUTE, LINEAR, LOG, SQUARE
from durometer.proofs.search.expressions import Expressions
from durometer.proofs.search.separable import Separable

FEATURES = [
    du.Feature("a", "real", 0.0, 0.3),
    du.Feature("b", "real", 0.05, 0.4),
    du.Feature("c", "real", 0.5, 4.0),
    du.Feature("m", "integer", 0, 5),
    du.Feature("n", "integer", 1, 4),
    du.Feature("fixed", "real", 0.0, 3.0, mutable=False),
]
RELATIONS = [
    "a + 2 * b <= 0.6",
    "b * c <= 0.8",
    "b / c >= 0.1",
    "b * n == 0.3 within 0.05",
    "count(a > 0.1, b > 0.1, m > 2) <= 1",
    "count(a > 0.1, b > 0.1) == 0 or c > 2",
    "count(m == 0, n == 1) >= 1 or a <= 0.1",
    "if m > 2 then a + b <= 0.3",
    "m != 3",
    "m in {0, 2, 5}",
    "m < n",
    "a * fixed <= 0.2",
    "c <= c.original + 0.5 or m == 0",
    "a > 0.05",
    "2 * m + n == 7",
]


def value(term, x):
    """(n,) one term at points (n, d), by the outer and by the inner sets."""
    v = x[:, term.feature]
    if term.phi == LINEAR:
        return term.a * v, term.a * v
    if term.phi == LOG:
        return term.a * np.log(v), term.a * np.log(v)
    assert term.phi not in (ABSOLUTE, SQUARE)
    low, high, low_in, high_in = np.moveaxis(term.sets, 2, 0)
    outer = ((low <= v[:, None]) & (v[:, None] <= high)).any(1)
    inner = ((low_in <= v[:, None]) & (v[:, None] <= high_in)).any(1)
    return np.where(outer, 0.0, term.a), np.where(inner, 0.0, term.a)


@pytest.mark.parametrize("text", RELATIONS)
@pytest.mark.parametrize("tolerance", [1e-6, 0.05])
def test_valid_points_meet_the_outer_form_and_the_inner_form_makes_valid(text, tolerance):
    schema = du.Schema(FEATURES, [text])
    rng = np.random.default_rng(len(text))
    rows = 4000

    def draw():
        x = np.stack([rng.uniform(f.low, f.high, rows) for f in FEATURES], axis=1)
        for i, f in enumerate(FEATURES):
            if f.kind == "integer":
                x[:, i] = np.round(x[:, i])
        return x

    x0, x = draw(), draw()
    x[:, 5] = x0[:, 5]
    low = np.tile([f.low for f in FEATURES], (rows, 1))
    high = np.tile([float(f.high) for f in FEATURES], (rows, 1))
    low[:, 5] = high[:, 5] = x0[:, 5]
    around = Expressions(schema.layout, x0, low.astype(float), high, tolerance)
    constraints, complete = Separable(around).read(schema.relations)
    assert complete.all() and constraints
    outer = inner = np.ones(rows, dtype=bool)
    for c in constraints:
        sums = [value(t, x) for t in c.terms]
        outer = outer & (sum(s[0] for s in sums) <= c.outer)
        inner = inner & (sum(s[1] for s in sums) <= c.inner)
    valid = schema.program.valid(torch.from_numpy(x), torch.from_numpy(x0), tolerance).numpy()
    assert valid.any() and not valid.all()
    assert not (valid & ~outer).any()
    assert not (inner & ~valid).any()
