"""TabTransformer."""

from assay.architectures import TabTransformer

TASKS = ("url",)


def make(train, space, goal):
    return TabTransformer(train.schema, seed=0).fit(train.x, train.y, epochs=10)
