"""RLN (regularisation learning network)."""

from durometer.architectures import RLN

TASKS = ("url", "lcld")


def make(train, space, goal):
    return RLN(train.schema, seed=0).fit(train.x, train.y, epochs=10)
