"""CatBoost, 60 trees of depth 4."""

from encoded import fit

TASKS = ("url", "lcld", "pima", "heart", "german")


def make(train, space, goal):
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(
        60, depth=4, verbose=0, thread_count=1, random_seed=0, allow_writing_files=False
    )
    return fit(model, train)
