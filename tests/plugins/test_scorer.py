"""robust_scorer inside scikit-learn gives the figures that `evaluate` gives."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, KFold, cross_validate, learning_curve
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import durometer as du

HEART = du.datasets.heart()
SPACE = HEART.train.schema.space(eps=0.05)
WHOLE = ~HEART.train.x.isnan().any(1).numpy()
X, Y = HEART.train.x.numpy()[WHOLE], HEART.train.y.numpy()[WHOLE]
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
PIPELINES = {
    "tree": TREE,
    "forest": make_pipeline(
        StandardScaler(), RandomForestClassifier(5, max_depth=3, random_state=0)
    ),
    "linear": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("kind", list(PIPELINES))
@pytest.mark.parametrize(("side", "metric"), [("at least", "proven"), ("at most", "robust")])
def test_a_score_is_the_figure_of_evaluate(kind: str, side: str, metric: str) -> None:
    scorer = du.robust_scorer(SPACE, side=side, rows=40, seed=3)  # type: ignore[arg-type]
    fitted = PIPELINES[kind].fit(X[:140], Y[:140])
    data = du.Dataset(X[140:], Y[140:], schema=SPACE.schema).sample(40, 3)
    own = du.evaluate(fitted, data, space=SPACE, seed=3, progress=False)
    assert scorer(fitted, X[140:], Y[140:]) == float(own.metric(metric))


@pytest.mark.parametrize("kind", list(PIPELINES))
def test_a_grid_in_worker_processes_gives_the_figures_of_evaluate(kind: str) -> None:
    scorer = du.robust_scorer(SPACE, side="at least", rows=30, seed=2)
    folds = KFold(2)
    grid = GridSearchCV(PIPELINES[kind], {}, scoring=scorer, cv=folds, n_jobs=2, refit=False)
    found = grid.fit(X, Y).cv_results_
    for k, (fit, test) in enumerate(folds.split(X, Y)):
        fitted = clone(PIPELINES[kind]).fit(X[fit], Y[fit])
        data = du.Dataset(X[test], Y[test], schema=SPACE.schema).sample(30, 2)
        own = du.evaluate(fitted, data, space=SPACE, seed=2, progress=False)
        assert found[f"split{k}_test_score"][0] == float(own.metric("proven"))


def test_a_grid_in_worker_processes_scores_as_here() -> None:
    scorers = {"robust": du.robust_scorer(SPACE, side="at least", rows=30), "accuracy": "accuracy"}
    found = []
    for jobs in (None, 2):
        search = GridSearchCV(
            TREE, {"max_depth": [1, 3]}, scoring=scorers, refit="robust", cv=KFold(2), n_jobs=jobs
        )
        found.append(search.fit(X, Y).cv_results_["mean_test_robust"])
    assert np.array_equal(found[0], found[1])
    assert found[0].min() > 0


def test_frames_are_matched_by_name() -> None:
    frame = pd.DataFrame(X, columns=SPACE.schema.names)
    fitted = TREE.fit(frame, Y)
    scorer = du.robust_scorer(SPACE, side="at least", rows=30)
    backwards = frame[frame.columns[::-1]]
    turned = make_pipeline(TREE).fit(backwards, Y)
    assert scorer(fitted, frame, Y) == pytest.approx(scorer(turned, backwards, Y), abs=0.11)
    plain = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, Y)
    assert scorer(fitted, frame, Y) == scorer(plain, X, Y)


def test_other_users_of_scoring() -> None:
    scorer = du.robust_scorer(SPACE, attack=du.Graft(), rows=20)
    assert check_scoring(TREE, scoring=scorer) is scorer
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    scores = cross_validate(TREE, X, Y, scoring=scorer, cv=KFold(2))["test_score"]
    assert ((scores >= 0) & (scores <= 1)).all()
    fitted = TREE.fit(X, Y)
    ranked = permutation_importance(fitted, X[:60], Y[:60], scoring=scorer, n_repeats=1)
    assert ranked.importances_mean.shape == (X.shape[1],)
    _, _, test = learning_curve(TREE, X, Y, scoring=scorer, cv=KFold(2), train_sizes=[0.5, 1.0])
    assert test.shape == (2, 2)


def test_at_least_is_refused_where_nothing_can_be_proven() -> None:
    from sklearn.neighbors import KNeighborsClassifier

    scorer = du.robust_scorer(SPACE, side="at least", attack="standard", rows=5)
    fitted = KNeighborsClassifier().fit(X, Y)
    with pytest.raises(du.Unsupported, match="side='at most'"):
        scorer(fitted, X, Y)


def test_wrong_arguments_are_sentences() -> None:
    with pytest.raises(du.DurometerError, match="side"):
        du.robust_scorer(SPACE, side="both")  # type: ignore[arg-type]
    with pytest.raises(du.DurometerError, match="rows"):
        du.robust_scorer(SPACE, rows=0)
    with pytest.raises(du.DurometerError, match="expected a Space"):
        du.robust_scorer(du.Linf)  # type: ignore[arg-type]


def test_a_network_of_scikit_learn_has_a_score() -> None:
    fitted = make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=200, random_state=0)).fit(
        X, Y
    )
    scorer = du.robust_scorer(SPACE, attack=du.Graft(), rows=20)
    assert 0 <= scorer(fitted, X, Y) <= 1


# What scikit-learn's own tests ask of each of its scorers, asked by its own functions


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    """scikit-learn's tests of scorers, with ours among those that it knows by name."""
    from sklearn.metrics import _scorer
    from sklearn.metrics.tests import test_score_objects as theirs

    name = "durometer_robust"
    ours = du.robust_scorer(du.Linf(0.05, low=-9, high=9), rows=20)
    monkeypatch.setitem(_scorer._SCORERS, name, ours)
    made = theirs._make_estimators
    monkeypatch.setattr(
        theirs, "_make_estimators", lambda *data: {**made(*data), name: made(*data)["accuracy"]}
    )
    monkeypatch.setattr(theirs, "get_scorer_names", lambda: [name])
    return theirs, name


