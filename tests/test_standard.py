"""What `evaluate` plays unless told otherwise: the right proof for each model, then the attack."""

import numpy as np
import pytest
import torch
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from tests.oracles.brute import records

import durometer as du

X = torch.rand(120, 4, generator=torch.Generator().manual_seed(3)).double()
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).long()
DATA = du.Dataset(X[:40], Y[:40])
SCHEMA = du.Schema([du.Feature(c, "real", 0, 1) for c in "abcd"], ["a <= b + 0.9"])


class Cut(torch.nn.Module):
    """No gradient comes back."""

    def forward(self, x):
        v = (x[:, 0] + x[:, 1] * x[:, 2] - 0.8).detach()
        return torch.stack([-v, v], 1)


def test_a_module_without_gradients_gets_the_search():
    for space, winner in ((du.Linf(0.1), "Square"), (SCHEMA.space(eps=0.2), "Graft")):
        report = du.evaluate(Cut(), DATA, space=space, progress=False)
        assert set(report.table.loc[report.table["success"], "winner"]) == {winner}


@pytest.mark.parametrize("space", [du.Linf(0.05), SCHEMA.space(eps=0.1)], ids=str)
def test_trees_and_linear_models_are_answered_exactly(space):
    for model, proof in (
        (xgboost.XGBClassifier(n_estimators=20, max_depth=3), "Exact"),
        (RandomForestClassifier(10, max_depth=4, random_state=0), "Exact"),
        (LogisticRegression(C=30), "Linear"),
    ):
        model.fit(X.numpy(), Y.numpy())
        report = du.evaluate(model, DATA, space=space, progress=False)
        assert report.metric("open").value == 0 and report.metric("proven").value > 0.2
        assert report.metric("proven").value == report.metric("robust").value
        assert proof in report.stages["stage"].tolist()


