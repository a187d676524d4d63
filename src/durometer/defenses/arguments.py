"""What a defender is made of, checked where it is made: in the first round it would be too late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from torch import nn

from durometer.attacks.parameters import check_made, check_parameters
from durometer.core.errors import DurometerError
from durometer.core.validation import check_numbers
from durometer.data.dataset import Dataset
from durometer.spaces.region import Space


def _makes(thing: Any) -> bool:
    return callable(thing) and not isinstance(thing, nn.Module)


_ARGUMENTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model": (lambda v: isinstance(v, nn.Module), "a trained torch module"),
    "module": (lambda v: isinstance(v, nn.Module), "a torch module that adapts in forward()"),
    "build": (_makes, "a function that makes a network"),
    "data": (lambda v: isinstance(v, Dataset), "an du.Dataset of training inputs"),
    "space": (lambda v: isinstance(v, Space), "a space, e.g. du.Linf(8/255)"),
    "recipe": (lambda v: hasattr(v, "losses"), "a recipe of du.training"),
    "features": (callable, "a function from inputs to (n, d)"),
}


def check_arguments(defender: Any) -> None:
    """Refuse a part of another kind, by its field's name, and numbers that mean nothing."""
    name = type(defender).__name__
    for field in fields(defender):
        value = getattr(defender, field.name)
        if field.name in _ARGUMENTS and not (value is None and field.default is None):
            fits, wanted = _ARGUMENTS[field.name]
            if (isinstance(value, type) and field.name != "build") or not fits(value):
                got = value.__name__ if isinstance(value, type) else type(value).__name__
                raise DurometerError(f"{name}: {field.name} is a {got}; expected {wanted}")
        if field.name == "attack":
            check_made(f"{name}(attack={{}})", value)
            check_parameters(value)
    check_numbers(defender)
