"""An eyeglass frame as a mask, for aligned faces of any size.

Two rims (rings of rounded rectangles), a bridge and the beginnings of the temples, drawn in shares
of the image, so that a face of 224 x 224 gets the frame of the published attack (Sharif et al.;
rows 56-111, columns 29-193, 6.7 % of the pixels) and one of 64 x 64 the same frame in small.

What a reader would get wrong: faces must be aligned, eyes at the height `eyes` and `apart` of the
width from each other; there is no search for them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def eyeglasses(
    height: int,
    width: int,
    eyes: float = 0.375,
    apart: float = 0.36,
    thick: float = 0.035,
) -> NDArray[np.bool_]:
    """The mask of an eyeglass frame for aligned faces (the shape of Sharif et al., 2016).

    Args:
        height: Height of the images, in pixels.
        width: Width of the images, in pixels.
        eyes: Height of the eyes from the top, as a share of the image.
        apart: Distance between the eyes, as a share of the width.
        thick: Thickness of the rims, as a share of the image.

    Returns:
        A boolean array (height, width), true on the frame. With the defaults it covers 6.7 % of the
            pixels.

    >>> frame = eyeglasses(224, 224)
    >>> round(float(frame.mean()), 3)
    0.067
    """
    y = ((np.arange(height) + 0.5) / height)[:, None]
    x = ((np.arange(width) + 0.5) / width)[None, :]
    half_width, half_height = 0.42 * apart, 0.123
    frame = np.zeros((height, width), bool)
    for centre in (0.5 - apart / 2, 0.5 + apart / 2):
        outer = _inside(x - centre, y - eyes, half_width, half_height)
        inner = _inside(x - centre, y - eyes, half_width - thick, half_height - thick)
        frame |= outer & ~inner
    bar = np.abs(y - (eyes - 0.35 * half_height)) <= thick / 2
    gap = np.abs(x - 0.5) <= apart / 2 - half_width + thick / 2
    side = np.abs(np.abs(x - 0.5) - (apart / 2 + half_width)) <= 0.036
    return np.asarray(frame | (bar & (gap | side)))


def _inside(
    dx: NDArray[np.float64], dy: NDArray[np.float64], a: float, b: float
) -> NDArray[np.bool_]:
    """A rectangle of half-axes a and b with rounded corners."""
    return np.asarray((np.abs(dx) / a) ** 4 + (np.abs(dy) / b) ** 4 <= 1)
