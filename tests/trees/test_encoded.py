"""Pipelines that encode columns one by one: read as trees over the columns as they came."""

import itertools

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.compose import (
    ColumnTransformer,
    make_column_selector,
    make_column_transformer,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from xgboost import XGBClassifier

import durometer as du
from durometer.data.columns import Columns
from durometer.trees import read
from durometer.trees.readers import reader

TEXT, NUMBER = (
    make_column_selector(dtype_include=[object, "string", "bool", "category"]),
    ["a", "b"],
)


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "kind": rng.choice(list("pqrstu"), n), "a": rng.normal(size=n).round(1),
        "own": rng.random(n) < 0.5, "b": rng.integers(-3, 4, n),
        "town": rng.choice([f"t{i}" for i in range(9)], n),
    })  # fmt: skip
    known, rich = frame["kind"].isin(["p", "s"]), frame["own"] & (frame["a"] > 0)
    score = 1.0 * known + 1.0 * rich - 1.0 * (frame["b"] == 0)
    return frame, (score + rng.normal(0, 0.3, n) > 0.5).astype(int).to_numpy()


def forest():
    return RandomForestClassifier(8, max_depth=6, random_state=0)


PIPES = {
    "one-hot, sparse, XGBoost": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(), TEXT), remainder="passthrough"),
        XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1),
    ),
    "one-hot, dense, XGBoost": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(sparse_output=False), TEXT),
                                remainder="passthrough", sparse_threshold=0),
        XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1),
    ),
    "scaled numbers, sparse, XGBoost": lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(), TEXT), (StandardScaler(), NUMBER)),
        XGBClassifier(n_estimators=15, max_depth=4, n_jobs=1),
    ),
    "ordinal, LightGBM": lambda: make_pipeline(
        make_column_transformer((OrdinalEncoder(), TEXT), remainder="passthrough"),
        LGBMClassifier(n_estimators=15, num_leaves=15, n_jobs=1, verbose=-1),
    ),
    "imputed and one-hot, nested, forest": lambda: make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="most_frequent"),
                           OneHotEncoder(handle_unknown="ignore", drop="first")),
             ["kind", "town"]),
            (make_pipeline(SimpleImputer(), StandardScaler()), NUMBER),
        ),
        forest(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PIPES)
def test_the_reading_answers_as_the_pipeline_on_every_value(name):
    frame, y = table()
    pipe = PIPES[name]().fit(frame, y)
    columns = du.Dataset(frame, y).columns
    trees = read(pipe, columns)
    rng = np.random.default_rng(1)
    x = columns.array(frame)[rng.integers(0, len(frame), 1500)]
    for i, c in enumerate(columns.each):  # every value, 0 and what lies beside it among them
        if c.kind == "label":
            x[:, i] = rng.choice(c.codes, len(x))
    tiny = rng.choice([0.0, -0.0, 5e-324, -5e-324, 7e-46, -7e-46, 0.1], len(x))
    x[:, 1] = np.where(rng.random(len(x)) < 0.3, tiny, x[:, 1])
    shown = columns.frame(x).astype({"b": float})
    assert (trees.decide(x) == pipe.predict(shown)).all()
    if "XGBoost" in name:  # scores too: labels hide much
        margin = pipe[-1].predict(pipe[:-1].transform(shown), output_margin=True)
        assert np.abs(trees.scores(x)[:, 0] - margin).max() <= trees.slack()


def test_a_proof_holds_for_every_record_of_a_small_table():
    """All combinations of a text column, a flag and whole numbers, asked of the pipeline itself."""
    frame, y = table(300)
    frame = frame[["kind", "own", "b"]]
    pipe = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["kind", "own"]), remainder="passthrough"),
        XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1),
    ).fit(frame, y)
    schema = du.Schema.suggest(frame)
    data = du.Dataset(frame, y, schema=schema)[:40]
    report = du.evaluate(pipe, data, space=schema.space(eps=1, p=0), attack=du.Exact(),
                         progress=False)  # fmt: skip
    verdict = report.table["verdict"].to_numpy()
    every = [(k, o, b) for k, o, b in itertools.product("pqrstu", (False, True), range(-3, 4))]
    points = pd.DataFrame(every, columns=["kind", "own", "b"])
    answer = pipe.predict(points)
    for i, (_, row) in enumerate(frame[:40].iterrows()):
        near = (points != row).sum(axis=1) <= 1
        broken = bool((answer[near.to_numpy()] != y[i]).any())
        assert verdict[i] == ("broken" if broken else "proven")
    assert {"broken", "proven"} <= set(verdict)


