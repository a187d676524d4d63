"""A faster copy of a network for attacks to ask: batch normalisation folded, channels last.

In eval mode a batch normalisation is an affine map of each channel, so one that follows a
convolution or a linear layer goes into that layer's weights, W' = s W, b' = s (b - mean) + beta
with s = gamma / sqrt(var + eps), and costs nothing more. Convolutions in two dimensions are faster
on a processor when the channels of a pixel lie side by side (`channels_last`).

A pair is found by watching one pass of the copy: every function of torch that takes the layer's
output, its weights or the statistics is seen, whatever the code of `forward` looks like. It is
folded if the layer ran once, and its output went to the normalisation and nowhere else. A network
that looks at the values on its way (an `if` on a tensor, `item()`) may go another way on another
input, which one pass does not show: it is not copied. A copy is given back only if it was then
found to answer as the network does: logits within `AGREE` of the largest one, gradients likewise,
on rows of the data and between and beside them.

What a reader would get wrong: the copy is no authority. It steers; what it holds for a success is
asked of the network itself before it counts (`Referee.judge`), and proofs read the network.

Channels last is a rule of sizes, never of a clock: three `Conv2d`, or two and a max pooling. Time
of a forward and backward pass over the network's own (one thread, batches of 8, 64 and 256):

    ResNet, width 16, 32, 64       0.68-0.74  0.81-0.83  0.61-0.87     folded alone 0.64-0.96
    MobileNet 16, 24               0.33-0.61  0.40-0.67                             0.51-0.78
    VGG 16, 32, 64                 0.66-0.82  0.79-0.88  0.88-1.01                  0.90-0.98
    ShuffleNet 32, 64              0.66-0.67  0.68-0.91                             0.73-0.90
    SqueezeNet 32, 64              0.61-0.77  0.64-0.71                             0.95-0.98
    SmallCNN; NormLeNet; LeNet     0.80-0.83  0.70-0.72  0.63-0.88
    two of 16 channels and more, no pooling: 0.87-1.38, the gradient of the first one is dearer
"""

from __future__ import annotations

import copy
import inspect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

from assay.devices import on_host
from assay.model.classifier import Classifier

AGREE = 1e-5  # of the largest logit of a row; also of a row's largest gradient
_ROWS = 8  # of the data; as many again lie between and beside them
_STEADY = 0.25  # of the rows at least: in others a ReLU switches within rounding
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LAYERS = (nn.Linear, *_CONVOLUTIONS, *_TRANSPOSED)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
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
class InferenceCopy:
    """A copy that was found to answer as its model does, and how it differs."""

    model: Classifier  # to be asked in place of the original
    folded: int
    channels_last: bool
    made_of: dict[str, tuple[int, int]] = field(repr=False)  # the weights as they were then

    @property
    def described(self) -> str:
        """What a spec says of it."""
        parts = [f"{self.folded} batch normalisations folded"] if self.folded else []
        return ", ".join(parts + ["channels last"] * self.channels_last)

    def fresh(self, model: Classifier) -> bool:
        """Whether the weights are still the tensors they were, not written to by an optimiser."""
        return self.made_of == _weights(model.module)


def inference_copy(model: Classifier, x: Tensor) -> InferenceCopy | None:
    """A faster copy of a torch module, tried on these rows; None: ask the module itself.

    >>> import assay as ay
    >>> net = ay.wrap(ay.architectures.resnet20(width=4))
    >>> inference_copy(net, torch.rand(4, 3, 32, 32)).described
    '21 batch normalisations folded, channels last'
    """
    if not _may_be_copied(model, x):
        return None
    with model.ready():
        for by_channels in (True, False):  # a `view` may not like channels last
            try:
                made = _made(model, x, by_channels)
                if made is not None and _agrees(model, made.model, x):
                    kept = replace(made.model, call=_or_else(made.model.call, model.call))
                    return replace(made, model=kept)
            except Exception:  # whatever user code does when it is copied or watched
                continue
        return None


def _may_be_copied(model: Classifier, x: Tensor) -> bool:
    """A plain module of float32 on a processor, with something to gain."""
    module = model.module
    if module is None or model.source is not module or not model.differentiable:
        return False
    if model.takes != "tensor" or model.reads != "numbers" or model.bound or model.together:
        return False
    if isinstance(module, torch.jit.ScriptModule) or not len(x):
        return False
    if not (x.is_floating_point() and on_host(x.device)):
        return False
    parts = list(module.modules())
    kinds = {type(m) for m in parts}
    if not (kinds & set(_NORMS) or (nn.Conv2d in kinds and x.ndim == 4)):
        return False
    held = [*module.parameters(), *module.buffers()]
    plain = all(type(t) in (nn.Parameter, Tensor) and on_host(t.device) for t in held)
    single = all(t.dtype == torch.float32 for t in held if t.is_floating_point())
    return plain and single and not any(_watched(m) for m in parts)


