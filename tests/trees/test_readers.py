"""Every reading agrees with its library on and beside thresholds, and with treelite where that
reads it too."""

import catboost
import lightgbm as lgb
import numpy as np
import pytest
import treelite
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from durometer.core.errors import DurometerError, Unsupported
from durometer.trees import read
from durometer.trees.agreement import check, labels, probes, raw_scores
from durometer.trees.ensemble import effective

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(400, 5)), 1)  # one decimal: where float32 and float64 part
SCORE = X[:, 0] + X[:, 1] * X[:, 2]
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
QUIET = {"verbose": 0, "allow_writing_files": False}

MODELS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=0),
    "forest": lambda: RandomForestClassifier(20, random_state=0),
    "tiny forest": lambda: RandomForestClassifier(4, random_state=0),
    "extra": lambda: ExtraTreesClassifier(10, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=15, random_state=0),
    "hist": lambda: HistGradientBoostingClassifier(max_iter=15),
    "xgboost": lambda: xgb.XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1),
    "dart": lambda: xgb.XGBClassifier(
        n_estimators=15, max_depth=4, booster="dart", rate_drop=0.3, n_jobs=1
    ),
    "lightgbm": lambda: lgb.LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1),
    "lightgbm rf": lambda: lgb.LGBMClassifier(
        n_estimators=9,
        boosting_type="rf",
        bagging_freq=1,
        bagging_fraction=0.6,
        verbose=-1,
        n_jobs=1,
    ),
    "catboost": lambda: catboost.CatBoostClassifier(iterations=15, thread_count=1, **QUIET),
    "catboost lossguide": lambda: catboost.CatBoostClassifier(
        iterations=15, grow_policy="Lossguide", thread_count=1, **QUIET
    ),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_reading_agrees_on_adversarial_rows(name: str, classes: int) -> None:
    y = np.digitize(SCORE, [-0.5, 0.5] if classes == 3 else [0.0])
    model = MODELS[name]().fit(X, y)
    ensemble = read(model, checked=False)
    check(ensemble, model, rows=6000, seed=1)
    assert ensemble.n_classes == classes


@pytest.mark.parametrize("name", ["tree", "forest", "hist", "xgboost", "lightgbm", "catboost"])
def test_missing_values_follow_the_default_direction(name: str) -> None:
    model = MODELS[name]().fit(HOLES, (SCORE > 0).astype(int))
    ensemble = read(model, checked=False)
    x = probes(ensemble, 6000, np.random.default_rng(2))
    assert np.isnan(x).any()
    wrong = (ensemble.predict(x) != labels(ensemble, model, x)) & ~ensemble.near_tie(x)
    assert not wrong.any()


def test_categorical_splits_of_lightgbm_and_xgboost() -> None:
    import pandas as pd

    x = X.copy()
    x[:, 3] = RNG.integers(0, 8, len(x))
    y = ((x[:, 3] % 3 == 1) ^ (x[:, 0] > 0)).astype(int)
    frame = pd.DataFrame(x, columns=list("abcde"))
    frame["d"] = pd.Categorical(x[:, 3].astype(int))
    for model in (
        lgb.LGBMClassifier(
            n_estimators=15, verbose=-1, min_data_per_group=5, cat_smooth=1, n_jobs=1
        ),
        xgb.XGBClassifier(n_estimators=15, enable_categorical=True, max_cat_to_onehot=2, n_jobs=1),
    ):
        model.fit(frame, y)
        ensemble = read(model)
        inside = frame.sample(200, random_state=0)
        rows = inside.astype(float).to_numpy()
        assert (ensemble.predict(rows) == np.asarray(model.predict(inside))).all()


def test_treelite_gives_the_same_scores() -> None:
    y = (SCORE > 0).astype(int)
    rows = X[:100].astype(np.float32)
    boosted = MODELS["xgboost"]().fit(X, y)
    oracle = treelite.gtil.predict(
        treelite.frontend.from_xgboost(boosted.get_booster()), rows, pred_margin=True
    )
    np.testing.assert_allclose(read(boosted).scores(rows)[:, 0], oracle.reshape(-1), atol=1e-5)
    forest = MODELS["forest"]().fit(X, y)
    oracle = treelite.gtil.predict(treelite.sklearn.import_model(forest), rows).reshape(100, -1)
    ours = read(forest).scores(rows) / 20
    np.testing.assert_allclose(ours[:, -1], oracle[:, -1], atol=1e-6)


@given(
    st.floats(-1e30, 1e30),
    st.sampled_from(["<=", "<"]),
    st.sampled_from(["float32", "float64"]),
    st.integers(-3, 3),
)
def test_effective_threshold_is_the_same_test(
    t: float, operator: str, precision: str, steps: int
) -> None:
    kind = np.dtype(precision).type
    raw = kind(t) if precision == "float32" and operator == "<" else np.float64(t)
    border = effective(float(raw), operator, precision)[0]
    x = border
    for _ in range(abs(steps)):
        x = np.nextafter(x, np.inf if steps > 0 else -np.inf)
    rounded = kind(x)
    theirs = rounded <= raw if operator == "<=" else rounded < raw
    assert bool(x <= border) == bool(theirs)


