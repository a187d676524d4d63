"""STG (stochastic gates)."""

from durometer.architectures import STG

TASKS = ("url", "lcld")


def make(train, space, goal):
    return STG(train.schema, seed=0).fit(train.x, train.y, epochs=10)