def test_missing_cells_go_where_the_pipeline_sends_them():
    frame, y = table()
    frame = frame.drop(columns="own")
    gaps = np.random.default_rng(2).random(frame.shape) < 0.15
    frame = frame.mask(gaps)
    pipe = make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["kind"]),
            (OneHotEncoder(), ["town"]),  # missing is a town of its own
            (SimpleImputer(add_indicator=True), NUMBER),
        ),
        forest(),
    ).fit(frame, y)
    data = du.Dataset(frame, y)
    assert (read(pipe, data.columns).decide(data.x.numpy()) == pipe.predict(frame)).all()
    schema = du.Schema.suggest(frame)
    few = du.Dataset(frame, y, schema=schema)[:20]
    report = du.evaluate(pipe, few, space=schema.space(eps=0.1), progress=False)  # by default
    assert report.metric("open").value == 0.0


def test_what_keeps_no_order_is_left_to_searches():
    frame, y = table()
    columns = du.Dataset(frame, y).columns
    by_number = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["kind", "b"]), remainder="drop"), forest()
    ).fit(frame, y)
    turned = make_pipeline(
        make_column_transformer((FunctionTransformer(np.abs), ["a"]), remainder="drop"), forest()
    ).fit(frame, y)
    assert reader(by_number, columns) is None and reader(turned, columns) is None
    with pytest.raises(du.Unsupported, match="encoders"):
        read(by_number, columns)


def test_without_the_columns_nobody_knows_the_codes():
    frame, y = table()
    pipe = PIPES["one-hot, sparse, XGBoost"]().fit(frame, y)
    assert reader(pipe) is None
    with pytest.raises(du.Unsupported):
        read(pipe)


def test_a_value_the_encoder_does_not_know_is_left_to_searches():
    frame, y = table()
    pipe = PIPES["one-hot, sparse, XGBoost"]().fit(frame, y)
    other = Columns.of(frame.assign(kind=frame["kind"].replace("p", "new")))
    with pytest.raises(du.Unsupported, match="unknown categories"):
        read(pipe, other)


@pytest.mark.parametrize("kind", ["string", "string[pyarrow]", "object"])
def test_gaps_of_one_column_where_another_takes_none(kind):
    """An imputer fills the gaps of one text column; the encoder of another one refuses any."""
    rng = np.random.default_rng(0)
    job = np.where(rng.uniform(size=120) > 0.5, "clerk", "smith").astype(object)
    frame = pd.DataFrame(
        {"x": rng.uniform(size=120).round(2), "job": job, "city": rng.choice(["A", "B"], 120)}
    )
    frame.loc[::9, "job"] = None
    y = (frame["x"] + 0.3 * (frame["job"] == "clerk") > 0.6).astype(int).to_numpy()
    frame["job"], gone = frame["job"].astype(kind), np.nan if kind == "object" else pd.NA
    if kind == "object":
        frame["job"] = frame["job"].where(frame["job"].notna(), np.nan)
    else:
        frame["x"], frame["city"] = frame["x"].astype("Float64"), frame["city"].astype(kind)
    filled = make_pipeline(
        SimpleImputer(missing_values=gone, strategy="most_frequent"), OneHotEncoder()
    )
    parts = [
        ("job", filled, ["job"]),
        ("city", OneHotEncoder(), ["city"]),
        ("x", "passthrough", ["x"]),
    ]
    forest = RandomForestClassifier(10, max_depth=3, random_state=0)
    model = make_pipeline(ColumnTransformer(parts), forest).fit(frame, y)
    data = du.Dataset(frame.assign(y=y), target="y")
    space = du.Schema.suggest(frame).space(eps=0.1)
    report = du.evaluate(model, data, space=space, progress=False)
    assert report.metric("clean").value == (model.predict(frame) == y).mean()
    assert report.metric("open").value == 0
    assert {"proven", "broken"} <= set(report.table["verdict"])
