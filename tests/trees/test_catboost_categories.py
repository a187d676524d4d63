"""CatBoost with categories: read exactly, each against brute force; refused by name otherwise."""

import itertools

import catboost
import numpy as np
import pandas as pd
import pytest

import durometer as du
from durometer.trees.readers import read

RNG = np.random.default_rng(3)
N = 500
FRAME = pd.DataFrame({
    "age": RNG.random(N), "job": RNG.choice(list("pqrstu"), N), "debt": RNG.random(N),
    "home": RNG.choice(["own", "rent", "free"], N),
})  # fmt: skip
Y = (((FRAME.age > 0.5) ^ FRAME.job.isin(["p", "q", "s"])) | (FRAME.home == "free")).astype(int)
MEANS = [{"one_hot_max_size": 20}, {"max_ctr_complexity": 1, "one_hot_max_size": 2}]


def fitted(frame=FRAME, y=Y, cats=("job", "home"), **settings):
    model = catboost.CatBoostClassifier(
        iterations=15, depth=4, verbose=0, allow_writing_files=False, thread_count=1,
        cat_features=list(cats), **settings,
    )  # fmt: skip
    return model.fit(frame, y)


def rows(n=40, frame=FRAME, y=Y):
    return du.Dataset(frame.assign(y=y).head(n), target="y")


@pytest.mark.parametrize("settings", MEANS)
@pytest.mark.parametrize("classes", [2, 3])
def test_trees_give_what_the_model_gives_for_every_value(settings, classes):
    y = Y if classes == 2 else Y + (FRAME.debt > 0.7)
    model, data = fitted(y=y, **settings), rows(y=y)
    ensemble = read(model, data.columns)
    every = pd.DataFrame(
        list(itertools.product([0.1, 0.5, 0.9], sorted(set(FRAME.job)), [0.2, 0.8],
                               sorted(set(FRAME.home)))), columns=FRAME.columns)  # fmt: skip
    x = data.columns.array(every)
    raw = model.predict(every, prediction_type="RawFormulaVal")
    assert np.allclose(ensemble.scores(x), np.reshape(raw, (len(x), -1)), atol=1e-9)


@pytest.mark.parametrize("settings", MEANS)
def test_verdicts_are_those_of_brute_force(settings):
    """The home may change to any value, all else stays: 3 records a row, all listed here."""
    model = fitted(**settings)
    frame = FRAME.head(60)
    schema = du.Schema.from_frame(frame).freeze("age", "debt", "job")
    own = model.predict(frame)
    data = du.Dataset(frame.assign(y=own), target="y", schema=schema)
    report = du.evaluate(
        model, data, space=schema.space(eps=1, p=0), attack=du.Exact(), progress=False
    )
    broken = []
    for i in range(len(frame)):
        each = pd.DataFrame([{**frame.iloc[i], "home": h} for h in sorted(set(FRAME.home))])
        broken.append(bool((model.predict(each[FRAME.columns]) != own[i]).any()))
    assert 0 < sum(broken) < len(broken)
    assert (report.table["verdict"] == np.where(broken, "broken", "proven")).all()


def test_the_default_reads_it_too_and_the_model_confirms():
    model, data = fitted(**MEANS[1]), rows()
    report = du.evaluate(
        model, data, space=du.Schema.from_frame(FRAME).space(eps=0.01), progress=False
    )
    assert "Exact" in str(report)


def test_what_is_not_read_is_refused_by_name():
    y = (Y + (FRAME.job == "p") * (FRAME.home == "own")) % 2
    several = fitted(y=y, max_ctr_complexity=3, one_hot_max_size=2)
    with pytest.raises(du.Unsupported, match="several columns together.*max_ctr_complexity=1"):
        read(several, rows().columns)
    with pytest.raises(du.Unsupported, match="only symmetric trees.*grow_policy"):
        read(fitted(grow_policy="Depthwise"), rows().columns)
    numbered = FRAME.assign(job=RNG.integers(0, 5, N))
    with pytest.raises(du.Unsupported, match="column 'job' is a category to CatBoost and of kind"):
        read(fitted(frame=numbered), rows(frame=numbered).columns)
    with pytest.raises(du.Unsupported, match="by the data's columns"):
        read(fitted())
