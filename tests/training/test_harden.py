"""Hardening: every share is what evaluate says, the estimator stays of its kind, proofs hold."""

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import assay as ay
from assay.training.holdout import holdout


def rows(n=900, seed=0):
    """Two features the attacker may move, each alone enough; one that tells less, and stays put."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.random((n, 3))
    x[:, 0] = np.clip(0.47 + 0.06 * y + rng.normal(0, 0.02, n), 0, 1)
    x[:, 1] = np.clip(0.3 + 0.4 * y + rng.normal(0, 0.12, n), 0, 1)
    x[:, 2] = (rng.random(n) < 0.2 + 0.6 * y).astype(float)
    return ay.Dataset(x, y)


MODELS = [
    XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1, random_state=0),
    LGBMClassifier(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1, random_state=0),
    RandomForestClassifier(10, max_depth=4, random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_a_model_of_the_same_kind_with_more_proven(model):
    data, space = rows(), ay.Linf(0.05)
    model.fit(data.x.numpy(), data.y.numpy())
    hardened = ay.training.harden(
        model, data, space, rounds=5, max_loss=0.2, progress=False, seed=1
    )
    assert type(hardened.model) is type(model)
    assert hardened.model.get_params() == model.get_params()
    before, after = hardened.path[0], hardened.path[hardened.chosen]
    assert after.proven > before.proven + 0.05
    assert "0" in hardened.weak
    # The shares are those of an evaluation of the very model on the very rows.
    _, held = holdout(data, 0.25, 1)
    report = ay.evaluate(hardened.model, held, space=space, attack=ay.Exact(), progress=False)
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
    hardened = ay.training.harden(
        model, data, ay.Linf(0.05), ay.Group({1: [0]}), rounds=1, progress=False
    )
    _, held = holdout(data, 0.25, 0)
    assert hardened.attacked == int((held.y == 1).sum())


def test_the_price_chooses_the_round():
    data = rows()
    model = MODELS[0].fit(data.x.numpy(), data.y.numpy())
    how = {"rounds": 3, "progress": False}
    cheap = ay.training.harden(model, data, ay.Linf(0.05), max_loss=0.0, **how)
    free = ay.training.harden(model, data, ay.Linf(0.05), max_loss=None, **how)
    assert cheap.path[cheap.chosen].accuracy >= cheap.path[0].accuracy
    assert free.path[free.chosen].proven == max(r.proven for r in free.path)
    modest = ay.training.harden(model, data, ay.Linf(0.05), min_proven=0.0, **how)
    assert modest.path[modest.chosen].accuracy == max(r.accuracy for r in modest.path)


def test_what_cannot_be_refitted_is_said():
    data = rows(200)
    booster = XGBClassifier(n_estimators=2).fit(data.x.numpy(), data.y.numpy()).get_booster()
    with pytest.raises(ay.Unsupported, match="not its Booster"):
        ay.training.harden(booster, data, ay.Linf(0.05), progress=False)
    with pytest.raises(ay.AssayError, match="rounds=0"):
        ay.training.harden(MODELS[0], data, ay.Linf(0.05), rounds=0)
