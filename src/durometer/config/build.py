"""Nouns: a table of plain values becomes the object it describes, and back.

`build("attacks", {"type": "Restarts", "attack": {"type": "PGD", "steps": 10}, "times": 3})` is
`Restarts(PGD(steps=10), times=3)`, and `table(...)` of that is the first table again. The types a
noun declares for its parameters say what a value may be; nothing is converted that is not asked
for, except that a number may be written as a fraction: "8/255".

What a reader would get wrong: nothing here runs code from the file. Names are looked up among the
public ones, and fractions are read by a pattern, never by `eval`.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin

from durometer.config.positions import Path
from durometer.config.registry import KINDS, REQUIRED, find, implied, names, parameters
from durometer.core import serialization
from durometer.core.errors import DurometerError, nearest
from durometer.core.serialization import Table

_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf)"
_FRACTION = re.compile(rf"\s*({_NUMBER})\s*(?:/\s*({_NUMBER})\s*)?")

_LARGEST = 10**300


class Wrong(DurometerError):
    """A value that does not fit, and the path of keys at which it stands."""

    def __init__(self, path: Path, text: str) -> None:
        super().__init__(text)
        self.path = path


@contextmanager
def at(path: Path) -> Iterator[None]:
    """Errors from inside are said to stand at this path, unless they know better."""
    try:
        yield
    except Wrong:
        raise
    except DurometerError as error:
        raise Wrong(path, str(error)) from error


def number(value: Any) -> float:
    """A number, or a fraction written as text.

    >>> number("8/255") == 8 / 255
    True
    """
    if isinstance(value, str) and (match := _FRACTION.fullmatch(value)):
        top, bottom = float(match[1]), float(match[2] or 1)
        if bottom == 0:
            raise DurometerError(f"'{value}' divides by 0")
        return top / bottom
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        said = repr(value)[:200]
        raise DurometerError(f"{said} is not a number; expected one, or a fraction such as '8/255'")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise DurometerError(f"a whole number of {len(str(abs(value)))} digits: larger than any")
    return value


@dataclass(frozen=True)
class Later:
    """A noun that waits for what only the run knows: its data's schema, its space."""

    name: str
    noun: Callable[..., Any]
    given: Mapping[str, Any]

    def made(self, **run: Any) -> Any:
        """The noun itself; `run` holds the schema and the space, or the model and its defender."""
        needed = {k: run.get(k) for k in implied(self.noun)}
        if "schema" in needed and needed["schema"] is None:
            raise DurometerError(
                f"{self.name} needs data with a schema, and these have none; use Linf"
            )
        return self.noun(**self.given, **needed)


def build(kind: str, given: Any, path: Path = ()) -> Any:
    """The noun that a table describes; `Later` where it needs something of the run."""
    one = kind.removesuffix("s")
    if not isinstance(given, dict):
        raise Wrong(
            path, f"expected a table that names a type of {one}, e.g. {{type = ...}}; got {given!r}"
        )
    name = given.get("type")
    if not isinstance(name, str):
        known = ", ".join(names(kind))
        raise Wrong(path, f"which {one}? Give its type, one of: {known}")
    with at((*path, "type")):
        noun = find(kind, name)
    rest = {k: v for k, v in given.items() if k != "type"}
    return fill(noun, name, rest, path)


def fill(noun: Callable[..., Any], name: str, given: dict[str, Any], path: Path = ()) -> Any:
    """Call a noun with the values of a table, each checked against the type it declares."""
    wanted = parameters(noun)
    for key in given:
        if key not in wanted:
            with at((*path, key)):
                raise DurometerError(f"{name} has no parameter '{key}'{nearest(key, wanted)}")
    listed: list[Any] = []
    named: dict[str, Any] = {}
    for key, p in wanted.items():
        if key not in given:
            if p.default is REQUIRED and not p.many:
                raise Wrong(
                    path, f"{name} needs {key}; it takes {', '.join(map(str, wanted.values()))}"
                )
            continue
        place = (*path, key)
        with at(place):
            try:
                value = (_sequence if p.many else convert)(given[key], p.hint, place)
            except Wrong:
                raise
            except DurometerError as error:
                raise DurometerError(f"{name}: {key} = {error}") from None
        if p.many:
            listed = list(value)
        else:
            named[key] = value
    if implied(noun):
        return Later(name, noun, named)
    with at(path):
        return noun(*listed, **named)


