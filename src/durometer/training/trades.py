"""TRADES (Zhang et al. 2019): right on clean rows, and the same answer around them.

    CE(f(x), y) + beta * KL(f(x) || f(x'))

`craft` finds x'. What a reader would get wrong: x' does not look at the label. It moves away from
what the network says of x, right or wrong; so here the attack is given the *predicted* class to
leave, which for two classes is the direction of the published inner maximisation, and lets every
attack and space of the library play that part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from durometer.core.validation import noun
from durometer.training.loop import Batch
from durometer.training.weights import Weights, cross_entropy


@noun
class TRADES:
    """`beta` is the price of changing the answer (published: 1 to 6).

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> history = du.training.fit(
    ...     net,
    ...     data,
    ...     du.training.TRADES(du.training.CraftBy(du.PGD(2), du.Linf(0.1))),
    ...     epochs=2,
    ... )
    >>> len(history)
    2
    """

    craft: Any
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
