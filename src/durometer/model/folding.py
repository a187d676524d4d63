"""Batch normalisation folded into the layer before it, where that is all the layer's output is for.

In eval mode a batch normalisation is an affine map of each channel:

    W' = s W,   b' = s (b - mean) + beta,   s = gamma / sqrt(var + eps)

Who follows whom is found by watching one pass: every function of torch that takes the layer's
output, its weights or the statistics is seen, whatever the code of `forward` looks like. A pair is
folded if the layer ran once, and its output went to the normalisation and nowhere else.

What a reader would get wrong: one pass shows one way through the code. `Watch.read` says whether
the network looked at numbers on its way, by which it might choose another.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LAYERS = (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_RUNS = frozenset({
    F.linear, F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d,
    F.conv_transpose3d,
})  # fmt: skip
_BATCH_NORM = inspect.signature(F.batch_norm)
_LOOKS = frozenset({Tensor.dim, Tensor.size})  # at what folding does not change
_READS = frozenset({
    "__bool__", "__float__", "__int__", "__index__", "__array__", "__complex__", "item", "tolist",
     "numpy", "nonzero", "equal", "allclose", "is_nonzero",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Run:
    """One call of a function of torch."""

    function: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    out: Any


class Watch(TorchFunctionMode):
    """Who took which tensor; all are kept, so that an id stays one tensor's."""

    def __init__(self) -> None:
        super().__init__()
        self.takers: dict[int, list[_Run]] = {}
        self.maker: dict[int, _Run] = {}
        self.read = False  # numbers were read out of a tensor

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        self.read |= getattr(func, "__name__", "") in _READS
        run = _Run(func, args, named, func(*args, **named))
        for tensor in _tensors((args, named)):
            self.takers.setdefault(id(tensor), []).append(run)
        self.maker.setdefault(id(run.out), run)
        return run.out

    def only(self, run: _Run, *tensors: Tensor | None) -> bool:
        """Whether this run alone took each of these tensors; looking at a shape is no use of it."""
        takers = (self.takers.get(id(t), []) for t in tensors if t is not None)
        return all([r for r in took if r.function not in _LOOKS] == [run] for took in takers)


def _tensors(held: Any) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, list | tuple):
        for part in held:
            yield from _tensors(part)
    elif isinstance(held, dict):
        yield from _tensors(list(held.values()))


def pairs(parts: list[nn.Module], watch: Watch) -> Iterator[tuple[Any, Any]]:
    """Layers whose whole output is what one batch normalisation takes, with their own numbers."""
    layers: list[Any] = [m for m in parts if type(m) in _LAYERS]
    owners = [id(m.weight) for m in layers]
    by_weight = {id(m.weight): m for m in layers if owners.count(id(m.weight)) == 1}
    norms: list[Any] = [m for m in parts if type(m) in NORMS and m.running_mean is not None]
    for norm in norms:
        (run, *more) = watch.takers.get(id(norm.running_mean), [None])
        if run is None or more or run.function is not F.batch_norm:
            continue
        given = _BATCH_NORM.bind(*run.args, **run.named)
        given.apply_defaults()
        came, mean, var, weight, bias, training, _, eps = given.args
        mine = mean is norm.running_mean and var is norm.running_var and eps == norm.eps
        mine = mine and weight is norm.weight and bias is norm.bias and not training
        made = watch.maker.get(id(came))
        if not mine or made is None or made.function not in _RUNS or len(made.args) < 2:
            continue
        layer = by_weight.get(id(made.args[1]))
        if layer is None or came.ndim != layer.weight.ndim:  # or channels are not where they seem
            continue
        alone = watch.only(run, came, mean, var, weight, bias)
        if alone and watch.only(made, layer.weight, layer.bias):
            yield layer, norm


def fold(twin: nn.Module, layer: Any, norm: Any) -> None:
    """Put the normalisation into the layer before it; computed in double precision."""
    weight, mean, var = (t.double() for t in (layer.weight, norm.running_mean, norm.running_var))
    scale = (var + norm.eps).rsqrt()
    shift = -mean if layer.bias is None else layer.bias.double() - mean
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    shift = shift * scale
    if norm.bias is not None:
        shift = shift + norm.bias.double()
    if type(layer) in _TRANSPOSED:  # (in, out / groups, ...), the groups one after the other
        by_group = weight.unflatten(0, (layer.groups, -1))
        each = scale.reshape(layer.groups, 1, -1, *[1] * (weight.ndim - 2))
        weight = (by_group * each).flatten(0, 1)
    else:
        weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    layer.weight = nn.Parameter(weight.float(), requires_grad=False)
    layer.bias = nn.Parameter(shift.float(), requires_grad=False)
    for parent in list(twin.modules()):
        for name, child in parent.named_children():
            if child is norm:
                setattr(parent, name, nn.Identity())
