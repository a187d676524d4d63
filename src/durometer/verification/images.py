"""Spaces of pictures, judged a second time: a mask, a window, and levels of brightness.

The frame of a pair of eyeglasses is a definition that both sides read (`spaces.masks`); what a
change of it means is written down here once more: nothing differs outside, and inside no value
leaves the colours that can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
_ROUNDING = 1e-6  # of stored float32 pictures


def patch_allowed(space: Mapping[str, Any], a: NDArray[Any], b: NDArray[Any]) -> Bools | None:
    """Changes under the mask alone; None where the mask is a function of somebody."""
    mask = _mask(space.get("mask", "eyeglasses"), a.shape[2], a.shape[3])
    if mask is None:
        return None
    outside = np.broadcast_to(~mask, a.shape)
    same: Bools = ((a == b) | ~outside).reshape(len(a), -1).all(1)
    return same & _shown(space, b)


def rectangle_allowed(space: Mapping[str, Any], a: NDArray[Any], b: NDArray[Any]) -> Bools:
    """Changes inside one window: their rows and columns span no more than it."""
    changed = (a != b).any(1)
    good = _shown(space, b)
    for axis, most in ((2, int(space["height"])), (1, int(space["width"]))):
        hit = changed.any(axis)
        size = hit.shape[1]
        first, last = hit.argmax(1), size - 1 - hit[:, ::-1].argmax(1)
        good &= ~hit.any(1) | (last - first + 1 <= most)
    return good


def on_levels(space: Mapping[str, Any], b: NDArray[Any]) -> Bools:
    """Every value is one of so many, evenly from low to high."""
    inner = space["inner"]
    low, high = float(inner.get("low", 0.0)), float(inner.get("high", 1.0))
    steps = (b - low) / (high - low) * (int(space.get("levels", 256)) - 1)
    near = np.abs(steps - np.round(steps)).reshape(len(b), -1).max(1) <= 1e-3
    return np.asarray(near, bool)


def _shown(space: Mapping[str, Any], b: NDArray[Any]) -> Bools:
    low, high = float(space.get("low", 0.0)), float(space.get("high", 1.0))
    flat = b.reshape(len(b), -1)
    inside: Bools = (
        np.isfinite(flat) & (flat >= low - _ROUNDING) & (flat <= high + _ROUNDING)
    ).all(1)
    return inside


def _mask(given: Any, height: int, width: int) -> Bools | None:
    if isinstance(given, str):
        if given != "eyeglasses":
            return None
        from durometer.spaces.masks import eyeglasses

        return eyeglasses(height, width)
    return np.asarray(given).astype(bool)