def test_their_check_of_the_repr(registered: tuple[Any, str]) -> None:
    registered[0].test_all_scorers_repr()


def test_their_check_that_a_scorer_is_handed_out_as_a_copy(registered: tuple[Any, str]) -> None:
    registered[0].test_get_scorer_return_copy()


def test_their_check_of_weights_which_are_refused_by_name(registered: tuple[Any, str]) -> None:
    theirs, name = registered
    theirs.test_classification_scorer_sample_weight()
    with pytest.raises(TypeError, match="sample_weight"):
        theirs.get_scorer(name)(TREE.fit(X, Y), X, Y, sample_weight=np.ones(len(X)))


def test_their_check_of_data_that_is_mapped_and_read_only(
    registered: tuple[Any, str], tmp_path: Path
) -> None:
    theirs, name = registered
    x, y = make_classification(n_samples=30, n_features=5, random_state=0)
    joblib.dump((x, y), tmp_path / "rows.pkl")
    x, y = joblib.load(tmp_path / "rows.pkl", mmap_mode="r")
    fitted = {name: DecisionTreeClassifier(random_state=0).fit(x, y)}
    theirs.test_scorer_memmap_input(name, (x, y, y, fitted))


def test_several_scorers_at_once_and_one_that_refuses() -> None:
    from sklearn.metrics import check_scoring
    from sklearn.neighbors import KNeighborsClassifier

    scorers = {
        "robust": du.robust_scorer(SPACE, side="at least", rows=10), "accuracy": "accuracy"
    }  # fmt: skip
    fitted = TREE.fit(X, Y)
    both = check_scoring(fitted, scoring=scorers)(fitted, X, Y)
    assert both["robust"] == scorers["robust"](fitted, X, Y)  # type: ignore[operator]
    near = KNeighborsClassifier().fit(X, Y)
    said = check_scoring(near, scoring=scorers, raise_exc=False)(near, X, Y)
    assert isinstance(said["accuracy"], float) and "side='at most'" in said["robust"]


def test_metadata_routing_leaves_a_scorer_without_metadata_alone() -> None:
    import sklearn

    scorer = du.robust_scorer(SPACE, side="at least", rows=20)
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = clone(TREE).set_fit_request(sample_weight=True)
        search = GridSearchCV(weighted, {"max_depth": [2]}, scoring=scorer, cv=KFold(2))
        search.fit(X, Y, sample_weight=np.ones(len(X)))
    plain = GridSearchCV(TREE, {"max_depth": [2]}, scoring=scorer, cv=KFold(2)).fit(X, Y)
    assert search.best_score_ == plain.best_score_


def test_labels_of_text_and_frames_with_an_index_of_their_own() -> None:
    scorer = du.robust_scorer(SPACE, side="at least")
    words = np.where(Y == 1, "yes", "no")
    frame = pd.DataFrame(X, columns=SPACE.schema.names, index=[f"p{i}" for i in range(len(X))])
    named = pd.Series(words, index=frame.index)
    found = cross_validate(TREE, frame, named, scoring=scorer, cv=KFold(2))["test_score"]
    plain = cross_validate(TREE, X, Y, scoring=scorer, cv=KFold(2))["test_score"]
    assert found == pytest.approx(plain)
