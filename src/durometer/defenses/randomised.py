"""Randomised: a model that draws something each time it is asked, judged on average.

    Rob = P( F(x') not in T ),    over the inputs *and* over the draw of F

(Lin et al. 2024, II-C, where the target classifier may be random; random resizing, noise layers,
dropout that stays on, ensembles drawn at random.) To a fixed game such a model is a broken one: the
attacker keeps the draw it was lucky in. Here the draw is the model's move after the attacker's:
`Transductive(Randomised(net), runs=R)` asks R fresh draws for their answers, figures are means over
them, and `over="worst"` counts the rows that hold in all.

What a reader would get wrong: a module's own draws are shared by the rows it is asked with, so a
row is always asked among its batch. Attackers rehearse draws of their own, several at a time
(`GMSA(simulations=3)`: expectation over transformations), never the referee's.
"""

from __future__ import annotations

import copy
from dataclasses import field

import torch
from torch import Tensor, nn

from durometer.core.streams import seeded
from durometer.core.validation import noun
from durometer.defenses.stateless import Stateless
from durometer.model.classifier import Classifier, wrap


@noun(eq=False)
class Randomised(Stateless):
    """A model with random numbers in its forward pass, judged on average over fresh draws.

    The draw comes after the attacker: `Transductive(Randomised(net), runs=R)` asks R draws; metrics
    are means, and `over="worst"` counts the rows that hold in all.

    Args:
        model: The network.
        keep: Kinds of layers that stay in training mode. Default: dropout layers.

    >>> net = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2))
    >>> defender, x = Randomised(net, keep=(nn.Dropout,)), torch.ones(3, 4)
    >>> one, _ = defender.adapt(None, x, seed=1)
    >>> two, _ = defender.adapt(None, x, seed=2)
    >>> torch.equal(one.logits(x), one.logits(x)), torch.equal(one.logits(x), two.logits(x))
    (True, False)
    """

    model: nn.Module = field(repr=False)
    keep: tuple[type[nn.Module], ...] = (nn.Dropout, nn.Dropout1d, nn.Dropout2d)

    def base(self, state: None) -> Classifier:
        """The classifier of one draw: there is no model without any. See `Defender.base`."""
        return self._drawn(0)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        return self._drawn(seed), None

    def unrolled(self, state: None, x: Tensor, seed: int) -> tuple[Tensor, None]:
        """The logits on a batch, differentiable with respect to the batch; for `Unrolled`.

        The draw is that of the seed.

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
        return self._drawn(seed).logits(x), None

    def _drawn(self, seed: int) -> Classifier:
        net = copy.deepcopy(self.model).eval().requires_grad_(False)
        for layer in net.modules():
            if isinstance(layer, self.keep):
                layer.train()
        inside = wrap(net)

        def call(x: Tensor) -> Tensor:
            with seeded(seed):
                out: Tensor = torch.as_tensor(inside.call(x))
            return out

        name = f"Randomised torch {type(self.model).__name__}"
        return Classifier(call, name, True, together=True, slack=1e-5)
