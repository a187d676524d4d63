"""MLP, adversarial training (Madry, CAPGD inside)."""

import durometer as du
from durometer.architectures import MLP

TASKS = ("url", "lcld")


def make(train, space, goal):
    craft = du.training.CraftBy(du.CAPGD(5, clean=False), space)
    recipe = du.training.Adversarial(craft, 0.5, "balanced")
    net = MLP(train.schema, seed=0)
    return net.fit(train.x, train.y, recipe=recipe, validation=None, epochs=4, batch=512, rate=3e-3)
