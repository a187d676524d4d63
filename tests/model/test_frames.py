"""Models fitted on frames are asked by name and in the types they were fitted on."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import durometer as du
from durometer import Feature, Schema
from durometer.core.errors import DurometerError
from durometer.model.classifier import wrap
from durometer.model.frames import align_columns
from durometer.model.probe import probe

N = 300
RNG = np.random.default_rng(0)


def loans() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "purpose": RNG.choice(["car", "house", "boat", "school"], N),
            "amount": RNG.integers(100, 1000, N),
            "home": RNG.choice(["own", "rent"], N),
            "income": RNG.normal(3000, 800, N).round(2),
        }
    )
    risky = frame["purpose"].isin(["boat", "car"]) ^ (frame["amount"] > 600)
    return frame.assign(paid=np.where(risky & (frame["home"] == "rent"), "no", "yes"))


FRAME = loans()
TEXT, NUMBERS = ["purpose", "home"], ["amount", "income"]
SCHEMA = Schema(  # neither in the table's order nor its values in alphabetical order
    [
        Feature("income", "real", 0, 10_000),
        Feature("home", "category", values=("rent", "own")),
        Feature("amount", "integer", 0, 2000),
        Feature("purpose", "category", values=("school", "house", "car", "boat")),
    ]
)


def recipe(last):
    """The standard recipe: what is unknown is ignored, so that codes would go through silently."""
    text = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    parts = [("text", text, TEXT), ("numbers", SimpleImputer(), NUMBERS)]
    return make_pipeline(ColumnTransformer(parts), last)


def answers(model, data):
    made = probe(align_columns(wrap(model), data), data.x[:32])
    return [data.classes[i] for i in made.logits(data.x).argmax(1).tolist()]


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["no schema", "schema"])
def test_a_pipeline_with_text_columns_is_asked_with_text(schema):
    pipe = recipe(LogisticRegression(max_iter=500)).fit(FRAME[TEXT + NUMBERS], FRAME["paid"])
    data = du.Dataset(FRAME, target="paid", schema=schema)
    assert answers(pipe, data) == pipe.predict(FRAME).tolist()


def test_a_pipeline_in_a_whole_evaluation_has_its_own_clean_accuracy():
    pipe = recipe(RandomForestClassifier(20, random_state=0)).fit(FRAME[TEXT + NUMBERS],
                                                                  FRAME["paid"])  # fmt: skip
    data = du.Dataset(FRAME[:60], target="paid", schema=SCHEMA)
    report = du.evaluate(pipe, data, space=SCHEMA.space(eps=1.0, p=1),
                         attack=du.Graft(evaluations=100))  # fmt: skip
    own = float((pipe.predict(FRAME[:60]) == FRAME["paid"][:60]).mean())
    assert report.metric("clean").value == own
    handed = SCHEMA.frame(report.adversarial)
    said = pipe.predict(handed)
    won = report.table["success"].to_numpy() & (report.table["winner"] != "clean").to_numpy()
    assert won.any() and (said[won] != FRAME["paid"][:60].to_numpy()[won]).all()


def test_columns_are_matched_by_name_not_by_place():
    forest = RandomForestClassifier(20, random_state=0).fit(FRAME[NUMBERS], FRAME["paid"])
    schema = SCHEMA.select(["income", "amount"])  # the other way round
    data = du.Dataset(FRAME, target="paid", schema=schema)
    assert answers(forest, data) == forest.predict(FRAME[NUMBERS]).tolist()
    bare = du.Dataset(FRAME[["income", "amount"]].to_numpy(), FRAME["paid"], schema=schema)
    assert answers(forest, bare) == forest.predict(FRAME[NUMBERS]).tolist()


def test_a_column_the_model_needs_and_the_data_lack_is_named():
    forest = RandomForestClassifier(5, random_state=0).fit(FRAME[NUMBERS], FRAME["paid"])
    data = du.Dataset(FRAME[["income", "paid"]].assign(amounts=1.0), target="paid")
    with pytest.raises(
        DurometerError, match="fitted with a column 'amount'.*did you mean 'amounts'"
    ):
        align_columns(wrap(forest), data)
    array = RandomForestClassifier(5, random_state=0).fit(FRAME[NUMBERS].to_numpy(), FRAME["paid"])
    one = du.Dataset(FRAME[["income", "paid"]], target="paid")
    with pytest.raises(DurometerError, match="fitted on 2 columns, the data have 1"):
        align_columns(wrap(array), one)


def test_classes_in_the_datas_order():
    forest = RandomForestClassifier(5, random_state=0).fit(FRAME[NUMBERS], FRAME["paid"])
    data = du.Dataset(FRAME[[*NUMBERS, "paid"]], target="paid", classes=("yes", "no"))
    assert forest.classes_.tolist() == ["no", "yes"]
    assert answers(forest, data) == forest.predict(FRAME[NUMBERS]).tolist()
    other = du.Dataset(FRAME[[*NUMBERS, "paid"]], target="paid", classes=("yes", "no", "late"))
    with pytest.raises(DurometerError, match="'late' is in only one of them"):
        align_columns(wrap(forest), other)


def test_labels_that_are_numbers_but_not_counted_from_zero():
    y = np.where(FRAME["paid"] == "yes", 2, 1)
    forest = RandomForestClassifier(20, random_state=0).fit(FRAME[NUMBERS], y)
    data = du.Dataset(FRAME[NUMBERS], y)
    report = du.evaluate(forest, data, space=du.Linf(1.0, -1000, 10_000),
                         attack=du.Square(20))  # fmt: skip
    assert report.metric("clean").value == float((forest.predict(FRAME[NUMBERS]) == y).mean())


def category(frame):
    return frame.assign(**{c: frame[c].astype("category") for c in TEXT})


def missing(frame):
    out = frame.copy()
    out.loc[::7, "income"] = np.nan
    out.loc[::11, "purpose"] = None
    return out


def xgboost_native():
    import xgboost

    return xgboost.XGBClassifier(n_estimators=15, enable_categorical=True, max_cat_to_onehot=1)


def lightgbm_native():
    import lightgbm

    return lightgbm.LGBMClassifier(n_estimators=15, verbose=-1, min_child_samples=5)


def catboost_native():
    import catboost

    return catboost.CatBoostClassifier(
        iterations=15, verbose=0, cat_features=TEXT, allow_writing_files=False
    )


def ordinal():
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    rest = ColumnTransformer([("text", encoder, TEXT)], remainder="passthrough")
    return make_pipeline(rest, HistGradientBoostingClassifier(max_iter=15))


MODELS = {
    "xgboost": (xgboost_native, category),
    "lightgbm": (lightgbm_native, category),
    "catboost": (catboost_native, lambda f: f.fillna({"purpose": "none"})),
    "hist": (lambda: HistGradientBoostingClassifier(max_iter=15, categorical_features="from_dtype"),
             category),
    "ordinal": (ordinal, lambda f: f),
    "imputing": (lambda: recipe(LogisticRegression(max_iter=500)), lambda f: f),
    "threshold": (lambda: FixedThresholdClassifier(recipe(LogisticRegression(max_iter=500)),
                                                   threshold=0.8), lambda f: f),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("order", [[*TEXT, *NUMBERS], ["income", "purpose", "amount", "home"]])
def test_every_library_is_asked_with_the_frame_it_knows(kind, order):
    make, dressed = MODELS[kind]
    frame = dressed(missing(FRAME))
    y = (frame["paid"] == "yes").astype(int)
    model = make().fit(frame[TEXT + NUMBERS], y)
    data = du.Dataset(frame[order], y)
    made = probe(align_columns(wrap(model), data), data.x[:32])
    own = np.asarray(model.predict(frame[TEXT + NUMBERS])).ravel()
    assert made.logits(data.x).argmax(1).tolist() == own.tolist()
    shuffled = data.x[np.random.default_rng(1).permutation(N)]
    rows = data.columns.frame(shuffled.numpy())[TEXT + NUMBERS]
    assert (
        made.logits(shuffled).argmax(1).tolist() == np.asarray(model.predict(rows)).ravel().tolist()
    )
    assert not made.logits(data.x[:3]).isnan().any()


def test_a_scaler_and_its_model_on_numbers():
    pipe = make_pipeline(StandardScaler(), LogisticRegression()).fit(FRAME[NUMBERS], FRAME["paid"])
    data = du.Dataset(FRAME[["income", "amount", "paid"]], target="paid")
    assert answers(pipe, data) == pipe.predict(FRAME[NUMBERS]).tolist()


def test_functions_that_take_frames_or_mappings():
    pipe = recipe(LogisticRegression(max_iter=500)).fit(FRAME[TEXT + NUMBERS], FRAME["paid"])
    data = du.Dataset(FRAME, target="paid", schema=SCHEMA)

    def by_mapping(columns):
        return pipe.predict_proba(pd.DataFrame(columns))

    for takes, call in (("frame", pipe.predict_proba), ("mapping", by_mapping)):
        model = wrap(call, "probabilities", inputs=takes, name="mine", predict=pipe.predict)
        assert answers(model, data) == pipe.predict(FRAME).tolist() and model.title == "mine"
    with pytest.raises(DurometerError, match="give the data as a table"):
        wrap(pipe.predict_proba, inputs="frame").logits(data.x)


def test_a_report_is_split_by_columns_of_the_table_and_shows_what_was_changed(tmp_path):
    pipe = recipe(RandomForestClassifier(20, random_state=0)).fit(FRAME[TEXT + NUMBERS],
                                                                  FRAME["paid"])  # fmt: skip
    table = FRAME[:60].assign(branch=np.where(np.arange(60) < 20, "north", "south"))
    data = du.Dataset(table, target="paid", schema=SCHEMA, ids=np.arange(100, 160))
    report = du.evaluate(pipe, data, space=SCHEMA.space(eps=1.0, p=1),
                         attack=du.Graft(evaluations=100))  # fmt: skip
    for each in (report, du.Report.load(report.save(tmp_path / "run"))):
        parts = each.metric("robust", by="branch")
        north = each.table["id"] < 120
        assert parts["north"].n == 20
        assert parts["north"].value == 1 - each.table["success"][north].mean()
        assert set(each.metric("clean", by="purpose")) == set(table["purpose"])
        assert each.metric("clean", by=(each.table["id"] % 2).tolist())[0].n == 30
        with pytest.raises(DurometerError, match="no column 'brnch'.*did you mean 'branch'"):
            each.metric("robust", by="brnch")
    frame = report.adversarial_frame()
    assert frame["home"].isin(["own", "rent"]).all() and len(frame) > 5
    was = table.set_axis(np.arange(100, 160), axis=0).loc[frame.index]
    assert (pipe.predict(frame[TEXT + NUMBERS]) != was["paid"]).all()
    for i, row in frame.iterrows():
        differ = [c for c in SCHEMA.names if row[c] != was.loc[i, c]]
        assert row["changed"] == ", ".join(differ) and 0 < row["distance"] <= 1 + 1e-9
    assert report.metric("robust") < 1.0 and f"{report.metric('robust'):.3f}".startswith("0.")


def test_a_linear_booster_is_asked_by_the_names_it_insists_on():
    xgb = pytest.importorskip("xgboost")
    y = (FRAME["paid"] == "yes").astype(int).to_numpy()
    model = xgb.XGBClassifier(booster="gblinear", n_estimators=5).fit(FRAME[NUMBERS], y)
    for table in (FRAME[NUMBERS[::-1]], FRAME[NUMBERS].to_numpy(float)):
        data = du.Dataset(table, y)
        made = probe(align_columns(wrap(model), data), data.x[:32])
        expected = model.predict(FRAME[NUMBERS]).tolist()
        assert made.logits(data.x).argmax(1).tolist() == expected


def test_lightgbm_writes_blanks_in_names_as_underscores_and_is_still_asked_by_name():
    """Searches, proofs, noise and the agreement check: it was a KeyError, or the wrong column."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    names = ["amount EUR", "monthly income", "no of kids"]
    frame = pd.DataFrame(rng.uniform(0, 9, (300, 3)).round(), columns=names)
    y = (frame["amount EUR"] > frame["monthly income"]).to_numpy()
    model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(frame, y)
    turned = frame[names[::-1]]
    schema = du.Schema.suggest(turned)
    data = du.Dataset(turned, y, schema=schema)[:40]
    own = model.score(frame[:40], y[:40])
    for attack in (du.Graft(20), du.Exact()):
        report = du.evaluate(model, data, space=schema.space(eps=0.1), attack=attack)
        assert report.metric("clean").value == own
    noise = du.Normal(sd={"no of kids": 0.01, "amount EUR": 1.0, "monthly income": 1.0})
    there, here = (
        du.evaluate(du.Nature(model, noise), du.Dataset(t, y)[:40]) for t in (turned, frame)
    )
    assert there.metric("clean").value == own
    assert there.metric("robust").value == pytest.approx(here.metric("robust").value, abs=1e-3)
    other = turned.rename(columns={"no of kids": "children"})
    with pytest.raises(DurometerError, match="'no_of_kids', which the data do not have"):
        du.evaluate(du.Nature(model, du.Normal(sd=1.0)), du.Dataset(other, y)[:40])


