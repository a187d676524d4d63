"""Sections of a file whose tables need more than one rule: [data], [nature], also."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from durometer.config import build, positions
from durometer.config.build import Wrong, at
from durometer.config.registry import find, parameters
from durometer.config.sources import Data
from durometer.core.errors import nearest


def also_of(given: Any) -> tuple[Any, ...]:
    """also: a list of goals."""
    if not isinstance(given, list):
        raise Wrong(
            ("also",), f'expected a list of goals, e.g. [{{type = "Untargeted"}}]; got {given!r}'
        )
    return tuple(build.build("goals", goal, ("also", k)) for k, goal in enumerate(given))


def nature_of(given: Any) -> dict[str, Any]:
    """[nature]: how exactly, how long, by which method."""
    from durometer.games.nature import Nature

    path: positions.Path = ("nature",)
    if not isinstance(given, dict):
        raise Wrong(path, f"expected a table [nature], got {given!r}")
    known = {
        k: p for k, p in parameters(Nature).items() if k not in ("model", "noise", "_ensemble")
    }
    found = {}
    for key, value in given.items():
        if key not in known:
            raise Wrong((*path, key), f"Nature has no parameter '{key}'{nearest(key, known)}")
        with at((*path, key)):
            found[key] = build.convert(value, known[key].hint, (*path, key))
    return found


def data_of(given: Any, folder: Path) -> Data:
    """[data]: keys that are not `Data`'s own belong to the named data set's function."""
    path: positions.Path = ("data",)
    if not isinstance(given, dict):
        raise Wrong(path, f"expected a table [data], got {given!r}")
    name = given.get("name")
    with at((*path, "name")):
        own = parameters(find("datasets", name)) if isinstance(name, str) else {}
    if "options" in given:
        raise Wrong((*path, "options"), "write the data set's parameters straight into [data]")
    options = {k: v for k, v in given.items() if k in own}
    rest = {k: v for k, v in given.items() if k not in own}
    for key in rest:
        known = [*own, *(k for k in parameters(Data) if k != "options")]
        if key not in known:
            raise Wrong((*path, key), f"data has no key '{key}'{nearest(key, known)}")
    for key, value in options.items():
        with at((*path, key)):
            options[key] = build.convert(value, own[key].hint, (*path, key))
    if isinstance(options.get("path"), str):
        options["path"] = str(folder / options["path"])
    with at(path):
        data: Data = build.fill(
            Data, "data", rest | ({"options": options} if options else {}), path
        )
        data.check(folder, path)
    return data
