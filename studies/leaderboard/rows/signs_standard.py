"""SmallCNN, standard training."""

import networks

import assay as ay

TASKS = ("signs",)


def make(train, space, goal):
    net = ay.training.fresh(networks.sign_net)
    return networks.fitted(net, train, ay.training.Standard(), epochs=12)
