"""TabTransformer."""

from durometer.architectures import TabTransformer

TASKS = ("url",)


def make(train, space, goal):
    return TabTransformer(train.schema, seed=0).fit(train.x, train.y, epochs=10)
