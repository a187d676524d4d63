"""TOML: the one reader and the one writer, for configurations and schemas.

Tables inside a value are written inline, so that a feature of a schema stays on one line.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from durometer.core.errors import DurometerError


def read(text: str, what: str) -> dict[str, Any]:
    """What a TOML text holds; `what` names it where it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DurometerError(f"{what} is not valid TOML: {error}") from None
    except RecursionError:
        raise DurometerError(f"{what} is nested too deep to be read") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise DurometerError(f"{what} holds a value that cannot be read: {error}") from None


def key(name: str) -> str:
    """A key, in quotes where it needs them.

    >>> key("open_acc"), key("open acc")
    ('open_acc', '"open acc"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else value(name)


def value(of: Any) -> str:
    """A value. JSON's strings are TOML's, but for DEL and escaped surrogates.

    >>> value({"kind": "real", "low": 0.5, "values": (1, 2)})
    '{kind = "real", low = 0.5, values = [1, 2]}'
    """
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, str):
        return json.dumps(of, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(of, list | tuple):
        return "[" + ", ".join(map(value, of)) + "]"
    if isinstance(of, dict):
        return "{" + ", ".join(line(k, v) for k, v in of.items()) + "}"
    if isinstance(of, int | float):
        return repr(of)
    raise DurometerError(f"{of!r} cannot be written to a file")


def line(name: str, of: Any) -> str:
    """`name = value`."""
    return f"{key(name)} = {value(of)}"
