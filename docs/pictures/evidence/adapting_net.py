"""A small network with BatchNorm layers, trained on the spot: what TENT adapts in adapting.toml."""

import assay as ay
from assay.architectures import SmallCNN
from assay.training.loop import fit, fresh
from assay.training.standard import Standard


def net() -> SmallCNN:
    """Trained as usual, and for a short time."""
    made = fresh(lambda: SmallCNN(10, channels=1, width=8))
    fit(made, ay.datasets.mnist().train.sample(1000), Standard(), epochs=4)
    return made.eval()
