"""Certified training by interval bounds (Gowal et al. 2018), in any space that has a box.

The box of each row goes through the network layer by layer; the loss is the cross entropy of the
worst logits that the boxes allow, for the classes that the goal names, mixed with that of the clean
rows, or of attacked ones (MTL-IBP, De Palma et al. 2024). The box grows from nothing to its full
size over the first `steps` updates.

What a reader would get wrong: a table's box is rounded inwards to whole numbers and leaves out the
relations, so what is trained against is larger than what an attacker has. And at a large eps such
training ends in a network that reads only what nobody can move: look at the accuracy of each class.
In training mode a batch normalisation takes the statistics of the clean rows for the boxes, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import torch
from torch import Tensor, nn

from durometer.architectures.tables.tableinput import TableInput
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Goal
from durometer.spaces.region import Space
from durometer.training.adversarial import Craft
from durometer.training.loop import Batch
from durometer.training.weights import Weights, cross_entropy

_LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
MONOTONE = (nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Identity)


@noun
class Certified:
    """Certified training by interval bounds (IBP, Gowal et al., 2018; MTL-IBP, De Palma et al.,
    2024).

    The loss mixes the cross entropy of the clean rows, or of attacked ones, with that of the worst
    logits over each row's box; the box grows to its full size over the first updates. Networks are
    Sequential: linear layers, convolutions, batch normalisation, pooling, monotone activations. At
    a large eps the network may end up using only features that nobody can change.

    Args:
        space: The space; its box is what is trained against, without relations.
        goal: The classes that the attacker wants. Default `Untargeted()`.
        kappa: Weight of the worst case at full size, from 0 to 1.
        steps: Updates until the box has its full size.
        weights: Class weights: one number per class, "balanced", or None for equal ones.
        craft: Makes the rows of the other part of the loss: `CraftBy(PGD(8), space)` for MTL-IBP,
            which keeps more accuracy. None: the clean rows.

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
    craft: Craft | None = None

    def losses(self, net: nn.Module, batch: Batch) -> Iterator[Tensor]:
        done = int(batch.memory.get("certified", 0))
        batch.memory["certified"] = done + 1
        size = min(1.0, done / self.steps)
        crafted = None
        if self.craft is not None and self.kappa < 1:
            draw = int(torch.randint(2**62, (1,), generator=batch.generator))
            crafted = self.craft(net, batch.x, batch.y, draw)
        net.train()
        clean = net(batch.x)
        other = clean if crafted is None else net(crafted)
        loss = (1 - self.kappa * size) * cross_entropy(other, batch, self.weights)
        if size > 0:
            low, high = (b.to(batch.x.dtype) for b in self.space.around(batch.x).box())
            low, high = batch.x + size * (low - batch.x), batch.x + size * (high - batch.x)
            may = self.goal.targets(batch.y, clean.detach(), batch.rows, batch.data.classes)
            worst = clean + lead(net, low, high, batch.y, clean, batch.x) * may
            loss = loss + self.kappa * size * cross_entropy(worst, batch, self.weights)
        yield loss


def lead(
    net: nn.Module, low: Tensor, high: Tensor, y: Tensor, clean: Tensor, x: Tensor | None = None
) -> Tensor:
    """(n, C): how much each class may gain on the true one anywhere in the box, beyond `clean`.

    `x` are the clean rows, by default the middle of the box.

    >>> import torch
    >>> from torch import nn
    >>> from durometer.training.certified import lead
    >>> net = nn.Sequential(nn.Linear(1, 2, bias=False)).double()
    >>> _ = net[0].weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    >>> x = torch.zeros(1, 1, dtype=torch.float64)
    >>> lead(net, x - 0.5, x + 0.5, torch.tensor([0]), net(x))
    tensor([[0., 1.]], dtype=torch.float64, grad_fn=<SubBackward0>)
    """
    point = low + (high - low) / 2 if x is None else x
    layers = list(_layers(net))
    last = layers.pop()
    if type(last) is not nn.Linear:
        raise Unsupported(f"interval bounds end in a Linear layer, not in {type(last).__name__}")
    for layer in layers:
        low, high, point = _through(layer, low, high, point)
    middle, radius = (low + high) / 2, (high - low) / 2
    gain = last.weight[None] - last.weight[y][:, None]  # (n, C, h)
    offset = 0.0 if last.bias is None else last.bias[None] - last.bias[y][:, None]
    most = (gain @ middle[..., None])[..., 0] + (gain.abs() @ radius[..., None])[..., 0] + offset
    return most - (clean - clean.gather(1, y[:, None]))


def trainable(net: nn.Module) -> bool:
    """Does the network have layers with interval bounds only?"""
    *inner, last = _layers(net)
    known = (*MONOTONE, *_LINEAR, *_POOLS, *_NORMS, nn.Flatten)
    return type(last) is nn.Linear and all(
        type(layer) in known or isinstance(layer, TableInput) for layer in inner
    )


def _layers(net: nn.Module) -> Iterator[nn.Module]:
    if isinstance(net, nn.Sequential):
        for child in net:
            yield from _layers(child)
    else:
        yield net


def _through(
    layer: nn.Module, low: Tensor, high: Tensor, point: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The box behind a layer, and the clean rows, whose statistics a normalisation takes."""
    if isinstance(layer, _LINEAR) and getattr(layer, "padding_mode", "zeros") == "zeros":
        middle, radius = (low + high) / 2, (high - low) / 2
        centre, spread = layer(middle), _size(layer, radius)
        return centre - spread, centre + spread, layer(point)
    if isinstance(layer, _NORMS) and layer.weight is not None:
        mean, variance = layer.running_mean, layer.running_var
        if layer.training or mean is None or variance is None:
            over = [d for d in range(point.ndim) if d != 1]
            mean, variance = point.mean(over), point.var(over, correction=0)
        shape = (1, -1, *[1] * (point.ndim - 2))
        factor = (layer.weight / (variance + layer.eps).sqrt()).reshape(shape)
        shift = layer.bias.reshape(shape) - mean.reshape(shape) * factor
        middle, radius = (low + high) / 2 * factor + shift, (high - low) / 2 * factor.abs()
        return middle - radius, middle + radius, point * factor + shift
    if isinstance(layer, (*MONOTONE, *_POOLS, nn.Flatten)) or (
        isinstance(layer, TableInput) and len(layer.numbers) == low.shape[1]  # it scales each
    ):
        return layer(low), layer(high), layer(point)
    names = (*_LINEAR, *_NORMS, *_POOLS, nn.Flatten, *MONOTONE)
    raise Unsupported(
        f"interval bounds know {', '.join(m.__name__ for m in names)} in a Sequential, not "
        f"{type(layer).__name__}; use Adversarial"
    )


def _size(layer: nn.Module, radius: Tensor) -> Tensor:
    """|W| radius."""
    if isinstance(layer, nn.Linear):
        return radius @ layer.weight.abs().T
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))
    run = nn.functional.conv2d if isinstance(layer, nn.Conv2d) else nn.functional.conv1d
    out: Tensor = run(
        radius, layer.weight.abs(), None, layer.stride, layer.padding, layer.dilation, layer.groups
    )
    return out
