"""TRADES (Zhang et al. 2019): right on clean rows, and the same answer around them.

    CE(f(x), y) + beta * KL(f(x) || f(x'))

`craft` finds x'. What a reader would get wrong: x' does not look at the label. It moves away from
what the network says of x, right or wrong; so here the attack is given the *predicted* class to
leave, which for two classes is the direction of the published inner maximisation, and lets every
attack and space of the library play that part.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from durometer.core.validation import noun
from durometer.training.adversarial import Craft
from durometer.training.loop import Batch
from durometer.training.weights import Weights, cross_entropy


@noun
class TRADES:
    """TRADES: cross entropy on clean rows plus a penalty for answering differently around them
    (Zhang et al., 2019).

    Args:
        craft: Makes the points around the rows: `CraftBy(attack, space)`, or a function (net, x, y,
            draw) -> x. It is given the predicted classes to leave.
        beta: Weight of the penalty; 1 to 6 as published.
        weights: Class weights: one number per class, "balanced", or None for equal ones.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> recipe = du.training.TRADES(du.training.CraftBy(du.PGD(2), du.Linf(0.05)))
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    craft: Craft
    beta: float = 6.0
    weights: Weights = None

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        draw = int(torch.randint(2**62, (1,), generator=batch.generator))
        net.eval()
        with torch.no_grad():
            said = net(batch.x).argmax(1)
        x = self.craft(net, batch.x, said, draw)
        net.train()
        clean, near = net(batch.x), net(x)
        apart = kl_div(
            near.log_softmax(1), clean.log_softmax(1), reduction="batchmean", log_target=True
        )
        yield cross_entropy(clean, batch, self.weights) + self.beta * apart
