"""Random forest, 30 trees of depth 8."""

from encoded import fit
from sklearn.ensemble import RandomForestClassifier

TASKS = ("url", "lcld", "pima", "heart", "german", "adult")


def make(train, space, goal):
    return fit(RandomForestClassifier(30, max_depth=8, random_state=0), train)
