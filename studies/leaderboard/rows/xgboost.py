"""XGBoost, 60 trees of depth 4."""

from encoded import fit

TASKS = ("url", "lcld", "pima", "heart", "german", "adult")


def make(train, space, goal):
    from xgboost import XGBClassifier

    return fit(
        XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1, enable_categorical=True), train
    )
