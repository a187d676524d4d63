"""Calls that may never return, made in a thread of their own and waited for only so long.

Ray's calls block without a limit where a cluster is half dead: a node that is gone but still
listed, an object that lies on it, a head that does not answer. The driver must go on all the same.

What a reader would get wrong: a call that was not answered goes on, and nothing else is asked until
it is back. What it then gives is dropped, so only what can be asked again is asked like this.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class TimedOut(Exception):
    """A call was not back in time."""


class TimedCalls:
    """One thread, which ends with the process and keeps nobody from ending it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._last: Future[Any] | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            future, call = self._asked.get()
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    def __call__(self, seconds: float, call: Callable[[], T]) -> T:
        """What the call gives; `Unanswered` if it, or the one before it, takes longer."""
        if self._last is not None:
            self._wait(self._last, seconds)
        future = self.begin(call)
        self._wait(future, seconds)
        return future.result()

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """A call that nobody waits for yet; the next one is asked when it is back."""
        future: Future[T] = Future()
        self._last = future
        self._asked.put((future, call))
        return future

    def _wait(self, future: Future[Any], seconds: float) -> None:
        try:
            future.exception(seconds)
        except TimeoutError:
            raise TimedOut from None
        self._last = None