def test_refusals_name_what_is_read() -> None:
    with pytest.raises(Unsupported, match="RandomForest"):
        read(LogisticRegression())
    with pytest.raises(DurometerError, match="not fitted"):
        read(RandomForestClassifier())
    with pytest.raises(Unsupported, match="init"):
        y = (SCORE > 0).astype(int)
        read(GradientBoostingClassifier(n_estimators=2, init=LogisticRegression()).fit(X, y))
    with pytest.raises(Unsupported, match="categorical"):
        read(
            HistGradientBoostingClassifier(max_iter=2, categorical_features=[3]).fit(
                np.abs(X), (SCORE > 0).astype(int)
            )
        )


def test_a_wrong_reading_is_not_trusted() -> None:
    from dataclasses import replace

    model = MODELS["xgboost"]().fit(X, (SCORE > 0).astype(int))
    good = read(model)
    with pytest.raises(Unsupported, match="disagrees"):
        check(
            replace(
                good,
                threshold=np.nextafter(
                    good.threshold.astype(np.float32), np.float32(np.inf)
                ).astype(float),
            ),
            model,
        )


def test_a_sentinel_goes_where_a_missing_value_goes() -> None:
    y = (SCORE > 0).astype(int)
    for mark in (-999.0, 0.0):
        x = np.where(np.isnan(HOLES), mark, HOLES)
        model = xgb.XGBClassifier(n_estimators=15, max_depth=4, missing=mark, n_jobs=1).fit(x, y)
        ensemble = read(model)
        assert (ensemble.predict(x) == model.predict(x)).all()
        rows = x.astype(np.float32)
        margin = model.predict(rows, output_margin=True)
        assert (ensemble.scores(rows)[:, 0] == margin).all()
        assert (ensemble.predict(HOLES) == model.predict(HOLES)).all()


def test_linear_leaves_are_refused() -> None:
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=(300, 3))
        model = lgb.LGBMClassifier(n_estimators=20, linear_tree=True, verbose=-1, n_jobs=1)
        with pytest.raises(Unsupported, match="linear_tree"):
            read(model.fit(x, (x[:, 0] + x[:, 1] > 0).astype(int)))


def test_a_forest_adds_its_leaves_as_they_are_stored() -> None:
    """Cells of small forests tie; one unit in the last place decides them."""
    cells = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 4, size=(18, 3)).astype(float)
        y = np.arange(18) % 3
        forest = RandomForestClassifier(3 + 4 * (seed % 2), max_depth=2, random_state=seed)
        ensemble = read(forest.fit(x, y))
        rows = np.stack(np.meshgrid(*[np.arange(-0.75, 4, 0.5)] * 3), axis=-1).reshape(-1, 3)
        assert (ensemble.scores(rows) / ensemble.n_trees == forest.predict_proba(rows)).all()
        assert (ensemble.decide(rows) == forest.predict(rows)).all()
        cells += int(ensemble.near_tie(rows).sum())
    assert cells > 100  # there were ties to decide


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("how", [{}, {"base_score": 0.3}, {"booster": "dart", "rate_drop": 0.3}])
def test_margins_of_xgboost_are_equal_bit_for_bit(how: dict[str, object], classes: int) -> None:
    y = np.digitize(SCORE, [-0.5, 0.5] if classes == 3 else [0.0])
    model = xgb.XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1, **how).fit(X, y)
    ensemble = read(model)
    rows = np.random.default_rng(3).normal(size=(4000, 5)).astype(np.float32)
    assert (ensemble.scores(rows) == raw_scores(ensemble, model, rows)).all()


def test_lightgbm_categories_are_read_with_code_zero_and_missing_codes() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = np.stack([rng.integers(0, 6, 600), rng.normal(size=600)], axis=1)
        y = ((rng.random(6) < 0.5)[x[:, 0].astype(int)] ^ (x[:, 1] > 1)).astype(int)
        y[:2] = 0, 1
        model = lgb.LGBMClassifier(
            n_estimators=30, verbose=-1, min_data_per_group=5, cat_smooth=1, n_jobs=1
        ).fit(x, y, categorical_feature=[0])
        ensemble = read(model)
        odd = np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 5.9, 6.0, 40.0, np.nan])
        rows = np.stack([np.repeat(odd, 20), np.tile(np.linspace(-2, 2, 20), 9)], axis=1)
        np.testing.assert_allclose(
            ensemble.scores(rows)[:, 0], model.predict(rows, raw_score=True), atol=1e-12
        )


def test_scores_are_compared_and_not_labels() -> None:
    """A reading whose labels agree on every probe is refused if its scores do not."""
    from dataclasses import replace

    model = MODELS["boosting"]().fit(X, (SCORE > 0).astype(int))
    good = read(model)
    almost = replace(good, value=good.value * (1 + 1e-9))
    x = probes(almost, 2000, np.random.default_rng(0))
    assert (almost.predict(x) == labels(almost, model, x)).all()
    with pytest.raises(Unsupported, match="disagrees"):
        check(almost, model)
