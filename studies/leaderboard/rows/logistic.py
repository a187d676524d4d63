"""Logistic regression on standardised features."""

from encoded import fit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

TASKS = ("url", "lcld", "pima")


def make(train, space, goal):
    return fit(make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)), train)
