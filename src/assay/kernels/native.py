"""The compiled extension: C++ kernels behind a plain C interface, loaded with ctypes.

`Kernel("splitmix", ...)` declares a function of `native/` once, argument by argument in its C
order; a call checks kind, shape and layout of every array before a pointer leaves Python. ctypes
releases the interpreter's lock, and one library serves every Python version.

    "float64[n, d]"        a contiguous array to read; equal letters must have equal lengths
    "out float64[n]"       one to write into
    "float64[n]?"          may be None (a null pointer)
    "size"                 the length that its own name stands for: inferred, not passed
    "int64", "float64"     a number
    a Layout               fields of an object, as a pointer to a C struct of the same order

What a reader would get wrong: nothing is converted. A kernel that wants float64 and gets float32
is a bug at the caller, and says so.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from assay.errors import AssayError
from assay.kernels.stamp import library, stamp

SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
STATUS = {1: "not enough memory", 2: "an internal error; please report it"}
ARRAY = re.compile(r"(out )?(float64|float32|int64|int32|uint64|uint8|bool)\[([^\]]+)\](\?)?")


class Layout:
    """The fields of an object that a C struct of the same order holds; kinds as in a `Kernel`."""

    def __init__(self, **fields: str) -> None:
        self.fields = fields

        class Struct(ctypes.Structure):
            _fields_: ClassVar = [(n, _ctype(kind)) for n, kind in fields.items()]

        self.struct = Struct


class Kernel:
    """One function of the extension; called with what is not a size, by position or by name.

    >>> splitmix = Kernel("splitmix", n="size", draws="size", threads="int64",
    ...                   word="uint64[n]", out="out float64[n, draws]")
    >>> numbers = np.empty((2, 3))
    >>> splitmix(1, np.array([7, 8], dtype=np.uint64), numbers)
    >>> numbers[0].round(3).tolist()
    [0.39, 0.017, 0.901]
    """

    def __init__(self, name: str, **arguments: str | Layout) -> None:
        self.name, self.arguments = name, arguments
        self.given = [n for n, kind in arguments.items() if kind != "size"]

    def __call__(self, *values: Any, **named: Any) -> None:
        if len(values) > len(self.given):
            raise AssayError(f"kernel {self.name}: {len(values)} arguments for {self.given}")
        got = dict(zip(self.given, values, strict=False)) | named
        if set(got) != set(self.given):
            raise AssayError(f"kernel {self.name}: arguments {sorted(got)}; expected {self.given}")
        sizes: dict[str, int] = {}
        for name, kind in self.arguments.items():
            for place, part, value in _parts(name, kind, got):
                _check(f"kernel {self.name}: {place}", part, value, sizes)
        passed, alive = [], []
        for name, kind in self.arguments.items():
            if isinstance(kind, Layout):
                fields = [
                    _pass(part, value, sizes.get(field))
                    for field, (_, part, value) in zip(
                        kind.fields, _parts(name, kind, got), strict=True
                    )
                ]
                struct = kind.struct(*fields)
                alive.append(struct)
                passed.append(ctypes.addressof(struct))
            else:
                passed.append(_pass(kind, got.get(name), sizes.get(name)))
        status = self._function(*passed)
        if status:
            raise AssayError(f"kernel {self.name}: {STATUS.get(status, f'status {status}')}")

    @cached_property
    def _function(self) -> Any:
        function = getattr(load(), f"assay_{self.name}")
        function.restype = ctypes.c_int32
        function.argtypes = [
            ctypes.c_void_p if isinstance(kind, Layout) else _ctype(kind)
            for kind in self.arguments.values()
        ]
        return function


@cache
def load() -> ctypes.CDLL:
    """The library; an error with the command to run if it is missing or older than its sources."""
    path, sources = library(sys.platform), stamp()
    if not path.exists():
        cause = (
            "run `make setup`, or `python hatch_build.py` in the checkout: it takes $CXX, c++, "
            "g++, clang++ or the compiler in the package ziglang"
            if sources
            else "reinstall assay from a wheel for this platform"
        )
        raise AssayError(f"the compiled kernels are missing ({path}): {cause}")
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise AssayError(
            f"the compiled kernels do not load ({error}): if built elsewhere, run `make native`"
        ) from error
    loaded.assay_stamp.restype = ctypes.c_char_p
    carried = loaded.assay_stamp().decode()
    if sources and carried != f"assay-native-{sources}":
        raise AssayError(
            f"the compiled kernels ({carried}) are older than their C++ sources ({sources}): "
            "run `make native`, or `python hatch_build.py`"
        )
    return loaded


def _parts(name: str, kind: str | Layout, got: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    if isinstance(kind, str):
        return [(name, kind, got.get(name))]
    return [
        (f"{name}.{field}", part, None if part == "size" else getattr(got[name], field))
        for field, part in kind.fields.items()
    ]


def _ctype(kind: str) -> Any:
    return ctypes.c_int64 if kind == "size" else SCALARS.get(kind, ctypes.c_void_p)


def _check(place: str, kind: str, value: Any, sizes: dict[str, int]) -> None:
    if kind == "size" or kind in SCALARS:
        return
    wanted = _array(kind)
    if wanted is None:
        raise AssayError(f"{place}: no such kind of argument: {kind!r}")
    out, dtype, letters, optional = wanted
    if value is None and optional:
        return
    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        raise AssayError(f"{place}: {_describe(value)}; expected {kind}")
    if not value.flags.c_contiguous or (out and not value.flags.writeable):
        raise AssayError(f"{place}: expected a contiguous {'writeable ' if out else ''}array")
    fits = value.ndim == len(letters)
    for letter, length in zip(letters, value.shape, strict=False):
        expected = letter if isinstance(letter, int) else sizes.setdefault(letter, length)
        fits = fits and length == expected
    if not fits:
        shape = ", ".join(map(str, letters))
        raise AssayError(f"{place}: shape {value.shape}; expected [{shape}] with {sizes}")


@cache
def _array(kind: str) -> tuple[bool, np.dtype[Any], tuple[str | int, ...], bool] | None:
    """An array's description, read once: to be written?, type, lengths, may be missing?"""
    match = ARRAY.fullmatch(kind)
    if match is None:
        return None
    out, dtype, shape, optional = match.groups()
    letters = [s.strip() for s in shape.split(",")]
    lengths = tuple(int(s) if s.isdigit() else s for s in letters)
    return bool(out), np.dtype(dtype), lengths, bool(optional)


def _pass(kind: str, value: Any, size: int | None) -> Any:
    if kind == "size":
        return size
    if kind in SCALARS:
        return SCALARS[kind](value)
    return None if value is None else value.ctypes.data


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"a {type(value).__name__}"
