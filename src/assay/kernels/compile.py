"""`kernel`: how every inner loop is compiled: cached on disk, without the interpreter's lock.

Division follows numpy (no exception at 0), which keeps compilation short; kernels guard where it
matters. Their arguments carry no annotations: numba infers them at the first call. That takes up
to a minute for the largest; `on_compile` lets a progress bar say so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import event


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays at its first call."""
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def fast_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for sums whose order does not matter: they may be reordered to be vectorised."""
    compiled: Callable[..., Any] = numba.njit(cache=True, nogil=True, fastmath=True)(function)
    return compiled


def inline_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """A short part of a kernel with many arguments: pasted where it is called, for a call of twenty
    arrays takes longer than what it does with them."""
    pasted: Callable[..., Any] = numba.njit(inline="always", error_model="numpy")(function)
    return pasted


@contextmanager
def on_compile(tell: Callable[[bool], None]) -> Iterator[None]:
    """Within the block `tell(True)` as a kernel starts to compile, `tell(False)` when it is done.

    Kernels that come from the disk tell nothing.
    """

    class Listener(event.Listener):
        depth = 0  # a kernel's own calls compile within it

        def on_start(self, _: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                tell(True)

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                tell(False)

    with event.install_listener("numba:compile", Listener()):
        yield
