"""Enumerate and Linear against all valid records of small tables, made by plain loops."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.oracles.brute import records

import durometer as du

RNG = np.random.default_rng(0)
NAMES = "abcd"
NUMBERS = [list(range(9))] * 4
RULES = {
    "none": ([], lambda g: np.ones(len(g), bool)),
    "sum": (["a + b == c + d"], lambda g: g[:, 0] + g[:, 1] == g[:, 2] + g[:, 3]),
    "order": (["a <= b", "c < d"], lambda g: (g[:, 0] <= g[:, 1]) & (g[:, 2] < g[:, 3])),
    "implies": (["if a > 0 then b > 0"], lambda g: ~(g[:, 0] > 0) | (g[:, 1] > 0)),
    "product": (["a * b <= 20"], lambda g: g[:, 0] * g[:, 1] <= 20),
    "squares": (
        ["a**2 + b**2 == c**2 + d**2"],
        lambda g: g[:, 0] ** 2 + g[:, 1] ** 2 == g[:, 2] ** 2 + g[:, 3] ** 2,
    ),
}


def table(rule, n=12):
    text, check = RULES[rule]
    schema = du.Schema([du.Feature(c, "integer", 0, 8) for c in NAMES], text)
    grid = np.array(np.meshgrid(*NUMBERS)).reshape(4, -1).T.astype(float)
    grid = grid[check(grid)]
    x = grid[RNG.permutation(len(grid))[: 200 + n]]
    y = (x @ [1.0, -0.7, 0.4, -1.2] + 0.3 * x[:, 0] * x[:, 3] + RNG.normal(0, 1, len(x)) > 4) * 1
    return schema, check, x, y


def mixed(n=12):
    """A category, a one-hot group and two numbers."""
    features = [
        du.Feature("k", "category", values=("u", "v", "w")),
        du.Feature("a", "integer", 0, 6), du.Feature("b", "integer", 0, 6),
        *(du.Feature(c, "boolean", group="g") for c in ("p", "q", "r")),
    ]  # fmt: skip
    schema = du.Schema(features, ["if k == 'u' then a <= 4"])
    x = np.stack([RNG.integers(0, 3, 400), RNG.integers(0, 7, 400), RNG.integers(0, 7, 400),
                  *np.eye(3)[RNG.integers(0, 3, 400)].T], 1).astype(float)  # fmt: skip
    x = x[(x[:, 0] != 0) | (x[:, 1] <= 4)][: 200 + n]
    y = (x @ [1.5, 0.6, -0.8, 2.0, 0.0, -1.0] + RNG.normal(0, 1, len(x)) > 1) * 1
    return schema, x, y


def truth(model, x, values, kinds, eps, p, rule, groups=()):
    """Broken by some valid record (or wrong already)?"""
    found = []
    for row, answer in zip(x, model.predict(x), strict=True):
        near = records(row, values, kinds, eps, p, rule, groups)
        found.append((model.predict(near) != answer).any())
    return np.array(found)


def verdicts(model, schema, x, eps, p, attack):
    data = du.Dataset(torch.from_numpy(x), model.predict(x).astype(int), schema=schema)
    return du.evaluate(model, data, space=schema.space(eps=eps, p=p), attack=attack, progress=False)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("eps", "p"), [(0.3, math.inf), (0.4, 2), (0.6, 1), (2, 0)])
def test_both_agree_with_all_records_of_a_table_of_whole_numbers(rule, eps, p):
    schema, check, x, y = table(rule)
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(x[12:], y[12:])
    broken = truth(linear, x[:12], NUMBERS, ["number"] * 4, eps, p, check)
    for attack in (du.Enumerate(), du.Linear()):
        table_ = verdicts(linear, schema, x[:12], eps, p, attack).table
        assert not ((table_["verdict"] == "proven") & broken).any()
        assert not ((table_["verdict"] == "broken") & ~broken).any()
        if isinstance(attack, du.Enumerate) or rule not in ("product", "squares"):
            assert (table_["verdict"] != "open").all(), (attack, table_["verdict"].tolist())


@pytest.mark.parametrize(
    ("eps", "p"), [(0.4, 2), (1.5, 2), (2.4, 1), (1, 0), (2, 0), (0.4, math.inf)]
)
def test_both_agree_in_a_table_of_categories_and_groups(eps, p):
    schema, x, y = mixed()
    values = [[0, 1, 2], list(range(7)), list(range(7)), [0, 1], [0, 1], [0, 1]]
    kinds = ["category", "number", "number", *["member"] * 3]

    def rule(g):
        return (g[:, 0] != 0) | (g[:, 1] <= 4)

    linear = LogisticRegression(C=10, max_iter=2000).fit(x[12:], y[12:])
    other = MLPClassifier((8,), max_iter=400, random_state=0).fit(x[12:], y[12:])
    for model, proofs in ((linear, (du.Enumerate(), du.Linear())), (other, (du.Enumerate(),))):
        broken = truth(model, x[:12], values, kinds, eps, p, rule, [(3, 4, 5)])
        for attack in proofs:
            table_ = verdicts(model, schema, x[:12], eps, p, attack).table
            assert (table_["verdict"] == np.where(broken, "broken", "proven")).all(), attack


def test_a_space_that_cannot_be_counted_stays_open():
    schema = du.Schema([du.Feature("a", "real", 0, 8), du.Feature("b", "integer", 0, 8)])
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    model = LogisticRegression().fit(np.array([[0, 0], [8, 8]]), [0, 1])
    assert (verdicts(model, schema, x, 0.3, 2, du.Enumerate()).table["verdict"] == "open").all()
    few = du.Schema([du.Feature(c, "integer", 0, 99) for c in "ab"])
    report = verdicts(model, few, x, 0.3, 2, du.Enumerate(most=100))
    assert (report.table["verdict"] == "open").all()


def test_an_answer_that_is_not_finite_proves_nothing():
    schema = du.Schema([du.Feature("a", "integer", 0, 8)])

    def model(x):
        return torch.where(x[:, :1] == 5, torch.nan, torch.tensor([[1.0, 0.0]], dtype=x.dtype))

    x = torch.tensor([[4.0], [1.0]], dtype=torch.float64)
    report = du.evaluate(model, du.Dataset(x, [0, 0]), space=schema.space(eps=0.2, p=2),
                         attack=du.Enumerate())  # fmt: skip
    assert report.table["verdict"].tolist() == ["open", "proven"]
