"""Questions about whole models on frames with text, against all records: pipelines, thresholds."""

import numpy as np
import pandas as pd
import pytest

import durometer as du

AGES, PAYS = range(18, 34), range(6)


def rows():
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {"age": rng.choice(AGES, n), "sex": rng.choice(["f", "m"], n),
         "job": rng.choice(["a", "b", "c"], n), "pay": rng.choice(PAYS, n)}
    )  # fmt: skip
    odd = (frame.age > 25) ^ ((frame.sex == "m") & (frame.pay > 3))
    return frame, np.where(odd, "yes", "no")


def every(keep):
    """All records there can be, in pairs that differ in sex."""
    grid = pd.MultiIndex.from_product([AGES, ["a", "b", "c"], PAYS], names=["age", "job", "pay"])
    both = [grid.to_frame(index=False).assign(sex=s)[["age", "sex", "job", "pay"]] for s in "fm"]
    return [b[keep(b)] for b in both]


def models():
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import FixedThresholdClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from xgboost import XGBClassifier

    def pipe(last):
        text = make_column_transformer((OneHotEncoder(), ["sex", "job"]), remainder="passthrough")
        return make_pipeline(text, last)

    frame, y = rows()
    forest = RandomForestClassifier(9, max_depth=4, random_state=0)
    yield "forest", pipe(forest).fit(frame, y)
    boosted = XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1)
    yield "xgboost", pipe(boosted).fit(frame, (y == "yes").astype(int))
    strict = FixedThresholdClassifier(pipe(forest), threshold=0.7, pos_label="yes")
    yield "threshold", strict.fit(frame, y)


CASES = {
    "": ([], lambda t: t.age > 0),
    "young": (["age <= 24", "pay <= 3"], lambda t: (t.age <= 24) & (t.pay <= 3)),
    "one job": (["job == 'b'", "age >= 30"], lambda t: (t.job == "b") & (t.age >= 30)),
    "poor": (["pay <= 1"], lambda t: t.pay <= 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("kind", "model"), list(models()), ids=lambda m: m if isinstance(m, str) else ""
)
def test_flips_as_all_records_have_them(kind, model, name):
    where, keep = CASES[name]
    frame, _ = rows()
    schema = du.Schema.from_frame(frame)
    women, men = every(keep)
    flip = model.predict(women) != model.predict(men)
    answer = du.flips(model, schema, of=["sex"], where=where, data=frame)
    assert answer.status == ("found" if flip.any() else "proven"), (kind, answer)
    if answer.pair is not None:
        assert list(answer.pair.columns) == list(frame.columns)
        assert set(answer.pair["sex"]) == {"f", "m"}
        said = [str(v) for v in model.predict(answer.pair)]
        assert said == list(answer.labels)
        assert len(set(said)) == 2
    if kind == "forest":
        moved = np.abs(model.predict_proba(women) - model.predict_proba(men))[:, 1].max()
        answer = du.influence(model, schema, of=["sex"], label="yes", where=where, gap=1e-6)
        assert answer.low == pytest.approx(moved, abs=1e-5)


def test_what_is_not_read_is_named():
    from sklearn.naive_bayes import GaussianNB

    x = np.random.default_rng(0).random((50, 2))
    schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "ab"])
    with pytest.raises(du.Unsupported, match="not a tree model that is read"):
        du.flips(GaussianNB().fit(x, x[:, 0] > 0.5), schema, of=["a"])


def test_near_needs_records():
    _, model = next(models())
    schema = du.Schema.from_frame(rows()[0])
    with pytest.raises(du.DurometerError, match="near what"):
        du.flips(model, schema, of=["sex"], near=0.1)
