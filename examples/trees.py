"""Forests and boosted trees for the trees_*.toml (addresses, loans) and noise.toml beside it.

`durometer run` calls the function that the file names; nothing else has to be run. The bundled
loans are few and all of them test rows, so those models have seen what they are attacked on: their
clean accuracy means nothing, whether they can be attacked does.
"""

from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import durometer as du


def url_forest():
    return _forest(du.datasets.url().train)


def url_xgboost():
    return _boosted(du.datasets.url().train)


def lcld_forest():
    return _forest(du.datasets.lcld().test)


def lcld_xgboost():
    return _boosted(du.datasets.lcld().test)


def pima_forest():
    data = du.datasets.pima().train
    forest = RandomForestClassifier(20, max_depth=6, random_state=0)
    return forest.fit(data.x.numpy(), data.y.numpy())


def _forest(data):
    forest = RandomForestClassifier(100, class_weight="balanced", random_state=0)
    return forest.fit(data.x.numpy(), data.y.numpy())


def _boosted(data):
    odds = float((data.y == 0).sum() / (data.y == 1).sum())  # bad loans are rare
    trees = XGBClassifier(n_estimators=100, scale_pos_weight=odds, random_state=0, n_jobs=1)
    return trees.fit(data.x.numpy(), data.y.numpy())
