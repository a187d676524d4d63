"""`kernel`: how every inner loop is compiled: cached on disk, without the interpreter's lock.

Division follows numpy (no exception at 0), which keeps compilation short; kernels guard where it
matters. Their arguments carry no annotations: numba infers them at the first call.
"""

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays at its first call."""
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def fast_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for sums whose order does not matter: they may be reordered to be vectorised."""
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, fastmath=True)(function)
    return compiled
