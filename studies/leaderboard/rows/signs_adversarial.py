"""SmallCNN, adversarial training (PGD inside, any wrong class)."""

import networks

import assay as ay

TASKS = ("signs",)


def make(train, space, goal):
    recipe = ay.training.Adversarial(ay.training.CraftBy(ay.PGD(3), space), 0.5)
    return networks.fitted(ay.training.fresh(networks.sign_net), train, recipe, epochs=6)
