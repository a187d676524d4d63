"""The compiled extension: C++ kernels behind a plain C interface, loaded with ctypes.

`Kernel("splitmix", ...)` declares a function of `native/` once, argument by argument in its C
order; a call checks kind, shape and layout of every array (numpy's, or a tensor of the host) before
a pointer leaves Python. ctypes releases the interpreter's lock, and one library serves every Python
version.

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
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np

from durometer.core.errors import DurometerError
from durometer.kernels.stamp import library, stamp

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
        self._plan = [(n, arguments[n]) for n in self.given]

    def __call__(self, *values: Any, **named: Any) -> None:
        if named or len(values) != len(self.given):
            values = self._in_order(values, named)
        sizes: dict[str, int] = {}
        read: dict[str, Any] = {}
        for value, (name, kind) in zip(values, self._plan, strict=True):
            if isinstance(kind, str):
                read[name] = self._read(name, kind, value, sizes)
            else:
                read[name] = {
                    field: self._read(f"{name}.{field}", part, getattr(value, field), sizes)
                    for field, part in kind.fields.items()
                    if part != "size"
                }
        passed = []
        for name, kind in self.arguments.items():
            given: Any = sizes.get(name) if kind == "size" else read[name]
            if not isinstance(kind, str):
                fields = [given.get(field, sizes.get(field)) for field in kind.fields]
                given = ctypes.byref(kind.struct(*fields))  # which keeps the struct
            passed.append(given)
        status = self._function(*passed)
        if status:
            raise DurometerError(f"kernel {self.name}: {STATUS.get(status, f'status {status}')}")

    def _in_order(self, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        if len(values) > len(self.given):
            raise DurometerError(f"kernel {self.name}: {len(values)} arguments for {self.given}")
        got = dict(zip(self.given, values, strict=False)) | named
        if set(got) != set(self.given):
            raise DurometerError(
                f"kernel {self.name}: arguments {sorted(got)}; expected {self.given}"
            )
        return tuple(got[name] for name in self.given)

    def _read(self, name: str, kind: str, value: Any, sizes: dict[str, int]) -> Any:
        """What C is given: a number as it is, of an array the address, where it fits the kind.

        Kernels of a few microseconds are asked at every step of an attack: so is this.
        """
        if kind in SCALARS:
            return value
        wanted = _array(kind)
        if wanted is None:
            raise self._refuse(name, f"no such kind of argument: {kind!r}")
        out, dtype, letters, optional = wanted
        if value is None and optional:
            return None
        if isinstance(value, np.ndarray):
            flags, known = value.flags, value.dtype.name if value.dtype.isnative else ""
            laid = flags.c_contiguous and (flags.writeable or not out)
        elif hasattr(value, "data_ptr") and value.is_cpu:
            known, laid = _kind(value.dtype), value.is_contiguous()
        else:
            known, laid = "", False
        if known != dtype:
            raise self._refuse(name, f"{_describe(value)}; expected {kind}")
        if not laid:
            raise self._refuse(name, f"expected a contiguous {'writeable ' if out else ''}array")
        shape = value.shape
        fits = len(shape) == len(letters)
        for letter, length in zip(letters, shape, strict=False):
            if length != (letter if isinstance(letter, int) else sizes.setdefault(letter, length)):
                fits = False
        if not fits:
            listed = ", ".join(map(str, letters))
            raise self._refuse(name, f"shape {tuple(shape)}; expected [{listed}] with {sizes}")
        return value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr()

    def _refuse(self, name: str, why: str) -> DurometerError:
        return DurometerError(f"kernel {self.name}: {name}: {why}")

    @cached_property
    def _function(self) -> Any:
        function = getattr(load(), f"durometer_{self.name}")
        function.restype = ctypes.c_int32
        function.argtypes = [
            ctypes.c_void_p if isinstance(kind, Layout) else _ctype(kind)
            for kind in self.arguments.values()
        ]
        return function


@cache
def built() -> bool:
    """Whether the library is there: what has a twin in torch can do without."""
    try:
        load()
    except DurometerError:
        return False
    return True


@cache
def load() -> ctypes.CDLL:
    """The library; an error with the command to run if it is missing or older than its sources."""
    path, sources = library(sys.platform), stamp()
    if not path.exists():
        cause = (
            "run `make setup`, or `python hatch_build.py` in the checkout: it takes $CXX, c++, "
            "g++, clang++ or the compiler in the package ziglang"
            if sources
            else "reinstall durometer from a wheel for this platform"
        )
        raise DurometerError(f"the compiled kernels are missing ({path}): {cause}")
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise DurometerError(
            f"the compiled kernels do not load ({error}): if built elsewhere, run `make native`"
        ) from error
    loaded.durometer_stamp.restype = ctypes.c_char_p
    carried = loaded.durometer_stamp().decode()
    if sources and carried != f"durometer-native-{sources}":
        raise DurometerError(
            f"the compiled kernels ({carried}) are older than their C++ sources ({sources}): "
            "run `make native`, or `python hatch_build.py`"
        )
    return loaded


def _ctype(kind: str) -> Any:
    return ctypes.c_int64 if kind == "size" else SCALARS.get(kind, ctypes.c_void_p)


@cache
def _kind(dtype: Any) -> str:
    """The name of a tensor's type."""
    return str(dtype).removeprefix("torch.")


@cache
def _array(kind: str) -> tuple[bool, str, tuple[str | int, ...], bool] | None:
    """An array's description, read once: to be written?, type, lengths, may be missing?"""
    match = ARRAY.fullmatch(kind)
    if match is None:
        return None
    out, dtype, shape, optional = match.groups()
    letters = [s.strip() for s in shape.split(",")]
    lengths = tuple(int(s) if s.isdigit() else s for s in letters)
    return bool(out), dtype, lengths, bool(optional)


def _describe(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of {value.dtype}"
    return f"a {type(value).__name__}"
