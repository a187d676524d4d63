"""A table's first layer as one call, so that bounds may begin behind it.

Numbers scaled and categories as blocks of which exactly one is on: as operations the second is an
arg-min that no interval survives; as a domain it is exact (`bounds/inputs.py`). The layer is known
by what it offers, and what it computes is compared with what the domain will take it for.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported

_UNIT, _LEAST = 2.0**-24, 1e-37  # of single precision: rounding, and what underflows


@functools.cache
def _encode() -> Any:
    """The call that stands for the layer; registered with torch when it is first needed."""

    @torch.library.custom_op("durometer::encode", mutates_args=())
    def encode(x: Tensor, size: int) -> Tensor:
        return x.new_zeros(x.shape[0], size, dtype=torch.float32)

    @encode.register_fake
    def _(x: Tensor, size: int) -> Tensor:
        return x.new_empty(x.shape[0], size, dtype=torch.float32)

    return encode


def is_encoder(module: nn.Module) -> bool:
    """The first layer of networks for tables."""
    return all(hasattr(module, name) for name in ("numbers", "one_hot_groups", "codes", "width"))


def encoded(module: nn.Module) -> tuple[nn.Module, Any]:
    """The module (changed) with a call in place of its encoder's forward, and the encoder or None.

    What else the network asks of its encoder (how many numbers, how large a block) it still gets.
    """
    found = [(name, m) for name, m in module.named_modules() if is_encoder(m)]
    if not found:
        return module, None
    if len(found) > 1:
        raise Unsupported("Bounds: a network with several table inputs")
    part: Any = found[0][1]
    encoder = copy.deepcopy(part)
    _checked(encoder)
    size = int(encoder(_example(encoder)).shape[1])
    part.forward = lambda x: _encode()(x, size)
    return module, encoder


def _width(encoder: Any) -> int:
    members = [i for group in encoder.one_hot_groups for i in group]
    return 1 + max([*encoder.numbers.tolist(), *members, *(i for i, _ in encoder.codes)], default=0)


def _example(encoder: Any) -> Tensor:
    """A few records: numbers anywhere, every code of each category."""
    rows = max([64, *(len(codes) for _, codes in encoder.codes)])
    stream = torch.Generator().manual_seed(0)
    x = torch.rand(rows, _width(encoder), generator=stream)
    numbers = encoder.numbers
    width, low = encoder.width.to(x), encoder.low.to(x)
    x[:, numbers] = low + width * (1.4 * x[:, numbers] - 0.2)  # some beyond their range
    for group in encoder.one_hot_groups:
        x[:, group] = torch.eye(len(group))[torch.arange(rows) % len(group)]
    for i, codes in encoder.codes:
        x[:, i] = torch.tensor(codes, dtype=x.dtype)[torch.arange(rows) % len(codes)]
    return x


def _checked(encoder: Any) -> None:
    """Does the layer give what the domain takes it for, to the rounding of its own arithmetic?"""
    if encoder._forward_hooks or encoder._forward_pre_hooks or "forward" in vars(encoder):  # noqa: SLF001
        raise Unsupported(
            f"Bounds: a hook or another forward on the table input {type(encoder).__name__}"
        )
    x = _example(encoder)
    members = [i for group in encoder.one_hot_groups for i in group]
    scaled = (x[:, encoder.numbers].double() - encoder.low.double()) / encoder.width.double()
    codes = [
        (x[:, i, None] == torch.tensor(codes, dtype=x.dtype)).double() for i, codes in encoder.codes
    ]
    wanted = torch.cat([scaled, x[:, members].double(), *codes], dim=1)
    with torch.no_grad():
        found = encoder(x).double()
    off = torch.zeros_like(wanted)
    off[:, : scaled.shape[1]] = 8 * _UNIT * scaled.abs() + _LEAST
    if found.shape != wanted.shape or bool(((found - wanted).abs() > off).any()):
        raise Unsupported(
            f"Bounds: {type(encoder).__name__} looks like a table input, but does not give numbers "
            "scaled to their range, then a block of 0/1 for each group and category"
        )
