"""Equalities that no formula solves: what is repaired holds, and most that could be is."""

import numpy as np
import pytest
import torch
from tests.oracles.brute import records
from xgboost import XGBClassifier

import durometer as du


def repaired(features, text, x):
    schema = du.Schema(features, [text])
    space = schema.space(eps=0.5, p=2)
    low, high = schema.bounds(x)
    return schema, *space.plan(x, x, low, high, 1e-6)


WHOLE = [du.Feature(c, "integer", 0, 12) for c in "abcd"]
REAL = [du.Feature(c, "real", -2, 2) for c in "ab"]


def test_sums_of_squares_of_whole_numbers_are_repaired_by_one_or_two_of_them():
    x = torch.from_numpy(np.random.default_rng(0).integers(0, 13, (400, 4)).astype(float))
    _, out, fine = repaired(WHOLE, "a**2 + b**2 == c**2 + d**2", x)
    squares = out.numpy() ** 2
    holds = squares[:, 0] + squares[:, 1] == squares[:, 2] + squares[:, 3]
    assert (holds == fine.numpy()).all() and holds.mean() > 0.35
    assert (out == out.round()).all() and (out >= 0).all() and (out <= 12).all()
    assert (((out != x).sum(1) <= 2) | ~fine).all()
    assert torch.equal(out[~fine], x[~fine])


@pytest.mark.parametrize(
    "text", ["a**3 + a == b**3 + 2 * b", "a * a + b * b == 1.5", "a * b == b - a"]
)
def test_reals_are_solved_to_the_relations_own_tolerance(text):
    x = torch.from_numpy(np.random.default_rng(1).uniform(-2, 2, (300, 2)))
    schema, out, fine = repaired(REAL, text, x)
    assert (schema.program.valid(out, x, 1e-6) == fine).all()
    assert fine.double().mean() > 0.6
    assert ((out != x).sum(1) <= 1)[fine].all()  # one of them moves


def test_what_is_immutable_stays_and_what_no_value_solves_is_left():
    features = [du.Feature("a", "integer", 0, 12, mutable=False), *WHOLE[1:]]
    x = torch.tensor([[3.0, 4.0, 5.0, 1.0], [7.0, 11.0, 0.0, 0.0]], dtype=torch.float64)
    _, out, fine = repaired(features, "a**2 + b**2 == c**2 + d**2", x)
    assert out[0].tolist() == [3.0, 4.0, 5.0, 0.0] and fine.tolist() == [True, False]
    assert torch.equal(out[1], x[1])


def test_a_search_misses_no_row_whose_valid_neighbours_are_few():
    rng = np.random.default_rng(3)
    schema = du.Schema(WHOLE, ["a**2 + b**2 == c**2 + d**2"])
    grid = np.array(np.meshgrid(*[range(13)] * 4)).reshape(4, -1).T.astype(float)

    def rule(g):
        return g[:, 0] ** 2 + g[:, 1] ** 2 == g[:, 2] ** 2 + g[:, 3] ** 2

    x = rng.permutation(grid[rule(grid)])
    y = (x @ [1.0, -0.8, 0.6, -0.5] + rng.normal(0, 1, len(x)) > 1).astype(int)
    model = XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1).fit(x[12:], y[12:])
    answer = model.predict(x[:12])
    near = [records(r, [range(13)] * 4, ["number"] * 4, 0.3, 2, rule) for r in x[:12]]
    truth = [(model.predict(g) != a).any() for g, a in zip(near, answer, strict=True)]
    assert 2 <= sum(truth) <= 10
    data = du.Dataset(torch.from_numpy(x[:12]), answer, schema=schema)
    for attack in (du.Graft(600), du.Standard()):
        report = du.evaluate(model, data, space=schema.space(eps=0.3, p=2), attack=attack)
        assert report.table["success"].tolist() == truth, attack
