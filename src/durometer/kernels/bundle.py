"""Arrays whose lengths only a kernel knows: it keeps them in a bundle, `unpack` copies them out."""

from __future__ import annotations

from typing import Any

import numpy as np

from durometer.kernels.arrays import Array
from durometer.kernels.native import Kernel

_sizes = Kernel("bundle_sizes", handle="int64", arrays="size", bytes="out int64[arrays]")
_take = Kernel("bundle_take", handle="int64", bytes="size", out="out uint8[bytes]")


def unpack(handle: Array, *dtypes: Any) -> list[Array]:
    """The arrays of the bundle whose address is in `handle` (1,), which is freed."""
    sizes = np.empty(len(dtypes), np.int64)
    _sizes(int(handle[0]), sizes)
    whole = np.empty(int(sizes.sum()), np.uint8)
    _take(int(handle[0]), whole)
    ends = np.cumsum(sizes)
    return [
        whole[end - size : end].view(dtype)
        if (end - size) % 8 == 0
        else np.frombuffer(whole[end - size : end].tobytes(), dtype)
        for size, end, dtype in zip(sizes, ends, dtypes, strict=True)
    ]
