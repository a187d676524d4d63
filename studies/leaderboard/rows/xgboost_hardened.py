"""XGBoost, hardened (durometer harden, six rounds)."""

from encoded import fit
from xgboost import XGBClassifier

import durometer as du

TASKS = ("url", "lcld", "pima")


def make(train, space, goal):
    model = fit(
        XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1, enable_categorical=True), train
    )
    return du.training.harden(
        model, train, space, goal, rounds=6, max_loss=0.03, progress=False
    ).model
