"""A small network with BatchNorm layers, trained on the spot: what TENT adapts in adapting.toml."""

import durometer as du
from durometer.architectures import SmallCNN
from durometer.training.loop import fit, fresh
from durometer.training.standard import Standard


def net() -> SmallCNN:
    """Trained as usual, and for a short time."""
    made = fresh(lambda: SmallCNN(10, channels=1, width=8))
    fit(made, du.datasets.mnist().train.sample(1000), Standard(), epochs=4)
    return made.eval()
