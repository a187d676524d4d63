"""What a defender is made of, checked where it is made: in the first round it would be too late."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from durometer.core.errors import DurometerError


def check_build(build: Callable[[], nn.Module]) -> None:
    """Refuse a network in the place of a function that makes one: both can be called."""
    if isinstance(build, nn.Module):
        raise DurometerError(
            f"build={type(build).__name__}(...): expected a function that makes a network, e.g. "
            f"lambda: {type(build).__name__}(...)"
        )
