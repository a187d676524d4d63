"""`kernel`: how the loops that are still numba's are compiled: cached, without Python's lock.

Division follows numpy (no exception at 0), which keeps compilation short; kernels guard where it
matters. Their arguments carry no annotations: numba infers them at the first call. That takes up
to a minute for the largest; `on_compile` lets a progress bar say so.
"""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import event

LOG = logging.getLogger("assay.kernels")


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays at its first call."""
    return _cached(function, nogil=True, error_model="numpy")


def fast_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for sums whose order does not matter: they may be reordered to be vectorised."""
    return _cached(function, nogil=True, fastmath=True)


def _cached(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """With the cache beside the package, else below the temporary folder, else with none.

    In a container the package and the home are often read-only, and numba then gives up.
    """
    compiled: Callable[..., Any]
    try:
        compiled = numba.njit(cache=True, **options)(function)
        return compiled
    except RuntimeError:  # "no locator available"
        pass
    if not getattr(numba.config, "CACHE_DIR", ""):
        user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
        folder = Path(tempfile.gettempdir()) / f"assay-numba-{user}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid():  # or nobody else's
                setattr(numba.config, "CACHE_DIR", str(folder))  # noqa: B010  (it has no types)
                LOG.info("compiled code is kept in %s: nowhere else can be written", folder)
                compiled = numba.njit(cache=True, **options)(function)
                return compiled
        except (OSError, RuntimeError):
            setattr(numba.config, "CACHE_DIR", "")  # noqa: B010
        LOG.warning("compiled code cannot be kept anywhere: each process compiles its own; "
                    "NUMBA_CACHE_DIR names a folder that can be written")  # fmt: skip
    compiled = numba.njit(**options)(function)
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
