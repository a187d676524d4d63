"""TabNet."""

from durometer.architectures import TabNet

TASKS = ("url", "lcld")


def make(train, space, goal):
    return TabNet(train.schema, seed=0).fit(train.x, train.y, epochs=10)
