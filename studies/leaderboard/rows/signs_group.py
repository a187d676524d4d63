"""SmallCNN, adversarial training (PGD inside, the goal's own targets)."""

import networks

import durometer as du

TASKS = ("signs",)


def make(train, space, goal):
    place = train.classes.index
    harm = du.Group({place(s): [place(t) for t in targets] for s, targets in goal.relation.items()})
    recipe = du.training.Adversarial(du.training.CraftBy(du.PGD(3), space, harm), 0.5)
    return networks.fitted(du.training.fresh(networks.sign_net), train, recipe, epochs=6)
