"""What harden cannot do it says before the first fit, in a sentence."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.training.hardening.cases import rows
from xgboost import XGBClassifier

import durometer as du

DATA = rows(200)
X, Y = DATA.x.numpy(), DATA.y.numpy()
SPACE = du.Linf(0.05)


def harden(model, data=DATA, space=SPACE, goal=None, **how):
    return du.training.harden(model, data, space, goal, **{"rounds": 1, "progress": False} | how)


@pytest.fixture(scope="module")
def model():
    return XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, Y)


class NoWeights(RandomForestClassifier):
    def fit(self, x, y):
        return super().fit(x, y)


@pytest.mark.parametrize(
    ("estimator", "said"),
    [
        (NoWeights(3, max_depth=2, random_state=0), "takes no sample_weight"),
        (KNeighborsClassifier(), "takes no sample_weight"),
        (GaussianNB(), "tree"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_an_estimator_that_cannot_be_refitted_or_read(estimator, said):
    with pytest.raises(du.Unsupported, match=said):
        harden(estimator.fit(X, Y))


def test_rows_of_one_class_have_nothing_to_be_told_from(model):
    with pytest.raises(du.DurometerError, match="all .* rows are of class 1"):
        harden(model, DATA.take(DATA.y == 1))


def test_more_classes_in_the_data_than_the_model_has(model):
    data = du.Dataset(X, np.arange(len(X)) % 3, classes=("a", "b", "c"))
    with pytest.raises(du.DurometerError, match=r"y holds class 2, but the model has classes"):
        harden(model, data)


@pytest.mark.parametrize("space", [None, 0.05, du.Linf], ids=["nothing", "a number", "a maker"])
def test_what_is_no_space(model, space):
    with pytest.raises(du.DurometerError, match="space"):
        harden(model, space=space)


def test_a_frame_or_images_in_the_place_of_a_table(model):
    with pytest.raises(du.DurometerError, match=r"expected du.Dataset"):
        harden(model, pd.DataFrame(X))
    with pytest.raises(du.DurometerError, match="a table is"):
        harden(model, du.Dataset(torch.rand(20, 1, 4, 4), [0, 1] * 10))


def test_a_quota_is_about_rows_together(model):
    with pytest.raises(du.Unsupported, match="quota"):
        harden(model, goal=du.Quota(k=1, sources=[0], targets=[1]))


@pytest.mark.parametrize(
    "wrong",
    [{"max_loss": -0.1}, {"min_proven": 2.0}, {"max_vacuous": -1.0}, {"rounds": 1.5},
     {"free": 0.1}, {"free": (0.1, 7)}, {"most": 0}, {"judged": 0}, {"seconds": 0.0}],
    ids=str,
)  # fmt: skip
def test_a_setting_out_of_range_is_named(model, wrong):
    (name,) = wrong
    with pytest.raises(du.DurometerError, match=rf"harden\({name}="):
        harden(model, **wrong)


def test_a_wrapped_model_is_that_model(model):
    assert isinstance(harden(du.wrap(model, name="loans")).model, XGBClassifier)


def test_a_pipeline_of_one_step_and_what_else_a_pipeline_was_told(tmp_path):
    forest = RandomForestClassifier(3, max_depth=2, random_state=0)
    assert isinstance(harden(make_pipeline(forest).fit(X, Y)).model[0], RandomForestClassifier)
    steps = [("scale", StandardScaler()), ("trees", forest)]
    kept = Pipeline(steps, memory=str(tmp_path)).fit(X, Y)
    hardened = harden(kept).model
    assert hardened.memory == str(tmp_path) and list(hardened.named_steps) == ["scale", "trees"]
    assert kept.named_steps["trees"] is not hardened.named_steps["trees"]


def test_a_model_that_is_robust_already_comes_back_without_a_reproach():
    y = np.arange(300) % 2
    x = np.stack([0.1 + 0.8 * y, np.random.default_rng(0).random(300)], axis=1)
    model = RandomForestClassifier(4, max_depth=2, max_features=None, random_state=0).fit(x, y)
    hardened = harden(model, du.Dataset(x, y), rounds=2)
    assert hardened.path[0].proven == 1.0 and hardened.chosen == 0
    assert "no round proved more" in str(hardened) and "price" not in str(hardened)


def test_a_handful_of_held_out_rows_is_said_to_be_one(model):
    hardened = harden(model, DATA.sample(25))
    assert hardened.rows == 5
    assert any("only 5 held-out rows" in note for note in hardened.notes())


def test_a_model_fitted_on_a_frame_still_takes_the_frame():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(frame, Y)
    hardened = harden(model, du.Dataset(frame, Y)).model
    assert (hardened.predict(frame) == hardened.predict(X)).all()
    assert list(hardened.feature_names_in_) == ["a", "b", "c"]
