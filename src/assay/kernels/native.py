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
from typing import Any, ClassVar, NamedTuple

import numpy as np

from assay.errors import AssayError
from assay.kernels.stamp import library, stamp

SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double}
STATUS = {1: "not enough memory", 2: "an internal error; please report it"}
REMEMBERED = 1024  # shapes of a kernel
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
        self._accepted: dict[Any, list[int]] = {}  # the sizes of tensors that were checked before

    def __call__(self, *values: Any, **named: Any) -> None:
        signature, addresses = (None, []) if named else _signature(values)
        sizes = self._accepted.get(signature)
        if sizes is not None:
            passed = [*sizes, *addresses]
        else:
            passed = self._checked(values, named)
            if signature is not None and self._sizes_first:
                if len(self._accepted) >= REMEMBERED:
                    self._accepted.clear()
                self._accepted[signature] = passed[: -len(self.given)]
        status = self._function(*passed)
        if status:
            raise AssayError(f"kernel {self.name}: {STATUS.get(status, f'status {status}')}")

    def _checked(self, values: Any, named: Any) -> list[Any]:
        """What C is given, in its order."""
        if len(values) > len(self.given):
            raise AssayError(f"kernel {self.name}: {len(values)} arguments for {self.given}")
        got = dict(zip(self.given, values, strict=False)) | named
        if got.keys() != self._names:
            raise AssayError(f"kernel {self.name}: arguments {sorted(got)}; expected {self.given}")
        sizes: dict[str, int] = {}
        for name, kind in self.arguments.items():
            if isinstance(kind, Layout):
                got[name] = {
                    field: self._read(f"{name}.{field}", part, getattr(got[name], field), sizes)
                    for field, part in kind.fields.items()
                    if part != "size"
                }
            elif kind != "size":
                got[name] = self._read(name, kind, got[name], sizes)
        passed = []
        for name, kind in self.arguments.items():
            value: Any = sizes.get(name) if kind == "size" else got[name]
            if isinstance(kind, Layout):
                fields = [value.get(field, sizes.get(field)) for field in kind.fields]
                value = ctypes.byref(kind.struct(*fields))  # which keeps the struct
            passed.append(value)
        return passed

    def _read(self, name: str, kind: str, value: Any, sizes: dict[str, int]) -> Any:
        """What C is given: a number as it is, of an array the address, where it fits the kind."""
        if kind in SCALARS:
            return value
        wanted = _array(kind)
        if wanted is None:
            raise self._refuse(name, f"no such kind of argument: {kind!r}")
        out, dtype, letters, optional = wanted
        if value is None and optional:
            return None
        address = _address(value, dtype)
        if address is None:
            raise self._refuse(name, f"{_describe(value)}; expected {kind}")
        if not (address.contiguous and (address.writeable or not out)):
            raise self._refuse(name, f"expected a contiguous {'writeable ' if out else ''}array")
        shape = value.shape
        fits = len(shape) == len(letters)
        for letter, length in zip(letters, shape, strict=False):
            expected = letter if isinstance(letter, int) else sizes.setdefault(letter, length)
            fits = fits and length == expected
        if not fits:
            listed = ", ".join(map(str, letters))
            raise self._refuse(name, f"shape {tuple(shape)}; expected [{listed}] with {sizes}")
        return address.place

    def _refuse(self, name: str, why: str) -> AssayError:
        return AssayError(f"kernel {self.name}: {name}: {why}")

    @cached_property
    def _names(self) -> set[str]:
        return set(self.given)

    @cached_property
    def _sizes_first(self) -> bool:
        """Whether the sizes come before all else, and nothing is a struct."""
        kinds = list(self.arguments.values())
        after = kinds[len(kinds) - len(self.given) :]
        return not any(kind == "size" or isinstance(kind, Layout) for kind in after)

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
def built() -> bool:
    """Whether the library is there: what has a twin in torch can do without."""
    try:
        load()
    except AssayError:
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


def _ctype(kind: str) -> Any:
    return ctypes.c_int64 if kind == "size" else SCALARS.get(kind, ctypes.c_void_p)


def _signature(values: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """Types and shapes of tensors, to know them again, and what C is given in place of `values`.

    A kernel on small tensors takes less time than the checks of its arguments do. None: there is
    something else than numbers and contiguous tensors of the host.
    """
    known: list[Any] = []
    passed: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is int or kind is float:
            known.append(kind)
            passed.append(value)
        elif hasattr(value, "data_ptr") and value.is_cpu and value.is_contiguous():
            known.append((value.dtype, value.shape))
            passed.append(value.data_ptr())
        else:
            return None, []
    return tuple(known), passed


class Address(NamedTuple):
    """Where an array begins, and how it lies there."""

    place: int
    contiguous: bool
    writeable: bool


def _address(value: Any, kind: str) -> Address | None:
    """Of an array or a tensor of the host, of this kind; None: it is another one."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        here = Address(value.ctypes.data, flags.c_contiguous, flags.writeable)
        return here if value.dtype.name == kind else None
    if not hasattr(value, "data_ptr") or _kind(value.dtype) != kind or not value.is_cpu:
        return None
    return Address(value.data_ptr(), value.is_contiguous(), True)


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
