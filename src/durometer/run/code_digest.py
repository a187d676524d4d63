"""The code behind nouns: a loss that is a lambda, an attack of the user's own class.

A table names them and nothing else, so a run would go on with a changed one. A model is known by
its answers; what takes part in an attack has none to be asked for, and is known by its code: the
instructions and constants of its functions, what they closed over, the plain globals they name.

What a reader would get wrong: comments, docstrings, names of files and line numbers do not count,
and code that belongs to an installed package is its version's affair. Another Python compiles the
same text otherwise, so digests of two Pythons are not compared.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch.nn import Module

_PLAIN = bool | int | float | complex | str | bytes | None
_KNOWN = {"durometer", "torch", "numpy", "scipy", "pandas", "sklearn", *sys.stdlib_module_names} - {
    "__main__"
}


def code_of(**nouns: Any) -> dict[str, str]:
    """Where in these nouns there is code of somebody else's, and a digest of it."""
    found: dict[str, str] = {}
    for name, noun in nouns.items():
        _walk(noun, name, found, set())
    return found


def _walk(value: Any, path: str, found: dict[str, str], seen: set[int]) -> None:
    if isinstance(value, _PLAIN | Module) or hasattr(value, "__array__") or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _walk(inner, f"{path}.{key}", found, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for k, inner in enumerate(value):
            _walk(inner, f"{path}.{k}", found, seen)
    elif isinstance(value, functools.partial):
        _walk([value.func, *value.args, dict(value.keywords)], path, found, seen)
    elif isinstance(value, types.MethodType):
        _walk([value.__func__, value.__self__], path, found, seen)
    elif isinstance(value, types.FunctionType):
        if _foreign(value.__module__):
            found[path] = _short(_function(value, set()))
    else:
        made = [_class(kind) for kind in type(value).__mro__ if _foreign(kind.__module__)]
        if made:
            found[path] = _short(made)
        for field in fields(value) if is_dataclass(value) else ():
            _walk(getattr(value, field.name, None), f"{path}.{field.name}", found, seen)


def _foreign(module: str | None) -> bool:
    return (module or "").partition(".")[0] not in _KNOWN


def _short(made: Any) -> str:
    return hashlib.blake2b(repr(made).encode(), digest_size=6).hexdigest()


def _class(kind: type) -> list[Any]:
    """The functions a class defines itself; those a dataclass was given follow from its fields."""
    own: list[Any] = []
    for name, member in sorted(vars(kind).items()):
        inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
        inner = getattr(inner, "__wrapped__", inner)
        if isinstance(inner, types.FunctionType) and inner.__code__.co_filename != "<string>":
            own.append((name, _function(inner, set())))
        elif isinstance(member, _PLAIN) and not name.startswith("__"):
            own.append((name, repr(member)))
    return own


def _function(function: types.FunctionType, seen: set[int]) -> Any:
    """What a function does, as far as it can be read off."""
    if id(function) in seen:
        return "again"
    seen.add(id(function))
    inside = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    named = [function.__globals__.get(name) for name in sorted(_names(function.__code__))]
    given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return _code(function.__code__), [_value(v, seen) for v in (*given, *inside, *named)]


def _names(code: types.CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # of a name that is not bound yet
        return False


def _value(value: Any, seen: set[int]) -> Any:
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, list | tuple):
        return [_value(v, seen) for v in value]
    if isinstance(value, dict):
        return [(repr(k), _value(v, seen)) for k, v in value.items()]
    if isinstance(value, types.FunctionType) and _foreign(value.__module__):
        return _function(value, seen)
    return type(value).__name__


def _code(code: types.CodeType) -> Any:
    """Instructions, names and constants, without the docstring."""
    consts = code.co_consts
    if sys.version_info >= (3, 13):
        documented = bool(code.co_flags & 0x4000000)  # CO_HAS_DOCSTRING
    else:  # the first constant of a function, but not of a comprehension
        documented = not code.co_name.startswith("<") and isinstance((*consts, 0)[0], str)
    consts = consts[1:] if documented else consts
    return (
        code.co_code.hex(), code.co_names,
        [_code(c) if isinstance(c, types.CodeType) else _constant(c) for c in consts],
    )  # fmt: skip


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
