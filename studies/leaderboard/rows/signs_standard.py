"""SmallCNN, standard training."""

import networks

import durometer as du

TASKS = ("signs",)


def make(train, space, goal):
    net = du.training.fresh(networks.sign_net)
    return networks.fitted(net, train, du.training.Standard(), epochs=12)
