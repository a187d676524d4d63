"""RLN (Shavitt & Segal 2018): a regularisation coefficient for every single weight, learnt too.

Weights w follow the optimiser and are then pulled towards 0 by exp(lambda) each (L1). How would a
little more pull have changed the *unregularised* loss one step later? That derivative moves lambda
(their eq. 6-7), with g the gradient at the next step, eta the learning rate, nu that of lambda:

    w_t+1      = w_t - eta * g_t - exp(lambda_t) * sign(w_t)
    lambda_t+1 = lambda_t + nu * eta * g_t+1 * exp(lambda_t) * sign(w_t)

after which all lambdas of a layer are shifted back to the mean `theta`. Weights that do not matter
end at 0.

What a reader would get wrong: in the CAA authors' benchmark this update is constructed and never
called, so that their "RLN" is an MLP. Here it runs after every weight update (`after`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from durometer.architectures.tables.mlp import layers
from durometer.architectures.tables.tablenet import TableNet, Training
from durometer.core.streams import seeded
from durometer.tables.schema import Schema


class RLN(TableNet):
    """A regularisation learning network: every weight learns its own L1 coefficient (Shavitt &
    Segal, 2018).

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        widths: Units of the hidden layers.
        theta: Mean logarithm of the coefficients of a layer.
        nu: Rate at which the coefficients are learnt.
        seed: Seed of the first weights and of the training.

    >>> import torch
    >>> import durometer as du
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> du.architectures.RLN(schema, 3, widths=(4,)).eval()(torch.zeros(2, 8)).shape
    torch.Size([2, 3])
    """

    training_: ClassVar[Training] = Training(decay=0.0)  # it brings its own regularisation

    def __init__(
        self,
        schema: Schema,
        classes: int = 2,
        *,
        widths: Sequence[int] = (128, 64, 32),
        theta: float = -11.0,
        nu: float = 1e5,
        seed: int = 0,
    ) -> None:
        super().__init__(schema, classes, seed, widths=tuple(widths), theta=theta, nu=nu)
        self.theta, self.nu = theta, nu
        with seeded(seed):
            self.body = layers(self.input.size, *widths, classes)
        self._linear = [m for m in self.body if isinstance(m, nn.Linear)]
        for k, layer in enumerate(self._linear):
            blank = torch.zeros_like(layer.weight)
            self.register_buffer(f"log{k}", torch.full_like(blank, theta))  # lambda
            self.register_buffer(f"pull{k}", blank)  # what was last taken off each weight
            self.register_buffer(f"left{k}", layer.weight.detach().clone())  # ... and left of it

    def logits(self, z: Tensor) -> Tensor:
        """The logits (n, classes) of encoded records.

        Args:
            z: Encoded records (n, size).
        """
        out: Tensor = self.body(z)
        return out

    @torch.no_grad()
    def after(self) -> None:
        """Move every coefficient, then pull every weight by its own."""
        for k, layer in enumerate(self._linear):
            weight, log = layer.weight, self.get_buffer(f"log{k}")
            pull, left = self.get_buffer(f"pull{k}"), self.get_buffer(f"left{k}")
            # weight - left is the optimiser's step, -eta * g.
            log -= self.nu * (weight - left) * pull
            log += self.theta - log.mean()
            # No weight is pulled through 0, where the sign would turn; at 0 there is no pull.
            log.copy_(log.minimum(torch.where(weight == 0, 1.0, weight.abs()).log()))
            pull.copy_(weight.sign() * log.exp())
            weight -= pull
            left.copy_(weight)

    def share_of_zeros(self, below: float = 1e-3) -> float:
        """The share of weights that ended near 0.

        Args:
            below: What counts as near 0.
        """
        sizes = torch.cat([layer.weight.detach().abs().flatten() for layer in self._linear])
        return float((sizes < below).double().mean())
