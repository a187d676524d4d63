"""A faster copy of a network for attacks to ask: batch normalisation folded, channels last.

A normalisation that follows a convolution or a linear layer goes into that layer's weights
(`folding.py`) and costs nothing more. Convolutions in two dimensions are faster on a processor when
the channels of a pixel lie side by side (`channels_last`).

A network that looks at the values on its way (an `if` on a tensor, `item()`) may go another way on
another input, which one pass does not show: it is not copied. A copy is given back only if it was
then found to answer as the network does: logits within `AGREE` of the largest one, gradients
likewise, on rows of the data and between and beside them.

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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from durometer.core.devices import is_cpu
from durometer.model.classifier import Classifier
from durometer.model.folding import NORMS, Watch, fold, pairs

AGREE = 1e-5  # of the largest logit of a row; also of a row's largest gradient
_ROWS = 8  # of the data; as many again lie between and beside them
_STEADY = 0.25  # of the rows at least: in others a ReLU switches within rounding


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

    >>> import durometer as du
    >>> net = du.wrap(du.architectures.resnet20(width=4))
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
    if not (x.is_floating_point() and is_cpu(x.device)):
        return False
    parts = list(module.modules())
    kinds = {type(m) for m in parts}
    if not (kinds & set(NORMS) or (nn.Conv2d in kinds and x.ndim == 4)):
        return False
    held = [*module.parameters(), *module.buffers()]
    plain = all(type(t) in (nn.Parameter, Tensor) and is_cpu(t.device) for t in held)
    single = all(t.dtype == torch.float32 for t in held if t.is_floating_point())
    return plain and single and not any(_watched(m) for m in parts)


def _watched(m: nn.Module) -> bool:
    """Somebody looks on, or computes the weights (`weight_norm`), or it is compiled already."""
    compiled = getattr(m, "_compiled_call_impl", None) is not None
    names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return compiled or hasattr(m, "_orig_mod") or any(getattr(m, name, None) for name in names)


def _by_channels(watch: Watch, x: Tensor) -> bool:
    """The rule of the docstring."""
    ran = [getattr(run.function, "__name__", "") for run in watch.maker.values()]
    enough = 2 if any(name.startswith("max_pool2d") for name in ran) else 3
    return x.ndim == 4 and ran.count("conv2d") >= enough


def _made(model: Classifier, x: Tensor, channels_last: bool = True) -> InferenceCopy | None:
    twin: nn.Module = copy.deepcopy(model.module).requires_grad_(False)
    noted = _notes(twin)
    watch = Watch()
    with torch.no_grad(), watch:
        twin(x[:2].to(torch.float32))
    if _notes(twin) != noted:
        return None  # it keeps a note of what it is asked, and its owner may read it
    if watch.read:
        return None  # it may go another way on another input
    parts = list(twin.modules())
    by_channels = channels_last and _by_channels(watch, x)
    followed = list(pairs(parts, watch))
    for layer, norm in followed:
        fold(twin, layer, norm)
    if by_channels:
        twin.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if not followed and not by_channels:
        return None

    def call(x: Tensor) -> Any:
        there = x.to(torch.float32)
        if by_channels:
            there = there.contiguous(memory_format=torch.channels_last)
        return twin(there)

    asked = replace(model, call=call, module=twin, source=twin)
    return InferenceCopy(asked, len(followed), by_channels, _weights(model.module))


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
