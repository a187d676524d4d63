"""The bundled tables with text and gaps: whole, described, and taken by models as they are."""

import numpy as np
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import durometer as du
from durometer.datasets.mixed import TABLES

ROWS = {"adult": 2000, "bank": 2000, "german": 1000, "heart": 303}
GAPS = {"adult": 2, "bank": 0, "german": 0, "heart": 1}  # at least


@pytest.mark.parametrize("name", TABLES)
def test_rows_schema_and_relations_hold(name):
    splits = getattr(du.datasets, name)()
    train, test = splits.train, splits.test
    assert len(train) + len(test) == ROWS[name] and len(test) == round(ROWS[name] / 4)
    assert not set(train.ids) & set(test.ids) and len(train.classes) == 2
    for part in (train, test):
        assert part.schema.validate(part.table).empty
    assert int(train.x.isnan().any(0).sum()) >= GAPS[name]
    assert 0 < int(train.schema.mutable.sum()) < len(train.schema)
    assert train.schema.columns_of(train.table).frame(train.x.numpy()).notna().any().all()


def test_a_pipeline_on_census_data_end_to_end():
    splits = du.datasets.adult()
    train, test = splits.train, splits.test[:40]
    features = list(train.schema.names)
    text = make_pipeline(SimpleImputer(strategy="most_frequent"),
                         OneHotEncoder(handle_unknown="ignore"))  # fmt: skip
    columns = make_column_transformer(
        (text, make_column_selector(dtype_exclude="number")), remainder="passthrough"
    )
    pipe = make_pipeline(columns, RandomForestClassifier(20, random_state=0))
    pipe.fit(train.table[features], train.table["income"])
    report = du.evaluate(pipe, test, space=test.schema.space(eps=0.5), progress=False,
                         attack=du.Graft(evaluations=60))  # fmt: skip
    own = pipe.predict(test.table[features]) == test.table["income"]
    assert report.metric("clean").value == np.mean(own)
    assert set(report.metric("robust", by="sex")) == {"Male", "Female"}
