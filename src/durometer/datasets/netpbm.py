"""PGM and PPM, the formats in which ORL and GTSRB are distributed, read without an image library.

The binary kinds only: "P5" (grey) and "P6" (colour), one byte per sample. The header is white-space
separated numbers among which comments may stand; exactly one white-space byte ends it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from durometer.core.errors import DurometerError

_GAP = rb"(?:\s|#[^\n]*\n)+"
_HEADER = re.compile(rb"P([56])" + _GAP + rb"(\d+)" + _GAP + rb"(\d+)" + _GAP + rb"(\d+)\s")


def read(path: Path) -> NDArray[np.uint8]:
    """The pixels: (h, w) for P5, (h, w, 3) for P6."""
    data = path.read_bytes()
    header = _HEADER.match(data)
    if header is None:
        raise DurometerError(f"{path} is not a binary PGM or PPM picture (P5 or P6)")
    kind, width, height, top = (int(number) for number in header.groups())
    shape = (height, width) if kind == 5 else (height, width, 3)
    size = int(np.prod(shape))
    if top != 255:
        raise DurometerError(f"{path} has a maximum of {top}; expected 255 (one byte per sample)")
    if len(data) - header.end() < size:
        raise DurometerError(f"{path} is cut short: {len(data) - header.end()} of {size} bytes")
    return np.frombuffer(data, np.uint8, size, header.end()).reshape(shape)
