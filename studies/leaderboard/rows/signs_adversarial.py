"""SmallCNN, adversarial training (PGD inside, any wrong class)."""

import networks

import durometer as du

TASKS = ("signs",)


def make(train, space, goal):
    recipe = du.training.Adversarial(du.training.CraftBy(du.PGD(3), space), 0.5)
    return networks.fitted(du.training.fresh(networks.sign_net), train, recipe, epochs=6)
