"""MLP."""

from durometer.architectures import MLP

TASKS = ("url", "lcld", "pima")


def make(train, space, goal):
    return MLP(train.schema, seed=0).fit(train.x, train.y, epochs=10)
