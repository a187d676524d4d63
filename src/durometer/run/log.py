"""The log of a run: log.txt in its folder, a line for each thing that happened, with the time.

Only what happens while a run is kept in a folder is logged; several starts of one run go on in the
same file, so that one can read when it was killed and resumed.
"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from durometer.core.errors import DurometerError
from durometer.core.spec import Spec

LOG = logging.getLogger("durometer.run")
LOG.addHandler(logging.NullHandler())  # without a folder nobody asked for a log


class _Handler(logging.FileHandler):
    """A log line that cannot be written is no reason to stop a run, nor to print a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (logging's name)
        pass


@contextmanager
def logged(folder: Path, spec: Spec) -> Iterator[None]:
    """Everything from inside goes to the folder's log.txt."""
    try:
        handler = _Handler(folder / "log.txt", encoding="utf-8")
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "not enough memory"
        raise DurometerError(
            f"cannot write to '{folder}': {reason}; what is finished there is safe: make "
            "room, or choose another folder, and resume"
        ) from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    before = LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        LOG.info(
            "start: %s on %s, %s rows, seed %s; process %d on %s; %s",
            *(spec.model, spec.data, spec.rows, spec.seed),
            *(os.getpid(), platform.node(), spec.versions),
        )
        yield
        LOG.info("end: every chunk of this share is finished")
    except GeneratorExit:
        LOG.info("stopped: no more rows were asked for")
        raise
    except BaseException as error:
        LOG.error("stopped by %s: %s", type(error).__name__, error)
        raise
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)
        handler.close()
