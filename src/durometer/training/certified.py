"""Certified training by interval bounds (Gowal et al. 2018), in any space that has a box.

The box of each row goes through the network layer by layer; the loss is the cross entropy of the
worst logits that the boxes allow, for the classes that the goal names, mixed with that of the clean
ones. The box grows from nothing to its full size over the first `ramp` of the steps asked for.

What a reader would get wrong: a table's box is rounded inwards to whole numbers and leaves out the
relations, so what is trained against is larger than what an attacker has. And at a large eps such
training ends in a network that reads only what nobody can move: look at the accuracy of each class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from torch import Tensor, nn

from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Goal
from durometer.spaces.region import Space
from durometer.training.loop import Batch
from durometer.training.weights import Weights, cross_entropy

MONOTONE = (nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Identity)


@noun
class Certified:
    """Certified training by interval bounds (Gowal et al., 2018).

    The loss mixes the clean cross entropy with that of the worst logits over each row's box; the
    box grows to its full size over the first updates. At a large eps the network may end up using
    only features that nobody can change.

    Args:
        space: The space; its box is what is trained against, without relations.
        goal: The classes that the attacker wants. Default `Untargeted()`.
        kappa: Weight of the worst case at full size, from 0 to 1.
        steps: Updates until the box has its full size.
        weights: Class weights: one number per class, "balanced", or None for equal ones.

    Raises:
        DurometerError: A parameter has an impossible value.
        Unsupported: The network has a layer without interval bounds; raised while training.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> recipe = du.training.Certified(du.Linf(0.02), steps=10)
    >>> history = du.training.fit(net, data, recipe, epochs=20, rate=0.05)
    >>> history[-1].loss < history[0].loss, du.training.accuracy(net, data) > 0.5
    (True, True)
    """

    space: Space
    goal: Goal = field(default=Untargeted())
    kappa: float = field(default=0.5, metadata={"most": 1})
    steps: int = 200
    weights: Weights = None

    def losses(self, net: nn.Module, batch: Batch) -> Iterator[Tensor]:
        done = int(batch.memory.get("certified", 0))
        batch.memory["certified"] = done + 1
        size = min(1.0, done / self.steps)
        net.train()
        clean = net(batch.x)
        loss = (1 - self.kappa * size) * cross_entropy(clean, batch, self.weights)
        if size > 0:
            low, high = (b.to(batch.x.dtype) for b in self.space.around(batch.x).box())
            low, high = batch.x + size * (low - batch.x), batch.x + size * (high - batch.x)
            may = self.goal.targets(batch.y, clean.detach(), batch.rows, batch.data.classes)
            worst = clean + lead(net, low, high, batch.y, clean) * may
            loss = loss + self.kappa * size * cross_entropy(worst, batch, self.weights)
        yield loss


def lead(net: nn.Module, low: Tensor, high: Tensor, y: Tensor, clean: Tensor) -> Tensor:
    """(n, C): how much each class may gain on the true one anywhere in the box, beyond `clean`.

    >>> import torch
    >>> from torch import nn
    >>> from durometer.training.certified import lead
    >>> net = nn.Sequential(nn.Linear(1, 2, bias=False)).double()
    >>> _ = net[0].weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    >>> x = torch.zeros(1, 1, dtype=torch.float64)
    >>> lead(net, x - 0.5, x + 0.5, torch.tensor([0]), net(x))
    tensor([[0., 1.]], dtype=torch.float64, grad_fn=<SubBackward0>)
    """
    layers = list(_layers(net))
    last = layers.pop()
    if not isinstance(last, nn.Linear):
        raise Unsupported(f"interval bounds end in a Linear layer, not in {type(last).__name__}")
    for layer in layers:
        low, high = _through(layer, low, high)
    middle, radius = (low + high) / 2, (high - low) / 2
    gain = last.weight[None] - last.weight[y][:, None]  # (n, C, h)
    offset = 0.0 if last.bias is None else last.bias[None] - last.bias[y][:, None]
    most = (gain @ middle[..., None])[..., 0] + (gain.abs() @ radius[..., None])[..., 0] + offset
    return most - (clean - clean.gather(1, y[:, None]))


def _layers(net: nn.Module) -> Iterator[nn.Module]:
    if isinstance(net, nn.Sequential):
        for child in net:
            yield from _layers(child)
    else:
        yield net


def _through(layer: nn.Module, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(layer, nn.Linear):
        middle, radius = (low + high) / 2, (high - low) / 2
        centre, spread = layer(middle), radius @ layer.weight.abs().T
        return centre - spread, centre + spread
    numbers = getattr(layer, "numbers", None)  # a TableInput of numbers alone scales each of them
    if isinstance(layer, (*MONOTONE, nn.Flatten)) or (
        isinstance(numbers, Tensor) and len(numbers) == low.shape[1]
    ):
        return layer(low), layer(high)
    raise Unsupported(
        f"interval bounds know Linear, Flatten and {', '.join(m.__name__ for m in MONOTONE)} in a "
        f"Sequential, not {type(layer).__name__}; use Adversarial"
    )
