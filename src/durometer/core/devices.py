"""Devices: where arithmetic happens, and what may be asked of it there.

An accelerator is fast as long as nobody asks it for a number. So a batch goes to the model's device
once, everything an attack remembers stays there, and the host reads one thing per step: which rows
are still open. Double precision is the host's alone (Apple's GPUs have none, most others are slow
at it): a region measures in single precision there and is strict with what is in doubt, and the
records are measured again on the host.

What a reader would get wrong: data in float64 stay on the host, whatever the model's device, since
a rounded input would no longer be the one that was asked about; so do tables and texts, whose
kernels are the processor's. Their rows go up and their answers come down, once each per query.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from durometer.core.capabilities import is_cpu_only

HOST = torch.device("cpu")


def is_cpu(device: torch.device) -> bool:
    """Whether reading a number costs nothing there."""
    return device.type == "cpu"


def widest(device: torch.device) -> torch.dtype:
    """The most precise type that a device is asked for."""
    return torch.float64 if is_cpu(device) else torch.float32


def attack_device(x: Tensor, device: torch.device, space: Any) -> torch.device:
    """Where an attack on these rows keeps its state, for a model on this device."""
    stays = is_cpu_only(space) or x.dtype == torch.float64
    return x.device if stays or not x.is_floating_point() else device


def moved(thing: Any, device: torch.device) -> Any:
    """A tensor, or a dataclass of tensors, at another place."""
    if isinstance(thing, Tensor):
        return thing.to(device)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    parts = {f.name: getattr(thing, f.name) for f in fields(thing) if f.init}
    return replace(thing, **{name: moved(part, device) for name, part in parts.items()})
