"""Hardening: every share is what evaluate says, the estimator stays of its kind, proofs hold."""

import numpy as np
import pytest
import torch
from catboost import CatBoostClassifier
from sklearn.ensemble import RandomForestClassifier
from tests.training.hardening.cases import MODELS, rows
from xgboost import XGBClassifier

import durometer as du
from durometer.training.holdout import holdout
from durometer.trees import read


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_model_of_the_same_kind_with_more_proven(model):
    data, space = rows(), du.Linf(0.05)
    model.fit(data.x.numpy(), data.y.numpy())
    hardened = du.training.harden(
        model, data, space, rounds=5, max_loss=0.2, free=(0.2,), progress=False, seed=1
    )
    assert type(hardened.model) is type(model)
    if not isinstance(model, CatBoostClassifier):  # it keeps its last stage's number of trees
        assert str(hardened.model.get_params()) == str(model.get_params())
    assert read(hardened.model).n_trees == read(model).n_trees
    assert {r.free for r in hardened.path[1:]} == {0.2}
    before, after = hardened.path[0], hardened.path[hardened.chosen]
    assert after.proven > before.proven + 0.05
    assert "0" in hardened.explanation.weak
    # The shares are those of an evaluation of the very model on the very rows.
    _, held = holdout(data, 0.2, 1)
    report = du.evaluate(hardened.model, held, space=space, attack=du.Exact(), progress=False)
    assert report.metric("proven").value == pytest.approx(after.proven)
    assert report.metric("clean").value == pytest.approx(after.accuracy)
    # Ten thousand random points of proven rows, none of which may succeed.
    proven = (report.table["verdict"] == "proven").to_numpy()
    x, y = held.x[torch.from_numpy(proven)].numpy(), held.y.numpy()[proven]
    rng = np.random.default_rng(0)
    for _ in range(10_000 // max(1, len(x)) + 1):
        point = np.clip(x + rng.uniform(-0.05, 0.05, x.shape), 0, 1)
        assert (hardened.model.predict(point) == y).all()


def test_only_the_classes_the_goal_names_are_attacked():
    data = rows()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    hardened = du.training.harden(
        model, data, du.Linf(0.05), du.Group({1: [0]}), rounds=1, progress=False
    )
    _, held = holdout(data, 0.2, 0)
    assert hardened.attacked == int((held.y == 1).sum())


def test_the_price_chooses_the_round():
    data = rows()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    how = {"rounds": 3, "progress": False}
    cheap = du.training.harden(model, data, du.Linf(0.05), max_loss=0.0, **how)
    free = du.training.harden(model, data, du.Linf(0.05), max_loss=None, **how)
    assert cheap.path[cheap.chosen].accuracy >= cheap.path[0].accuracy
    assert free.path[free.chosen].proven == max(r.proven for r in free.path)
    modest = du.training.harden(model, data, du.Linf(0.05), min_proven=0.0, **how)
    assert modest.path[modest.chosen].accuracy == max(r.accuracy for r in modest.path)


def test_what_cannot_be_refitted_is_said():
    data = rows(200)
    booster = XGBClassifier(n_estimators=2).fit(data.x.numpy(), data.y.numpy()).get_booster()
    with pytest.raises(du.Unsupported, match="not its Booster"):
        du.training.harden(booster, data, du.Linf(0.05), progress=False)
    with pytest.raises(du.DurometerError, match="rounds=0"):
        du.training.harden(MODELS[0], data, du.Linf(0.05), rounds=0)


def test_a_kept_part_of_the_trees_never_asks_for_what_moves_freely():
    data = rows()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    hardened = du.training.harden(
        model, data, du.Linf(0.05), free=(0.0,), rounds=2, max_loss=1.0, progress=False
    )
    assert hardened.kept == 2  # the close one is moved for free
    assert 0 in read(model).feature
    assert 0 not in read(hardened.models[1]).feature


def still():
    """The only feature that tells anything is one that nobody can move."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    x = np.stack([np.where(rng.random(600) < 0.1, 1 - y, y), rng.random(600)], axis=1)
    schema = du.Schema([du.Feature("flag", "integer", 0, 1), du.Feature("free", "real", 0, 1)])
    return du.Dataset(x.astype(float), y, schema=schema)


def test_vacuous_robustness_is_flagged_with_the_rule_that_does_as_well():
    data = still()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    space = data.schema.space(eps=0.5, p=2.0)
    hardened = du.training.harden(model, data, space, rounds=2, free=(0.0,), progress=False)
    assert hardened.path[hardened.chosen].vacuous == 1.0
    assert hardened.unmovable.rule == "flag <= 0.5"
    assert hardened.unmovable.rule_accuracy == pytest.approx(
        hardened.path[hardened.chosen].accuracy
    )
    assert "vacuous" in str(hardened) and "nothing was gained" in str(hardened)
    strict = du.training.harden(
        model, data, space, rounds=2, free=(0.0,), max_vacuous=0.9, progress=False
    )
    assert strict.chosen == 0


def test_a_proof_that_leans_on_the_size_of_the_region_is_not_vacuous():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    x = np.stack([y * 0.6 + 0.2, rng.random(400)], axis=1)
    data = du.Dataset(x, y)
    model = RandomForestClassifier(10, max_depth=2, random_state=0).fit(x, y)  # asks at 0.5
    hardened = du.training.harden(model, data, du.Linf(0.05), rounds=1, progress=False)
    assert hardened.path[0].proven == 1.0
    assert hardened.path[0].vacuous == 0.0


def test_relations_that_protect_are_named():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    a = 0.3 + 0.4 * y + rng.normal(0, 0.03, 600)
    schema = du.Schema(
        [du.Feature("a", "real", 0.0, 1.0), du.Feature("b", "real", 0.0, 1.0)], ["a == b"]
    )
    data = du.Dataset(np.stack([a, a], axis=1), y, schema=schema)
    model = RandomForestClassifier(20, max_depth=3, random_state=0)
    model.fit(data.x.numpy(), y)
    hardened = du.training.harden(
        model, data, schema.space(eps=0.1, p=np.inf), rounds=1, progress=False
    )
    assert list(hardened.explanation.protects) == ["a == b"]


def test_a_budget_in_currency_and_a_group_of_classes():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 600)
    x = np.stack([y / 3 + rng.normal(0, 0.05, 600), y / 3 + rng.normal(0, 0.05, 600)], axis=1)
    schema = du.Schema(
        [du.Feature("cheap", "real", -1, 2, cost=1.0), du.Feature("dear", "real", -1, 2, cost=50.0)]
    )
    data = du.Dataset(np.clip(x, -1, 2), y, schema=schema, classes=("low", "middle", "high"))
    model = XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1)
    model.fit(data.x.numpy(), y)
    hardened = du.training.harden(
        model, data, schema.space(cost=0.5), du.Group({"high": ["low", "middle"]}), rounds=4,
        max_loss=0.2, progress=False,
    )  # fmt: skip
    assert hardened.path[hardened.chosen].proven > hardened.path[0].proven + 0.3
    assert hardened.attacked == round(0.2 * int((y == 2).sum()))


def test_the_same_seed_gives_the_same_path():
    data = rows(400)
    model = MODELS[3].fit(data.x.numpy(), data.y.numpy())
    one, two = (
        du.training.harden(model, data, du.Linf(0.05), rounds=3, most=60, progress=False, seed=4)
        for _ in range(2)
    )
    assert one.path == two.path


def test_a_gate_can_require_what_hardening_gives():
    data = rows()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    hardened = du.training.harden(model, data, du.Linf(0.05), max_loss=0.2, rounds=5,
                                  progress=False)  # fmt: skip
    fresh = rows(300, seed=9)
    reports = [
        du.evaluate(m, fresh, space=du.Linf(0.05), progress=False) for m in (model, hardened.model)
    ]
    assert [du.gate(r, "proven >= 0.6").outcome for r in reports] == ["fail", "pass"]


def test_a_page_says_before_and_after(tmp_path):
    data = still()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    hardened = du.training.harden(
        model, data, data.schema.space(eps=0.5, p=2.0), rounds=2, progress=False
    )
    text = hardened.save_page(tmp_path / "hardened.html").read_text()
    for said in ("Before and after", "The line to beat", "flag &lt;= 0.5", "vacuous", "weak by"):
        assert said in text


def test_a_network_is_hardened_in_the_same_loop():
    data = rows(300)
    net = du.training.fresh(
        lambda: torch.nn.Sequential(
            torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        ).double()
    )
    du.training.fit(net, data, du.training.Standard(), epochs=30, rate=0.02)
    hardened = du.training.harden(
        net, data, du.Linf(0.05), rounds=1, most=15, judged=15, max_loss=1.0, progress=False
    )
    assert isinstance(hardened.model, torch.nn.Module) and hardened.model is not net
    assert hardened.path[hardened.chosen].proven >= hardened.path[0].proven
    assert all(r.proven + r.broken + r.open == pytest.approx(1) for r in hardened.path)
