"""VIME (self-supervised)."""

from durometer.architectures import VIME

TASKS = ("url", "lcld")


def make(train, space, goal):
    return VIME(train.schema, seed=0).fit(train.x, train.y, epochs=10)
