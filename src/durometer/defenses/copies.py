"""copied(): a deep copy of other people's modules that keeps what their optimisers carry.

A torch optimiser copies as three fields (defaults, state, groups) and drops every other attribute,
so an optimiser that holds another one (SAM) comes back broken; a parameter's collected gradient is
dropped, too. Here each optimiser that a module
holds is copied with all its attributes, into the same memo: its groups lead to the *copy's*
parameters.

What a reader would get wrong: a learning-rate scheduler hangs a wrapped `step` of the old optimiser
on the object. Copied as it is, it would move the old parameters; the class's own `step` is used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from torch import nn
from torch.optim import Optimizer

Module = TypeVar("Module", bound=nn.Module)


def copied(module: Module) -> Module:
    """A copy that shares nothing with the module.

    >>> import torch
    >>> net = torch.nn.Linear(2, 2)
    >>> net.steps = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> twin = copied(net)
    >>> twin.steps.param_groups[0]["params"][0] is twin.weight
    True
    """
    found = list(_optimisers(module, set()))
    memo: dict[int, Any] = {}
    twins = [type(o).__new__(type(o)) for o in found]
    memo |= {id(o): twin for o, twin in zip(found, twins, strict=True)}
    for optimiser, twin in zip(found, twins, strict=True):
        carried = {k: v for k, v in vars(optimiser).items() if k != "step"}
        vars(twin).update(copy.deepcopy(carried, memo))
    made = copy.deepcopy(module, memo)
    for old, new in zip(module.parameters(), made.parameters(), strict=True):
        if old.grad is not None:  # a module that steps every few batches collects them
            new.grad = old.grad.detach().clone()
    return made


def _optimisers(thing: Any, seen: set[int]) -> Iterator[Optimizer]:
    """Those that hang on a module, in its attributes and theirs."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, Optimizer):
        yield thing
    if isinstance(thing, nn.Module | Optimizer):
        held = list(vars(thing).values())
    elif isinstance(thing, Mapping):
        held = list(thing.values())
    elif isinstance(thing, list | tuple | set):
        held = list(thing)
    else:
        return
    for part in held:
        yield from _optimisers(part, seen)
