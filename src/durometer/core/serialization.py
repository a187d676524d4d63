"""A noun as a table of plain values: its type and its fields. Specs and TOML files hold the same.

    Restarts(PGD(10), times=3)  <->  {"type": "Restarts", "attack": {"type": "PGD", "steps": 10},
                                      "times": 3}

What a reader would get wrong: a type of this package goes by its public name, any other one by its
module, "mypackage.corners:Corner", which is how a file names it. A noun that is not written by its
fields says so itself, in `to_dict(whole)`: `Lp(p=inf, eps=0.1)` is `Linf(0.1)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np
from torch import Tensor

from durometer.core.capabilities import ToTable
from durometer.core.number_format import format_number, levels

Table = dict[str, Any]
_PLAIN = {bool, int, float, str}


def to_dict(noun: object, whole: bool = False) -> Table:
    """The table of a noun, its parameters at their default left out unless it is to be `whole`.

    >>> from durometer.attacks.pgd import PGD
    >>> to_dict(PGD(steps=10))
    {'type': 'PGD', 'steps': 10}
    """
    if isinstance(noun, ToTable):
        return noun.to_dict(whole)
    if not is_dataclass(noun):
        text = repr(noun)
        return {"type": type_name(noun)} | ({} if " at 0x" in text else {"repr": text})
    return {"type": type_name(noun)} | non_default_fields(noun, whole)


def type_name(noun: Any) -> str:
    """What a table calls the type of a noun, or a function."""
    kind = noun if hasattr(noun, "__qualname__") else type(noun)
    inside = kind.__module__.split(".")[0] == "durometer"
    return str(kind.__name__) if inside else f"{kind.__module__}:{kind.__qualname__}"


def non_default_fields(noun: Any, whole: bool = False, leave: tuple[str, ...] = ()) -> Table:
    """The fields of a dataclass that say what was asked, as plain values; None says nothing."""
    found: Table = {}
    for field in fields(noun):
        if not (field.init and field.repr) or field.name.startswith("_") or field.name in leave:
            continue
        value = to_jsonable(getattr(noun, field.name), whole)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if value is not None and (whole or default is MISSING or value != to_jsonable(default)):
            found[field.name] = value
    return found


def to_jsonable(value: object, whole: bool = False) -> Any:
    """A value as numbers, text, lists and tables."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): to_jsonable(v, whole) for k, v in value.items()}
    if isinstance(value, list | tuple):
        if set(map(type, value)) <= _PLAIN:  # a goal may name millions of classes
            return list(value)
        return [to_jsonable(v, whole) for v in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return type_name(value)
    return to_dict(value, whole)


def equal_fields(noun: Any, other: Any) -> bool:
    """Are two nouns of one type with the same fields? For nouns that hold arrays: `__eq__`."""
    if noun.__class__ is not other.__class__:
        return False
    names = [f.name for f in fields(noun) if f.init and not f.name.startswith("_")]
    return all(_equal(getattr(noun, n), getattr(other, n)) for n in names)


def hash_by_type(noun: object) -> int:
    """Equal nouns have equal hashes, whatever they hold: `__hash__`."""
    return hash(type(noun))


def _equal(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, Tensor | np.ndarray) or isinstance(b, Tensor | np.ndarray):
        return type(a) is type(b) and np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and type(a) is type(b):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def format_spec(value: object) -> str:
    """A table as one would write it in Python; one field alone goes without its name.

    >>> format_spec({"type": "Then", "attacks": [{"type": "PGD", "steps": 10}, {"type": "Square"}]})
    'Then([PGD(10), Square()])'
    >>> format_spec({"type": "Linf", "eps": 8 / 255})
    'Linf(8/255)'
    """
    if isinstance(value, Mapping) and "type" in value:
        rest = {k: format_spec(v) for k, v in value.items() if k != "type"}
        if "repr" in rest:
            return str(value["repr"])
        alone = len(rest) == 1
        return f"{value['type']}({', '.join(v if alone else f'{k}={v}' for k, v in rest.items())})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k!r}: {format_spec(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        if set(map(type, value)) <= {int, str}:  # a goal may name millions of classes
            return repr(list(value))
        return f"[{', '.join(map(format_spec, value))}]"
    return format_number(value) if isinstance(value, float) and levels(value) > 1 else repr(value)
