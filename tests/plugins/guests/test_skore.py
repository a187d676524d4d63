"""`robust_scorer` as a metric of skore's reports (requirements/guests.sh skore)."""

from __future__ import annotations

import pytest
from sklearn.tree import DecisionTreeClassifier

import durometer as du

pytestmark = pytest.mark.heavy
skore = pytest.importorskip("skore", reason="requirements/guests.sh skore", exc_type=ImportError)


def test_a_report_of_skore_shows_the_scorer_s_figure() -> None:
    heart = du.datasets.heart()
    space = heart.train.schema.space(eps=0.05)
    whole = ~heart.train.x.isnan().any(1).numpy()
    x, y = heart.train.x.numpy()[whole], heart.train.y.numpy()[whole]
    fitted = DecisionTreeClassifier(max_depth=3, random_state=0).fit(x[:140], y[:140])
    scorer = du.robust_scorer(space, side="at least", rows=40)
    report = skore.EstimatorReport(fitted, X_test=x[140:], y_test=y[140:])
    report.metrics.add(scorer, name="robust_at_least")
    shown = report.metrics.summarize(metric="robust_at_least").frame()
    assert float(shown.iloc[0]) == scorer(fitted, x[140:], y[140:])
    assert "robust_at_least" in report.metrics.summarize().frame().index
