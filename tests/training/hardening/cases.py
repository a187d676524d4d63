"""A small table in which hardening has something to do, and one model of each kind."""

import numpy as np
from catboost import CatBoostClassifier
from lightgbm import LGBMClassifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

import durometer as du


def rows(n=900, seed=0):
    """Two features the attacker may move, each alone enough; one that tells less, and stays put."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.random((n, 3))
    x[:, 0] = np.clip(0.47 + 0.06 * y + rng.normal(0, 0.02, n), 0, 1)
    x[:, 1] = np.clip(0.3 + 0.4 * y + rng.normal(0, 0.12, n), 0, 1)
    x[:, 2] = (rng.random(n) < 0.2 + 0.6 * y).astype(float)
    return du.Dataset(x, y)


MODELS = [
    XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1, random_state=0),
    LGBMClassifier(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1, random_state=0),
    CatBoostClassifier(iterations=15, depth=3, verbose=0, random_seed=0, thread_count=1,
                       allow_writing_files=False),
    RandomForestClassifier(10, max_depth=4, random_state=0),
    ExtraTreesClassifier(10, max_depth=4, random_state=0),
    GradientBoostingClassifier(n_estimators=15, random_state=0),
    HistGradientBoostingClassifier(max_iter=15, max_depth=3, random_state=0),
    make_pipeline(StandardScaler(), XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1)),
]  # fmt: skip