def _watched(m: nn.Module) -> bool:
    """Somebody looks on, or computes the weights (`weight_norm`), or it is compiled already."""
    compiled = getattr(m, "_compiled_call_impl", None) is not None
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return compiled or hasattr(m, "_orig_mod") or any(getattr(m, name, None) for name in names)


def _by_channels(watch: _Watch, x: Tensor) -> bool:
    """The rule of the docstring."""
    ran = [getattr(run.function, "__name__", "") for run in watch.maker.values()]
    enough = 2 if any(name.startswith("max_pool2d") for name in ran) else 3
    return x.ndim == 4 and ran.count("conv2d") >= enough


def _made(model: Classifier, x: Tensor, channels_last: bool = True) -> InferenceCopy | None:
    twin: nn.Module = copy.deepcopy(model.module).requires_grad_(False)
    noted = _notes(twin)
    watch = _Watch()
    with torch.no_grad(), watch:
        twin(x[:2].to(torch.float32))
    if _notes(twin) != noted:
        return None  # it keeps a note of what it is asked, and its owner may read it
    if watch.read:
        return None  # it may go another way on another input
    parts = list(twin.modules())
    by_channels = channels_last and _by_channels(watch, x)
    pairs = list(_pairs(parts, watch))
    for layer, norm in pairs:
        _fold(twin, layer, norm)
    if by_channels:
        twin.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if not pairs and not by_channels:
        return None

    def call(x: Tensor) -> Any:
        there = x.to(torch.float32)
        if by_channels:
            there = there.contiguous(memory_format=torch.channels_last)
        return twin(there)

    asked = replace(model, call=call, module=twin, source=twin)
    return InferenceCopy(asked, len(pairs), by_channels, _weights(model.module))


def _or_else(call: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """The copy's answer, and from its first failure on the network's: a way not taken before."""
    using = [call]

    def answer(x: Tensor) -> Any:
        try:
            return using[0](x)
        except Exception:
            using[0] = original
            return original(x)

    return answer


@dataclass(frozen=True, eq=False)
class _Run:
    """One call of a function of torch."""

    function: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    out: Any


class _Watch(TorchFunctionMode):
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


def _pairs(parts: list[nn.Module], watch: _Watch) -> Iterator[tuple[Any, Any]]:
    """Layers whose whole output is what one batch normalisation takes, with their own numbers."""
    layers: list[Any] = [m for m in parts if type(m) in _LAYERS]
    owners = [id(m.weight) for m in layers]
    by_weight = {id(m.weight): m for m in layers if owners.count(id(m.weight)) == 1}
    norms: list[Any] = [m for m in parts if type(m) in _NORMS and m.running_mean is not None]
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


def _fold(twin: nn.Module, layer: Any, norm: Any) -> None:
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


def _agrees(model: Classifier, twin: Classifier, x: Tensor) -> bool:
    """Same logits on every row, and same gradients on nearly all."""
    points = _points(x[:_ROWS])
    (a, da), (b, db) = _answers(model, points), _answers(twin, points)
    logits = _far(a, b) <= AGREE
    steady = _far(da.flatten(1), db.flatten(1)) <= AGREE
    return bool(logits.all()) and float(steady.double().mean()) >= _STEADY


def _points(x: Tensor) -> Tensor:
    """Rows, and as many between two of them, moved by up to a tenth of the range."""
    low, high = x.amin(), x.amax()
    draw = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).to(x.dtype)
    middle = 0.75 * x + 0.25 * x.flip(0) + (draw - 0.5) * 0.2 * (high - low)
    return torch.cat([x, middle.clamp(low, high)])


def _answers(model: Classifier, x: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        logits = model.logits(leaf)
        each = torch.arange(logits.shape[1], dtype=logits.dtype).cos()  # no two classes alike
        (slope,) = torch.autograd.grad((logits * each).sum(), leaf)
    return logits.detach(), slope


def _far(a: Tensor, b: Tensor) -> Tensor:
    """(n,) how far two rows are apart, relative to their size or the mean one, if that is larger (a
    logit may be 0 where classes meet); not finite: NaN, which no limit is above."""
    size = a.abs().amax(1)
    size = size.maximum(size.mean())
    return torch.where(size > 0, (a - b).abs().amax(1) / size, (a - b).abs().amax(1))


def _weights(module: nn.Module) -> dict[str, tuple[int, int]]:
    """Which tensor each weight is, and how often it was written to."""
    held = (*module.named_parameters(), *module.named_buffers())
    return {name: (id(t), t._version) for name, t in held}  # noqa: SLF001


def _notes(module: nn.Module) -> list[Any]:
    """What the parts of a module hold: ids of things, tensors with how often they were written to,
    and what lists are made of."""
    return [_note(vars(m)) for m in module.modules()]


def _note(thing: Any) -> Any:
    if isinstance(thing, Tensor):
        return id(thing), thing._version  # noqa: SLF001
    if isinstance(thing, dict):
        return [(key, _note(value)) for key, value in thing.items()]
    if isinstance(thing, list | tuple | set | deque):
        return [_note(value) for value in thing]
    return repr(thing) if isinstance(thing, int | float | str) else id(thing)
