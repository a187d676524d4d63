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
    a Layout               fields of an object, as a pointer to a C struct of the same order; what
                           `Layout.pack` has made of such an object is passed as it is

What a reader would get wrong: nothing is converted. A kernel that wants float64 and gets float32
is a bug at the caller, and says so.
"""

from __future__ import annotations

import ctypes
import re
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from durometer.core.errors import DurometerError
from durometer.kernels.stamp import library, stamp

SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
_FROM_BUFFER: Any = (
    ctypes.c_char.from_buffer
)  # before Python 3.12 no type says that arrays have one
STATUS = {1: "not enough memory", 2: "an internal error; please report it"}
ARRAY = re.compile(r"(out )?(float64|float32|int64|int32|uint64|uint8|bool)\[([^\]]+)\](\?)?")


class Layout:
    """The fields of an object that a C struct of the same order holds; kinds as in a `Kernel`."""

    def __init__(self, **fields: str) -> None:
        self.fields = fields

        class Struct(ctypes.Structure):
            _fields_: ClassVar = [(n, _ctype(kind)) for n, kind in fields.items()]

        self.struct = Struct
        self.sizes = [(i, n) for i, (n, kind) in enumerate(fields.items()) if kind == "size"]
        self.parts = [
            (i, n, _array(kind)) for i, (n, kind) in enumerate(fields.items()) if kind != "size"
        ]
        self._packed: WeakKeyDictionary[Any, Packed] = WeakKeyDictionary()

    def pack(self, value: Any) -> Packed:
        """The struct of an object that goes into a kernel again and again: its arrays are checked
        once, and must stay where they are. Every size must follow from its own arrays.

        Kept beside the object and not in it, so that the object can be copied and pickled.
        """
        if value in self._packed:
            return self._packed[value]
        sizes: dict[str, int] = {}
        fields: list[Any] = [None] * len(self.fields)
        arrays = [getattr(value, name) for _, name, _ in self.parts]
        for (i, name, kind), array in zip(self.parts, arrays, strict=True):
            fields[i] = _read(name, kind, array, sizes, type(value).__name__)
        for i, name in self.sizes:
            fields[i] = sizes[name]
        self._packed[value] = packed = Packed(self, self.struct(*fields), sizes, arrays)
        return packed


@dataclass(frozen=True, eq=False)
class Packed:
    """A struct that has been made already, and the arrays that it points to."""

    layout: Layout
    struct: ctypes.Structure
    sizes: dict[str, int]
    arrays: list[Any]


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
        self._plan = [
            (i, n, kind if isinstance(kind, Layout) else _array(kind))
            for i, (n, kind) in enumerate(arguments.items())
            if kind != "size"
        ]
        self._sizes = [(i, n) for i, (n, kind) in enumerate(arguments.items()) if kind == "size"]

    def __call__(self, *values: Any, **named: Any) -> None:
        if named or len(values) != len(self.given):
            values = self._in_order(values, named)
        sizes: dict[str, int] = {}
        passed: list[Any] = [None] * len(self.arguments)
        structs: list[tuple[int, Layout, list[Any]]] = []
        try:
            for value, (i, name, kind) in zip(values, self._plan, strict=True):
                if not isinstance(kind, Layout):
                    passed[i] = _read(name, kind, value, sizes)
                elif isinstance(value, Packed):
                    passed[i] = _packed(name, kind, value, sizes)
                else:
                    fields: list[Any] = [None] * len(kind.fields)
                    for k, field, part in kind.parts:
                        fields[k] = _read(field, part, getattr(value, field), sizes, name)
                    structs.append((i, kind, fields))
        except _Refused as why:
            raise DurometerError(f"kernel {self.name}: {why}") from None
        for i, name in self._sizes:
            passed[i] = sizes.get(name)
        for i, layout, fields in structs:
            for k, name in layout.sizes:
                fields[k] = sizes.get(name)
            passed[i] = ctypes.byref(layout.struct(*fields))  # which keeps the struct
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


class _Refused(DurometerError):
    """An argument that does not fit; the kernel adds its name."""


def _packed(name: str, layout: Layout, value: Packed, sizes: dict[str, int]) -> Any:
    if value.layout is not layout:
        raise _Refused(f"{name}: packed by another layout")
    for size, length in value.sizes.items():
        if sizes.setdefault(size, length) != length:
            raise _Refused(f"{name}: {size} is {length}; expected {sizes[size]}")
    return ctypes.byref(value.struct)


def _read(
    name: str, wanted: _Array | None, value: Any, sizes: dict[str, int], whole: str = ""
) -> Any:
    """What C is given: a number as it is, of an array the address, where it fits the kind.

    Kernels of a few microseconds are asked at every step of an attack: so is this.
    """
    if wanted is None:
        return value
    name = f"{whole}.{name}" if whole else name
    if value is None and wanted.optional:
        return None
    if isinstance(value, np.ndarray):
        fits, flags = value.dtype == wanted.dtype, value.flags
        laid = flags.c_contiguous and (flags.writeable or not wanted.out)
    elif hasattr(value, "data_ptr") and value.is_cpu:
        fits, laid = _kind(value.dtype) == wanted.kind, value.is_contiguous()
    else:
        fits = laid = False
    if not fits:
        raise _Refused(f"{name}: {_describe(value)}; expected {wanted.text}")
    if not laid:
        raise _Refused(f"{name}: expected a contiguous {'writeable ' if wanted.out else ''}array")
    shape, letters = value.shape, wanted.letters
    fits = len(shape) == len(letters)
    for letter, length in zip(letters, shape, strict=False):
        if length != (letter if isinstance(letter, int) else sizes.setdefault(letter, length)):
            fits = False
    if not fits:
        listed = ", ".join(map(str, letters))
        raise _Refused(f"{name}: shape {tuple(shape)}; expected [{listed}] with {sizes}")
    if not isinstance(value, np.ndarray):
        return value.data_ptr()
    if flags.writeable and value.size:  # a quarter of the time of `value.ctypes.data`
        return ctypes.addressof(_FROM_BUFFER(value))
    return value.ctypes.data


@cache
def _kind(dtype: Any) -> str:
    """The name of a tensor's type."""
    return str(dtype).removeprefix("torch.")


class _Array(NamedTuple):
    """An array's description, read once."""

    text: str
    out: bool
    kind: str
    dtype: np.dtype[Any]
    letters: tuple[str | int, ...]
    optional: bool


def _array(kind: str) -> _Array | None:
    """None: a number."""
    if kind in SCALARS:
        return None
    match = ARRAY.fullmatch(kind)
    if match is None:
        raise DurometerError(f"no such kind of argument: {kind!r}")
    out, dtype, shape, optional = match.groups()
    letters = [s.strip() for s in shape.split(",")]
    lengths = tuple(int(s) if s.isdigit() else s for s in letters)
    return _Array(kind, bool(out), dtype, np.dtype(dtype), lengths, bool(optional))


def _describe(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of {value.dtype}"
    return f"a {type(value).__name__}"