def test_a_network_is_certified_first_and_attacked_where_that_fails():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    adam = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(200):
        loss = torch.nn.functional.cross_entropy(net(X.float()), Y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    space = SCHEMA.space(eps=0.1)
    both = du.evaluate(net, DATA, space=space, progress=False)
    alone = du.evaluate(net, DATA, space=space, attack=du.Standard(proofs=False), progress=False)
    assert both.table["success"].tolist() == alone.table["success"].tolist()
    assert both.metric("open").value <= 0.05
    proven = both.table["verdict"] == "proven"
    assert both.table.loc[proven, "forwards"].max() < alone.table.loc[proven, "forwards"].min()


def test_without_proofs_the_attack_is_the_same_and_nothing_is_proven():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    table = SCHEMA.space(eps=0.2)
    data = du.Dataset(X[:40], net(X[:40].float()).argmax(1))
    for model, space, attack in (
        (net, du.Linf(0.1), du.Cascade()),
        (net, table, du.CAA(du.Then(du.CAPGD(), du.TablePGD()), du.Graft())),
        (Cut(), du.Linf(0.1), du.Square()),
        (Cut(), table, du.Graft()),
    ):
        known = data if model is net else DATA
        alone, given = (
            du.evaluate(model, known, space=space, attack=a, progress=False)
            for a in (du.Standard(proofs=False), attack)
        )
        same = ["success", "winner", "distance", "forwards", "backwards", "verdict"]
        assert alone.table[same].equals(given.table[same])
        assert alone.metric("proven").value == 0


RULES = {
    "none": ([], lambda g: np.ones(len(g), bool)),
    "sum": (["a + b == c + d"], lambda g: g[:, 0] + g[:, 1] == g[:, 2] + g[:, 3]),
    "product": (["c == min(12, a * b)"], lambda g: g[:, 2] == np.minimum(12, g[:, 0] * g[:, 1])),
    "squares": (
        ["a**2 + b**2 == c**2 + d**2"],
        lambda g: g[:, 0] ** 2 + g[:, 1] ** 2 == g[:, 2] ** 2 + g[:, 3] ** 2,
    ),
    "parity": (["(a + b) % 2 == 0"], lambda g: (g[:, 0] + g[:, 1]) % 2 == 0),
}


@pytest.mark.parametrize("rule", RULES)
def test_no_attackable_row_is_missed_in_a_small_table(rule):
    """Whole numbers 0..12 in five columns, L2 0.22: the default finds every attackable row."""
    text, check = RULES[rule]
    rng = np.random.default_rng(5)
    schema = du.Schema([du.Feature(c, "integer", 0, 12) for c in "abcde"], text)
    grid = rng.integers(0, 13, (300_000, 5)).astype(float)
    x = grid[check(grid)][:400]
    y = (x[:, 0] - 0.8 * x[:, 1] + 0.5 * x[:, 2] - x[:, 4] + rng.normal(0, 1, len(x)) > 0) * 1
    values = [list(range(13))] * 5
    for model in (xgboost.XGBClassifier(n_estimators=30, max_depth=4),
                  MLPClassifier((12,), max_iter=300, random_state=0)):  # fmt: skip
        model.fit(x, y)
        rows = x[:12]
        answer = model.predict(rows)
        report = du.evaluate(model, du.Dataset(torch.from_numpy(rows), answer, schema=schema),
                             space=schema.space(eps=0.22), progress=False)  # fmt: skip
        for row, was, verdict in zip(rows, answer, report.table["verdict"], strict=True):
            near = [[v for v in vs if abs(v - c) <= 3] for vs, c in zip(values, row, strict=True)]
            box = np.array(np.meshgrid(*near)).reshape(5, -1).T
            far = np.sqrt((((box - row) / 12) ** 2).sum(1))
            box = box[(far <= 0.22 * (1 + 1e-9)) & check(box)]
            truth = "broken" if (model.predict(box) != was).any() else "proven"
            assert verdict == truth


@pytest.mark.parametrize(("eps", "p"), [(1, 0), (2, 0), (1.5, 2), (2.2, 1)])
def test_no_attackable_row_is_missed_with_categories_and_groups(eps, p):
    rng = np.random.default_rng(6)
    schema = du.Schema(
        [
            du.Feature("k", "category", values=("u", "v", "w")),
            du.Feature("a", "integer", 0, 6),
            du.Feature("b", "integer", 0, 6),
            *(du.Feature(c, "boolean", group="g") for c in ("p", "q", "r")),
        ]
    )
    x = np.stack([rng.integers(0, 3, 300), rng.integers(0, 7, 300), rng.integers(0, 7, 300),
                  *np.eye(3)[rng.integers(0, 3, 300)].T], 1).astype(float)  # fmt: skip
    y = ((x[:, 0] == 1) * 3 + x[:, 1] - x[:, 2] + 2 * x[:, 3] > 2) * 1
    values = [[0, 1, 2], list(range(7)), list(range(7)), [0, 1], [0, 1], [0, 1]]
    kinds = ["category", "number", "number", *["member"] * 3]
    for model in (xgboost.XGBClassifier(n_estimators=20, max_depth=3),
                  MLPClassifier((12,), max_iter=300, random_state=0)):  # fmt: skip
        model.fit(x, y)
        answer = model.predict(x[:20])
        report = du.evaluate(model, du.Dataset(torch.from_numpy(x[:20]), answer, schema=schema),
                             space=schema.space(eps=eps, p=p), progress=False)  # fmt: skip
        for row, was, verdict in zip(x, answer, report.table["verdict"], strict=False):
            near = records(row, values, kinds, eps, p, lambda g: np.ones(len(g), bool), [(3, 4, 5)])
            assert verdict == ("broken" if (model.predict(near) != was).any() else "proven")


def test_trees_behind_a_function_are_searched_without_being_asked_for():
    """Whatever wrapped the trees: what is found is found in the forest itself."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (200, 3))
    forest = RandomForestClassifier(8, max_depth=4, random_state=0).fit(x, x[:, 0] + x[:, 1] > 10)
    schema = du.Schema([du.Feature(n, low=0, high=10) for n in "abc"])
    data = du.Dataset(x[:12], forest.predict(x[:12]).astype(int), schema=schema)
    asked = {"space": schema.space(eps=0.1), "progress": False}
    exact = du.evaluate(forest, data, **asked).table
    hidden = du.wrap(lambda rows: forest.predict_proba(rows), answers="probabilities")
    found = du.evaluate(hidden, data, **asked)
    assert set(found.table["winner"]) == {"Graft", ""}
    won = found.table["success"].to_numpy()
    assert won.any() and not (won & (exact["verdict"] == "proven").to_numpy()).any()
    assert (forest.predict(found.adversarial[won]).astype(int) != data.y.numpy()[won]).all()
