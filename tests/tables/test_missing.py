"""Missing values: fixed, filled in or left blank, and always as the model itself takes them."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import durometer as du
from durometer import F, Feature, Schema
from durometer.core.errors import DurometerError, Unsupported
from durometer.relations import fill

RNG = np.random.default_rng(0)
N = 200
NAN = float("nan")


def table():
    a, b = RNG.integers(0, 6, N).astype(float), RNG.integers(0, 6, N).astype(float)
    c = RNG.choice(["x", "y", "z"], N).astype(object)
    frame = pd.DataFrame({"a": a, "b": b, "c": c})
    y = ((a + b > 5) ^ (c == "z")).astype(int)
    frame.loc[RNG.random(N) < 0.25, "a"] = np.nan
    frame.loc[RNG.random(N) < 0.25, "c"] = None
    return frame, y


FRAME, Y = table()


def schema(relations=(), **gaps):
    return Schema(
        [
            Feature("a", "integer", 0, 5, missing=True, cost=1.0, **gaps),
            Feature("b", "integer", 0, 5, cost=1.0),
            Feature("c", "category", values=("x", "y", "z"), missing=True, cost=1.0, **gaps),
        ],
        relations,
    )


def xgb(frame, y):
    import xgboost

    return xgboost.XGBClassifier(n_estimators=12, enable_categorical=True).fit(frame, y), frame


def lgbm(frame, y):
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=12, verbose=-1, min_child_samples=4).fit(frame, y)


def models():
    native = FRAME.assign(c=FRAME["c"].astype("category"))
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    text = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder())
    parts = [("n", SimpleImputer(add_indicator=True), ["a", "b"]), ("t", text, ["c"])]
    pipe = make_pipeline(ColumnTransformer(parts), LogisticRegression())
    hist = HistGradientBoostingClassifier(max_iter=12, categorical_features="from_dtype")
    return {
        "xgboost": (xgb(native, Y)[0], native),
        "lightgbm": (lgbm(native, Y), native),
        "hist": (hist.fit(native, Y), native),
        "imputing": (pipe.fit(FRAME, Y), FRAME),
    }


MODELS = models()
STATES = {"fixed": {}, "fill": {"fill": 0.3}, "hide": {"hide": 0.3},
          "both": {"fill": 0.3, "hide": 0.3}}  # fmt: skip


def neighbours(row, state, eps):
    """Every record within eps in L1 of a row, by the rules as documented: the oracle."""
    a, b, c = row
    fill_in, hide = "fill" in STATES[state], "hide" in STATES[state]
    wide = {"a": [*range(6)], "c": [0, 1, 2]}

    def options(value, values, one):
        there = not np.isnan(value)
        for v in values:
            if there:
                yield float(v), one(v, value)
            elif fill_in:
                yield float(v), 0.3
        if there and hide:
            yield NAN, 0.3
        if not there:
            yield NAN, 0.0

    firsts = list(options(a, wide["a"], lambda v, w: abs(v - w) / 5))
    thirds = list(options(c, wide["c"], lambda v, w: 2.0 * (v != w)))
    for (v, dv), w, (u, du_) in itertools.product(firsts, range(6), thirds):
        if dv + abs(w - b) / 5 + du_ <= eps + 1e-9:
            yield (v, float(w), u)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", MODELS)
def test_the_search_finds_what_enumeration_finds_and_nothing_else(kind, state):
    model, frame = MODELS[kind]
    rules = schema(**STATES[state])
    data = du.Dataset(frame[:40], Y[:40], schema=rules)
    eps = 0.65
    report = du.evaluate(model, data, space=rules.space(eps=eps, p=1),
                         attack=du.Graft(evaluations=1500), progress=False)  # fmt: skip
    own = np.asarray(model.predict(frame[:40])).ravel()
    assert report.metric("clean").value == (own == Y[:40]).mean()
    attackable = []
    for i, row in enumerate(data.x.numpy()):
        near = torch.tensor(list(neighbours(row, state, eps)), dtype=torch.float64)
        region = rules.space(eps=eps, p=1).around(data.x[[i] * len(near)])
        assert bool(region.contains(near).all())
        said = np.asarray(model.predict(data.columns.frame(near.numpy()))).ravel()
        attackable.append(bool((said != Y[i]).any()))
    found = report.table["success"].to_numpy()
    assert not (found & ~np.array(attackable)).any()  # nothing that is not there
    assert found.sum() >= 0.95 * sum(attackable)
    handed = data.columns.frame(report.adversarial[found])
    assert (np.asarray(model.predict(handed)).ravel() != Y[:40][found]).all()


def test_what_must_not_change_its_state_is_refused_by_the_judge():
    x = torch.tensor([[NAN, 2.0, 0.0], [1.0, 2.0, 0.0]], dtype=torch.float64)
    other = torch.tensor([[3.0, 2.0, 0.0], [NAN, 2.0, 0.0]], dtype=torch.float64)
    for state, want in (
        ("fixed", [False, False]),
        ("fill", [True, False]),
        ("hide", [False, True]),
    ):
        region = schema(**STATES[state]).space(eps=1.0).around(x)
        assert region.contains(x).tolist() == [True, True]
        assert region.contains(other).tolist() == want
        assert region.distance(x).tolist() == [0.0, 0.0]
    assert schema(hide=0.3).space(eps=1, p=0).around(x).distance(other).tolist() == [1.0, 1.0]
    dear = schema(hide=0.3, hide_cost=50.0).space(cost=40.0).around(x)
    assert not bool(dear.contains(other)[1])
    assert bool(schema(hide=0.3, hide_cost=30.0).space(cost=40.0).around(x).contains(other)[1])


def test_relations_over_missing_values_are_three_valued():
    rules = [F.a <= F.b, (F.a <= 3) & (F.b <= 4), (F.a >= 9) | (F.b >= 1), fill(F.a, 0) <= F.b]
    made = schema(rules)
    x = torch.tensor([[NAN, 5.0, 0.0], [NAN, 0.0, 0.0], [2.0, 3.0, 0.0]], dtype=torch.float64)
    holds = made.program.holds(x, x).tolist()
    assert holds[0] == [True, False, True, True]  # unknown, false by b alone, true by b alone
    assert holds[1] == [True, True, True, True]
    assert holds[2] == [True, True, True, True]
    assert bool((made.program.penalties(x, x) == 0).eq(torch.tensor(holds)).all())
    assert made.validate(made.frame(x))["row"].tolist() == [0]
    text = Schema(made.features, ["fill(a, 0) <= b", "count(a > 1, b > 1) <= 1"])
    assert text.program.holds(x, x).tolist() == [[True, True], [True, True], [True, False]]
    assert Schema(text.features, [str(r) for r in text.relations]) == text


def test_repair_leaves_missing_values_alone():
    made = schema([F.b == F.a + 1])
    x = torch.tensor([[NAN, 3.0, 0.0], [2.0, 3.0, NAN]], dtype=torch.float64)
    region = made.space(eps=2.0).around(x)
    z = region.random(du.testing.Stream(0, torch.arange(2)), torch.arange(2)) if False else (
        region.origin + 0.3
    )  # fmt: skip
    out = region.decode(region.project(z))
    assert bool(out[0, 0].isnan()) and bool(out[1, 2].isnan())
    assert not bool(out[:, 1].isnan().any()) and bool(region.contains(out).all())


def test_what_the_schema_does_not_say_is_refused():
    plain = Schema([Feature("a", "integer", 0, 5), Feature("b", "integer", 0, 5)])
    with pytest.raises(DurometerError, match="feature 'a': .* missing or infinite.*missing=True"):
        du.Dataset(FRAME, Y, schema=plain)
    bare = du.Dataset(FRAME[["a", "b"]].to_numpy(), Y)
    with pytest.raises(DurometerError, match="has no 'a'.*missing=True"):
        du.evaluate(torch.nn.Linear(2, 2).double(), bare, space=plain.space())
    with pytest.raises(DurometerError, match="NaN or infinite"):
        du.evaluate(torch.nn.Linear(2, 2).double(), bare, space=du.Linf(0.1, 0, 5))
    with pytest.raises(DurometerError, match="say missing=True"):
        Feature("a", "integer", 0, 5, hide=0.1)
    x = torch.tensor([[NAN, 2.0, 0.0]], dtype=torch.float64)
    with pytest.raises(Unsupported, match="missing cells have no box"):
        schema().space().around(x).box()


def test_under_noise_missing_stays_missing():
    hist = HistGradientBoostingClassifier(max_iter=12).fit(FRAME[["a", "b"]], Y)
    data = du.Dataset(FRAME[["a", "b"]][:30], Y[:30])
    exact = du.evaluate(du.Nature(hist, du.Normal(sd={"b": 0.7, "a": 0.7})), data).table
    drawn = du.evaluate(
        du.Nature(hist, du.Normal(sd=0.7), method="monte carlo", draws=20_000, confidence=0.9999),
        data,
    ).table
    assert (exact["clean"] == hist.predict(FRAME[["a", "b"]][:30])).all()
    assert (exact["probability_low"] <= drawn["probability_high"] + 1e-9).all()
    assert (exact["probability_high"] >= drawn["probability_low"] - 1e-9).all()
