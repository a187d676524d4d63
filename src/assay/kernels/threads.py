"""Threads: a compiled kernel on slices of rows, each in a thread of its own.

Threads of our own, because numba's default pool must not be entered from two Python threads at
once. Kernels release the interpreter's lock, and a row never looks at another, so the number of
threads changes nothing but the time.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from assay.kernels.arrays import Array


def in_threads(kernel: Any, *arrays: Array, shared: tuple[int, ...] = ()) -> None:
    """Run a compiled kernel on slices of rows, one thread each; `shared` arguments are not sliced.

    As many threads as torch uses, where there are rows enough.
    """
    rows = len(arrays[0])
    parts = max(1, min(torch.get_num_threads(), rows // 4))
    cuts = np.linspace(0, rows, parts + 1).astype(int)

    def slices(i: int) -> list[Array]:
        piece = slice(cuts[i], cuts[i + 1])
        return [a if k in shared else a[piece] for k, a in enumerate(arrays)]

    if parts == 1:
        kernel(*arrays)
        return
    with ThreadPoolExecutor(parts) as pool:
        for done in [pool.submit(kernel, *slices(i)) for i in range(parts)]:
            done.result()
