"""The check in a suite of the real deepchecks (requirements/guests.sh deepchecks)."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import durometer as du
from durometer.plugins.deepchecks import RobustAccuracy

pytestmark = pytest.mark.heavy
WHY = "requirements/guests.sh deepchecks"
core = pytest.importorskip("deepchecks.core", reason=WHY, exc_type=ImportError)
tabular = pytest.importorskip("deepchecks.tabular", reason=WHY, exc_type=ImportError)

HEART = du.datasets.heart()
SPACE = HEART.train.schema.space(eps=0.02)


def frame() -> pd.DataFrame:
    x = pd.DataFrame(HEART.train.x.numpy(), columns=SPACE.schema.names)
    return x.assign(disease=HEART.train.y.numpy()).dropna().reset_index(drop=True)


@pytest.fixture(scope="module")
def loans():
    table = frame()
    fitted = RandomForestClassifier(5, max_depth=3, random_state=0)
    fitted.fit(table.drop(columns="disease"), table["disease"])
    return fitted, tabular.Dataset(table, label="disease", cat_features=[])


def test_the_value_is_the_figure_of_evaluate(loans) -> None:
    fitted, rows = loans
    found = RobustAccuracy(SPACE, rows=60, seed=3).run(rows, fitted).value
    table = frame()
    data = du.Dataset(table.drop(columns="disease"), table["disease"], schema=SPACE.schema)
    own = du.evaluate(fitted, data.sample(60, 3), space=SPACE, seed=3, progress=False)
    for side, metric in (("clean", "clean"), ("at least", "proven"), ("at most", "robust")):
        assert found[side]["value"] == float(own.metric(metric))
        assert found[side]["low"] <= found[side]["value"] <= found[side]["high"]


def test_conditions_pass_fail_and_warn_in_a_suite(loans) -> None:
    fitted, rows = loans
    check = RobustAccuracy(SPACE, rows=60)
    value = check.run(rows, fitted).value["at most"]
    bounds = {value["low"] - 0.01: "PASS", value["high"] + 0.01: "FAIL", value["value"]: "WARN"}
    suite = tabular.Suite("robust", *(RobustAccuracy(SPACE, rows=60).add_condition_robust(b)
                              for b in bounds))  # fmt: skip
    results = suite.run(train_dataset=rows, model=fitted, with_display=False)
    got = {c.name: c.category for r in results.results for c in r.conditions_results}
    assert got == {
        f"Robust accuracy, at most, is not below {bound:g}": getattr(core.ConditionCategory, name)
        for bound, name in bounds.items()
    }
    assert not results.passed()
    json.loads(results.to_json(with_display=False))


def test_what_is_not_proven_is_no_pass(loans) -> None:
    table = frame()
    near = KNeighborsClassifier().fit(table.drop(columns="disease"), table["disease"])
    check = RobustAccuracy(SPACE, rows=20).add_condition_robust(0.1, side="at least")
    found = check.run(loans[1], near)
    assert found.value["at least"] is None
    assert found.conditions_results[0].category == core.ConditionCategory.WARN


def test_wrong_arguments_are_sentences() -> None:
    with pytest.raises(du.DurometerError, match="rows=0"):
        RobustAccuracy(SPACE, rows=0)
    with pytest.raises(du.DurometerError, match="expected a share"):
        RobustAccuracy(SPACE).add_condition_robust(80)
    with pytest.raises(du.DurometerError, match="expected 'at least'"):
        RobustAccuracy(SPACE).add_condition_robust(0.8, side="both")
