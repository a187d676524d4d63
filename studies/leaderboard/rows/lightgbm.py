"""LightGBM, 60 trees of 15 leaves."""

from encoded import fit

TASKS = ("url", "lcld", "pima", "heart", "german", "adult")


def make(train, space, goal):
    from lightgbm import LGBMClassifier

    return fit(
        LGBMClassifier(n_estimators=60, num_leaves=15, n_jobs=1, random_state=0, verbose=-1), train
    )
