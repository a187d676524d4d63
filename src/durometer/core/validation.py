"""Nouns: frozen dataclasses that check their fields once, when they are made.

A field's annotation says what it may be. A `Literal` is one of its choices. A whole number counts
something (steps, restarts, queries, rounds) and is at least 1; every other number is a size: not
negative, finite. A `seed` counts nothing and may be 0. A field's metadata says otherwise: `least`
and `most` are bounds that may be reached, `above` and `below` bounds that may not; `most` of `inf`
allows infinity. Nothing is counted beyond 10^12: nobody would see the end of it, and larger numbers
overflow inside. What stands for an object is an object, not its class, and where the annotation is
a class or a protocol that can be asked at run time, it is one of those.

So one rule serves attacks, spaces, goals, games, noise and defenders, and whoever adds one need not
think of it. What ties fields to each other is left to a noun's own `__post_init__`, which runs
after this.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, overload

from durometer.core.errors import DurometerError, nearest

MOST = 10**12  # of anything that is counted
_HIDDEN = {MOST, sys.float_info.max}  # said only to whoever comes so far
SIGNED = {"least": -sys.float_info.max}  # metadata of a number that may be negative
_BOUNDS = {"least": "of at least", "above": "above", "most": "of at most", "below": "below"}
_Noun = TypeVar("_Noun")


@overload
def noun(cls: type[_Noun], /) -> type[_Noun]: ...
@overload
def noun(*, eq: bool = True, repr: bool = True) -> Callable[[type[_Noun]], type[_Noun]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def noun(cls: Any = None, /, **options: bool) -> Any:
    """A frozen dataclass whose fields are checked when it is made.

    Args:
        options: Those of `dataclasses.dataclass`, e.g. `eq=False`.

    >>> @noun
    ... class Search:
    ...     steps: int = 10
    >>> Search(steps=0)
    Traceback (most recent call last):
    durometer.core.errors.DurometerError: Search(steps=0): expected a whole number of at least 1
    """

    def decorate(cls: type[Any]) -> type[Any]:
        own = getattr(cls, "__post_init__", None)

        def check(self: Any, *initial: Any) -> None:
            check_fields(self)
            if own is not None:
                own(self, *initial)

        cls.__post_init__ = check
        return dataclass(frozen=True, **options)(cls)

    return decorate if cls is None else decorate(cls)


def check_fields(made: Any) -> None:
    """Raise on the first field of a dataclass that cannot be meant."""
    for f, kinds in _declared(made.__class__):
        value = getattr(made, f.name)
        plain = _plain(value)
        if plain is not value:  # a number of numpy: stored as Python's, so that it can be written
            object.__setattr__(made, f.name, plain)
        wrong = _wrong(f, kinds, plain)
        if wrong:
            raise DurometerError(f"{format_field(made, f)}: {wrong}")


def format_field(made: Any, field: Field[Any]) -> str:
    """A field as it was given, for messages: "PGD(steps=0)"."""
    value = getattr(made, field.name)
    if isinstance(value, type):
        shown = value.__name__
    elif isinstance(value, int) and value.bit_length() > 200:
        # Python itself refuses to write whole numbers of many thousand digits.
        shown = f"a number of {value.bit_length()} bits"
    else:
        shown = repr(value)
        shown = shown if len(shown) <= 200 else f"a {type(value).__name__}"
    name = vars(made).get("name") if field.name != "name" else None
    which = f"{name!r}, " if isinstance(name, str) and name else ""
    return f"{type(made).__name__}({which}{field.name}={shown})"


@cache
def _declared(cls: type) -> tuple[tuple[Field[Any], tuple[Any, ...]], ...]:
    """The public fields, each with the alternatives of its annotation."""
    listed = (f for f in fields(cls) if f.init and not f.name.startswith("_"))
    return tuple((f, tuple(_alternatives(_hint(cls, f)))) for f in listed)


def declared(cls: type) -> dict[str, tuple[Any, ...]]:
    """What each field of a noun may be, by its name; `Any` for what cannot be told at run time."""
    return {f.name: kinds for f, kinds in _declared(cls)}


def _hint(cls: type, f: Field[Any]) -> Any:
    if not isinstance(f.type, str):
        return f.type
    for owner in cls.__mro__:
        if f.name in vars(owner).get("__annotations__", {}):
            try:
                return eval(f.type, vars(sys.modules[owner.__module__]), dict(vars(owner)))
            except (NameError, TypeError):  # imported for the type checker only
                return Any
    return Any


def _alternatives(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [kind for part in get_args(hint) for kind in _alternatives(part)]
    return [hint]


def _plain(value: Any) -> Any:
    """A number of numpy as Python's; without numpy, which `durometer --help` does not load."""
    scalar = type(value).__module__ == "numpy" and not hasattr(value, "__len__")
    return value.item() if scalar else value


