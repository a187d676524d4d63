"""robust_scorer inside scikit-learn gives the figures that `evaluate` gives."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
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