def test_a_catboost_model_from_a_file_knows_how_many_columns_it_wants(tmp_path):
    from catboost import CatBoostClassifier

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((60, 3)), columns=list("abc"))
    model = CatBoostClassifier(5, verbose=0, thread_count=1, allow_writing_files=False)
    model.fit(frame.to_numpy(), frame["a"] > 0.5).save_model(str(tmp_path / "m.cbm"))
    read = CatBoostClassifier().load_model(str(tmp_path / "m.cbm"))
    assert read.n_features_in_ == 0  # which was taken for the truth
    data = du.Dataset(frame.assign(y=(frame["a"] > 0.5).astype(int)), target="y")
    report = du.evaluate(read, data.head(10), space=du.Linf(0.01), progress=False)
    assert report.metric("clean").value > 0.8
    with pytest.raises(du.DurometerError, match="fitted on 3 columns, the data have 2"):
        two = du.Dataset(frame[["a", "b"]].assign(y=data.y.numpy()), target="y")
        du.evaluate(read, two.head(10), space=du.Linf(0.01), progress=False)


def test_classes_with_other_names_are_not_matched_by_their_place():
    y = FRAME["paid"].to_numpy()
    model = LogisticRegression(max_iter=1000).fit(FRAME[NUMBERS], y)
    for yes, no in (("bad", "good"), ("good", "bad"), ("Yes", "No")):
        data = du.Dataset(FRAME[NUMBERS], np.where(y == "yes", yes, no))
        with pytest.raises(
            DurometerError, match="nothing says which is which; write the labels as"
        ):
            align_columns(wrap(model), data)
    numbered = du.Dataset(FRAME[NUMBERS], np.where(y == "yes", "1", "0"))
    made = align_columns(wrap(model), numbered)
    assert (
        made.logits(numbered.x).argmax(1).tolist()
        == (model.predict(FRAME[NUMBERS]) == "yes").astype(int).tolist()
    )


def test_a_function_that_would_get_the_numbers_of_words_is_refused():
    data = du.Dataset(["a good film", "a bad film"] * 5, [1, 0] * 5)
    space = du.Text(du.Synonyms({"good": ["fine"]}))

    def tone(texts):
        return np.array([[0.0, 1.0] if "good" in str(t) else [1.0, 0.0] for t in texts])

    with pytest.raises(DurometerError, match="inputs='text'"):
        du.evaluate(tone, data, space=space, progress=False)
    report = du.evaluate(du.wrap(tone, inputs="text"), data, space=space, progress=False)
    assert report.metric("clean").value == 1