def _wrong(f: Field[Any], kinds: tuple[Any, ...], value: Any) -> str | None:
    """What is wrong with the value, or None."""
    if any(_is(value, kind) for kind in kinds):
        number = any(_is(value, kind) for kind in kinds if kind in (int, float))
        return _out_of_bounds(f, float not in kinds, value) if number else None
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, type):
            return f"not the class but {one.__name__}()"
    choices = [c for kind in kinds if get_origin(kind) is Literal for c in get_args(kind)]
    expected = " or ".join(dict.fromkeys(_expected(f, kind) for kind in kinds))
    close = nearest(value, choices) if isinstance(value, str) else ""
    example = f", e.g. {f.metadata['example']}" if "example" in f.metadata else ""
    return f"expected {expected}" + (close if "did you mean" in close else "") + example


def _is(value: Any, kind: Any) -> bool:
    """Is the value of this kind, as far as that can be told?"""
    origin = get_origin(kind)
    if kind is Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    if kind is int or kind is float:
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is Literal:
        return any(type(value) is type(c) and value == c for c in get_args(kind))
    if kind is Callable or origin is Callable:
        return callable(value)
    if isinstance(value, type):
        return kind is type or origin is type
    if origin is tuple and isinstance(value, tuple | list):
        parts = _alternatives(get_args(kind)[0])
        return all(any(_is(v, part) for part in parts) for v in map(_plain, value))
    if origin is not None:  # a list, a table, an array in their place: looked at where it is used
        return not isinstance(value, Real | None)
    return not _can_be_asked(kind) or isinstance(value, kind)


def _can_be_asked(kind: Any) -> bool:
    """A class, or a protocol that `isinstance` knows how to ask for."""
    protocol = getattr(kind, "_is_protocol", False)
    return isinstance(kind, type) and getattr(kind, "_is_runtime_protocol", not protocol)


def _expected(f: Field[Any], kind: Any) -> str:
    if kind is int or kind is float:
        bounds = _bounds(f, kind is int)
        said = [f"{_BOUNDS[k]} {b:g}" for k, b in bounds.items() if b not in _HIDDEN]
        return f"a {'whole ' if kind is int else ''}number {' and '.join(said)}".rstrip()
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if get_origin(kind) is tuple:
        parts = _alternatives(get_args(kind)[0])
        return f"a list, each {' or '.join(_expected(f, part) for part in parts)}"
    if kind is Callable or get_origin(kind) is Callable:
        return "a function"
    known = {str: "text", bool: "True or False", None: "None", type(None): "None"}
    name: str = known.get(kind) or str(getattr(kind, "__name__", kind))
    return name if kind in known else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _bounds(f: Field[Any], whole: bool) -> dict[str, float]:
    """The bounds of a field, by their words in `_BOUNDS`."""
    given = {k: b for k, b in f.metadata.items() if k in _BOUNDS}
    counts = whole and f.name != "seed"
    low = {} if "above" in given else {"least": 1 if counts else 0}
    high = {} if "below" in given else {"most": MOST if counts else sys.float_info.max}
    return low | given | ({} if "most" in given else high)


def _out_of_bounds(f: Field[Any], whole: bool, value: float) -> str | None:
    for name, bound in _bounds(f, whole).items():
        fits = {
            "least": value >= bound,
            "above": value > bound,
            "most": value <= bound,
            "below": value < bound,
        }[name]
        if not fits:
            if bound in _HIDDEN:
                return f"expected a number of at most {bound:g}"
            return f"expected {_expected(f, int if whole else float)}"
    return None
