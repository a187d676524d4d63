"""Versions: of every library whose code takes part in an answer.

Those that durometer computes with are always named; beside them the libraries of the model and of
the nouns it is played with, found by walking through the objects: the class of each part of a
pipeline, the modules that a function of the user's own refers to.

What a reader would get wrong: what is imported says nothing. A library that something else has
loaded took no part, and two processes of one run would not agree on it.
"""

from __future__ import annotations

import platform
import sys
import types
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import Any

from durometer import __version__

ALWAYS = ("numpy", "scipy", "torch")  # what durometer's own figures are computed with
_CALLED = {
    "sklearn": ("scikit-learn",), "xgboost": ("xgboost-cpu",), "PIL": ("pillow",),
    "onnxruntime": ("onnxruntime-gpu",), "tensorflow": ("tensorflow-cpu",),
    "cv2": ("opencv-python",),
}  # fmt: skip
_PARTS = 64  # of a list or a table: a forest's trees are of one library
_OBJECTS = 5000
_MAPPINGS = (dict, types.MappingProxyType)
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


def versions(things: Iterable[Any]) -> dict[str, str]:
    """The versions of durometer, Python, and the libraries behind these things.

    >>> from sklearn.linear_model import LogisticRegression
    >>> list(versions([LogisticRegression()]))
    ['durometer', 'python', 'numpy', 'scikit-learn', 'scipy', 'torch']
    """
    found: dict[str, str] = {}
    for name in {*ALWAYS, *_libraries(things)}:
        known = _version(name)
        if known:
            found[known[0]] = known[1]
    own = {"durometer": __version__, "python": platform.python_version()}
    return own | dict(sorted(found.items()))


def _libraries(things: Iterable[Any]) -> set[str]:
    """The top-level modules that the things are made of."""
    seen: set[int] = set()
    names: set[str] = set()
    waiting = list(things)
    while waiting and len(seen) < _OBJECTS:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, _PLAIN):
            continue
        seen.add(id(thing))
        if isinstance(thing, types.ModuleType):
            names.add(thing.__name__.partition(".")[0])
            continue
        kind = thing if isinstance(thing, type) else type(thing)
        names |= {c.__module__.partition(".")[0] for c in kind.__mro__}
        names.add(str(getattr(thing, "__module__", None) or "").partition(".")[0])
        waiting += islice(_inside(thing), _PARTS)
    return names


def _inside(thing: Any) -> Iterator[Any]:
    """What an object is made of, as far as it says."""
    if isinstance(thing, types.MethodType):
        yield from (thing.__func__, thing.__self__)
    elif isinstance(thing, types.FunctionType):
        yield from (thing.__globals__[n] for n in thing.__code__.co_names if n in thing.__globals__)
        for cell in thing.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # not filled yet
                continue
    elif isinstance(thing, _MAPPINGS):  # a mapping of somebody else's may fetch what it holds
        yield from list(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from thing
    elif not isinstance(thing, type):
        yield from getattr(thing, "__dict__", {}).values()


@cache
def _version(module: str) -> tuple[str, str] | None:
    """The distribution a module belongs to, and its version; None of the user's own modules.

    Python can say which distribution a module is of, but reads all that are installed for it:
    seconds. The few whose names differ are written down.
    """
    if not module or module in sys.stdlib_module_names or module in ("durometer", "__main__"):
        return None
    for name in (module, *_CALLED.get(module, ())):
        try:
            return name, version(name)
        except (PackageNotFoundError, ValueError):
            continue
    own = getattr(sys.modules.get(module), "__version__", None)
    return (module, own) if isinstance(own, str) else None
