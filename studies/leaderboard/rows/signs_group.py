"""SmallCNN, adversarial training (PGD inside, the goal's own targets)."""

import networks

import assay as ay

TASKS = ("signs",)


def make(train, space, goal):
    place = train.classes.index
    harm = ay.Group({place(s): [place(t) for t in targets] for s, targets in goal.relation.items()})
    recipe = ay.training.Adversarial(ay.training.CraftBy(ay.PGD(3), space, harm), 0.5)
    return networks.fitted(ay.training.fresh(networks.sign_net), train, recipe, epochs=6)
