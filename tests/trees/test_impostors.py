"""Trees are read off the library's own types alone: a subclass of the same name, or a method that
an instance has instead of its class's, is another model even where it hardly ever differs."""

import numpy as np
import pandas as pd
import pytest
from sklearn import preprocessing
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import durometer as du
from durometer.trees import read
from durometer.trees.readers import reader

X = np.random.default_rng(0).random((300, 3))
Y = (X[:, 0] + X[:, 1] > 1).astype(int)


class StandardScaler(preprocessing.StandardScaler):
    """Takes what is far away for a mistake; no threshold of the tree lies there."""

    def transform(self, X, copy=None):
        out = super().transform(X)
        return np.where(abs(out) > 6, 0.0, out)


def scaled():
    return make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)).fit(X, Y)


def _replaced(model, name):
    own = getattr(model, name)

    def other(x, *rest, **more):
        out = own(x, *rest, **more)
        return np.where(
            (np.asarray(x)[:, 0] == 7.25)[(..., *[None] * (out.ndim - 1))], 1 - out, out
        )

    setattr(model, name, other)
    return model


def tree():
    return _replaced(DecisionTreeClassifier(max_depth=3).fit(X, Y), "predict")


def boosted():
    return _replaced(XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(X, Y), "predict")


def forest():
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, Y)
    _replaced(model.estimators_[2], "predict_proba")
    return model


def threshold():
    model = FixedThresholdClassifier(RandomForestClassifier(4, max_depth=3), threshold=0.4)
    return _replaced(model.fit(X, Y), "predict")


def vote():
    members = [("a", RandomForestClassifier(3, max_depth=2)), ("b", DecisionTreeClassifier())]
    model = VotingClassifier(members, voting="soft").fit(X, Y)
    _replaced(model.estimators_[1], "predict_proba")
    return model


def calibrated():
    model = CalibratedClassifierCV(RandomForestClassifier(3, max_depth=2), cv=2, ensemble=False)
    model.fit(X, Y)
    _replaced(model.calibrated_classifiers_[0].estimator, "predict_proba")
    return model


def pipeline():
    model = make_pipeline(preprocessing.MinMaxScaler(), DecisionTreeClassifier(max_depth=3))
    _replaced(model.fit(X, Y).steps[0][1], "transform")
    return model


@pytest.mark.parametrize(
    "make", [scaled, tree, boosted, forest, threshold, vote, calibrated, pipeline]
)
def test_what_only_looks_like_the_library_s_own_is_not_read(make):
    model = make()
    with pytest.raises(du.Unsupported):
        read(model)
    with pytest.raises(du.Unsupported):
        schema = du.Schema([du.Feature(f"v{i}", "real", -9, 9) for i in range(3)])
        du.evaluate(model, du.Dataset(X[:5], Y[:5], schema=schema), space=schema.space(eps=0.1),
                    attack=du.Exact(), progress=False)  # fmt: skip


@pytest.mark.parametrize("last", [DecisionTreeClassifier(max_depth=3), LogisticRegression(C=100)])
def test_a_number_that_stands_for_missing_is_no_step_that_keeps_the_order(last):
    """Exactly 0.5 becomes 40, where no neighbour of 0.5 goes: random records never see it."""
    x = pd.DataFrame(X, columns=list("abc"))
    x.loc[::7, "a"] = 0.5
    y = ((x.a > 0.6) | (x.a == 0.5)).astype(int)
    imputer = SimpleImputer(missing_values=0.5, strategy="constant", fill_value=40.0)
    model = make_pipeline(imputer, last).fit(x, y)
    schema = du.Schema([du.Feature(name, "real", 0, 1) for name in "abc"])
    with pytest.raises(du.Unsupported, match="SimpleImputer"):
        du.influence(model, schema, of=["a"])
    rows = pd.DataFrame([[0.45, 0.5, 0.5], [0.4, 0.2, 0.1]], columns=list("abc"))
    data = du.Dataset(rows, model.predict(rows), schema=schema)
    report = du.evaluate(model, data, space=schema.space(eps=0.11, p=np.inf), progress=False)
    assert "proven" not in set(report.table["verdict"])


def test_a_negative_weight_turns_the_order_and_is_refused_by_name():
    scaled = ColumnTransformer(
        [("s", preprocessing.StandardScaler(), ["a", "b", "c"])], transformer_weights={"s": -2.0}
    )
    x = pd.DataFrame(X, columns=list("abc"))
    model = make_pipeline(scaled, DecisionTreeClassifier(max_depth=3)).fit(x, Y)
    schema = du.Schema([du.Feature(name, "real", 0, 1) for name in "abc"])
    with pytest.raises(du.Unsupported, match="negative weight"):
        du.flips(model, schema, of=["a"])


def test_the_library_s_own_are_read():
    plain = make_pipeline(preprocessing.StandardScaler(), DecisionTreeClassifier(max_depth=3))
    for model in (plain, RandomForestClassifier(3), XGBClassifier(n_estimators=2, n_jobs=1)):
        assert reader(model.fit(X, Y)) is not None
        read(model)