def convert(value: Any, hint: Any, path: Path = ()) -> Any:
    """The value as the type says, or an error that says what was expected."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _one_of(value, inner, path)
    if origin is Literal:
        if value not in inner:
            raise DurometerError(f"{value!r}{nearest(str(value), map(str, inner))}")
        return value
    if hint is float:
        return number(value)
    if hint in (bool, int, str):
        if type(value) is not hint:
            raise DurometerError(f"{value!r}; expected {_WORDS[hint]}")
        return value
    kind = _kind(hint)
    if kind is not None:
        return build(kind, value, path)
    if is_dataclass(hint) and isinstance(hint, type):
        return fill(hint, hint.__name__, _mapping(value), path)
    if origin is not None and issubclass(origin, Mapping):
        _, element = inner
        return {k: convert(v, element, (*path, k)) for k, v in _mapping(value).items()}
    if origin is not None and issubclass(origin, Sequence):
        return _sequence(value, inner[0], path)
    raise DurometerError(
        f"{value!r}; a {getattr(hint, '__name__', hint)} can be given in Python only"
    )


_WORDS = {bool: "true or false", int: "a whole number", str: "text in quotes"}


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DurometerError(f"{value!r}; expected a table")
    return value


def _sequence(value: Any, hint: Any, path: Path) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise DurometerError(f"{value!r}; expected a list")
    return tuple(convert(v, hint, (*path, k)) for k, v in enumerate(value))


def _one_of(value: Any, options: tuple[Any, ...], path: Path) -> Any:
    """The first of the types that fits; text stays text where text is allowed."""
    # A function can be given in Python only: what else there is says what is expected.
    options = tuple(o for o in options if o is not type(None) and get_origin(o) is not Callable)
    options = tuple(sorted(options, key=lambda o: o is not str))
    errors = []
    for option in options:
        try:
            return convert(value, option, path)
        except DurometerError as error:
            errors.append(error)
    if len(options) == 1 or any(isinstance(e, Wrong) for e in errors):
        raise next((e for e in reversed(errors) if isinstance(e, Wrong)), errors[-1])
    listed = isinstance(value, list | tuple)  # then only the error of a list is worth telling
    lists = [get_origin(o) in (Sequence, list, tuple) for o in options]
    own = [e for e, is_list in zip(errors, lists, strict=True) if is_list == listed]
    if len(own) == 1:
        raise own[0]
    words = [_WORDS.get(o, "a number" if o is float else "a list") for o in options]
    raise DurometerError(f"{value!r}; expected {' or '.join(dict.fromkeys(words))}")


def _kind(hint: Any) -> str | None:
    """The kind of noun a type stands for, if any: `Attack`, `Space`, `Goal` or one of theirs."""
    for kind, (_, methods) in KINDS.items():
        if methods and inspect.isclass(hint) and all(hasattr(hint, m) for m in methods):
            return kind
    return None


def table(noun: Any) -> Table:
    """The table that describes a noun in a file; parameters at their default are left out.

    >>> from durometer.attacks.pgd import PGD
    >>> table(PGD(steps=10))
    {'type': 'PGD', 'steps': 10}
    """
    if isinstance(noun, Later):
        given = {k: plain(v) for k, v in noun.given.items() if v is not None}
        return {"type": noun.name} | given
    made = serialization.to_dict(noun)
    try:
        makes = find(_kind(type(noun)) or "attacks", made["type"])
    except DurometerError:
        makes = None
    if makes is None or implied(makes):
        raise DurometerError(f"{noun!r} cannot be written to a file: no public name makes it")
    return made


def plain(value: Any) -> Any:
    """A value as numbers, text, lists and tables; what is no noun goes without a type."""
    if is_dataclass(value) and not isinstance(value, type) and _kind(type(value)) is None:
        return serialization.non_default_fields(value, whole=True)
    return serialization.to_jsonable(value)
