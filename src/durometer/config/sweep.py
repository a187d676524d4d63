"""Plan: a file with a [sweep] table is several runs, one for each combination of its values.

    [sweep]
    space.eps = ["2/255", "4/255", "8/255"]
    seed = [0, 1]
    model = [{demo = "mnist"}, {python = "net.py:robust"}]

A key is any place of the file, written with dots (an element of a list by its number:
`attack.attacks.0.steps`); its list holds the values it takes. All runs are checked when the file is
read. Each is kept in a folder named after its values, so that a sweep that is made longer later
finds the runs it has.

What a reader would get wrong: the outermost list is always the list of values. A key whose value is
itself a list takes a list of lists.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durometer.config.build import Wrong
from durometer.config.config import Config, configured, opened, text_of
from durometer.core.errors import DurometerError

_MOST = 1000  # runs in a sweep: more is a mistake


@dataclass(frozen=True)
class Point:
    """One run of a sweep: its folder's name, what was set, and the configuration."""

    name: str
    settings: dict[str, Any]
    config: Config


@dataclass(frozen=True)
class Plan:
    """All runs of a sweep, the last key of the table changing fastest."""

    axes: dict[str, list[Any]]
    points: tuple[Point, ...]
    out: str | None = None


def read(file: str | Path) -> Config | Plan:
    """What is in a file: one run, or a sweep."""
    return parse(text_of(file), Path(file))


def parse(text: str, file: Path | None = None) -> Config | Plan:
    """What is in a text: one run, or a sweep.

    >>> base = 'data.name = "mnist"\\nmodel.demo = "mnist"\\nspace = {type = "L2", eps = 1}\\n'
    >>> [p.name for p in parse(base + "sweep.space.eps = [0.5, 1.5]").points]
    ['eps=0.5', 'eps=1.5']
    """
    given, place = opened(text, file)
    with place.named():
        if "sweep" not in given:
            return configured(given, place)
        axes = dict(_axes(given.pop("sweep"), ("sweep",)))
        if not axes:
            raise Wrong(("sweep",), "[sweep] is empty; give it a key, e.g. space.eps = [0.1, 0.2]")
        size = 1
        for values in axes.values():
            size *= len(values)
        if size > _MOST:
            raise Wrong(("sweep",), f"[sweep] asks for {size} runs; the most is {_MOST}")
        short = _short(list(axes))
        points = []
        for values in itertools.product(*axes.values()):
            settings = dict(zip(axes, values, strict=True))
            tables = copy.deepcopy(given)
            for key, value in settings.items():
                _set(tables, key.split("."), value, ("sweep", *key.split(".")))
            try:
                config = configured(tables, place)
            except Wrong as error:
                spot = ", ".join(f"{k} = {v}" for k, v in settings.items())
                raise Wrong(error.path, f"{error} (in the sweep, at {spot})") from error
            name = "_".join(f"{short[k]}={_slug(v)}" for k, v in settings.items())
            points.append(Point(name, settings, config))
        names = [p.name for p in points]
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise Wrong(
                ("sweep",), f"two runs would be called '{twice.pop()}': a value is repeated"
            )
        return Plan(axes, tuple(points), given.get("out"))


def _axes(table: Any, path: tuple[str, ...]) -> Any:
    """Key -> values: tables below [sweep] are dotted keys, lists are values."""
    if isinstance(table, dict):
        for key, inner in table.items():
            yield from _axes(inner, (*path, key))
    elif isinstance(table, list) and table:
        yield ".".join(path[1:]), table
    else:
        raise Wrong(path, f"{table!r}; expected a list of the values it takes")


def _set(tables: Any, keys: list[str], value: Any, path: tuple[str, ...]) -> None:
    """Put a value at its place; tables on the way are made where they are missing."""
    for key in keys[:-1]:
        tables = tables[_place(tables, key, path)] if isinstance(tables, list) else (
            tables.setdefault(key, {}))  # fmt: skip
        if not isinstance(tables, dict | list):
            raise Wrong(path, f"'{key}' is {tables!r}, not a table: nothing can be set inside it")
    last = keys[-1]
    tables[_place(tables, last, path) if isinstance(tables, list) else last] = copy.deepcopy(value)


def _place(items: list[Any], key: str, path: tuple[str, ...]) -> int:
    if not (key.isdigit() and int(key) < len(items)):
        raise Wrong(path, f"'{key}': expected the number of one of {len(items)} elements, from 0")
    return int(key)


def _short(keys: list[str]) -> dict[str, str]:
    """The last word of each key, where that tells them apart."""
    last = [k.rpartition(".")[2] for k in keys]
    return {k: w if last.count(w) == 1 else k for k, w in zip(keys, last, strict=True)}


def _slug(value: Any) -> str:
    """A value as part of a folder's name."""
    text = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, dict):
        text = "-".join(str(v) for v in value.values())
    plain = re.sub(r"[^A-Za-z0-9.+-]+", "-", text).strip("-.")
    if plain == text and len(plain) <= 40:
        return plain
    digest = hashlib.blake2b(json.dumps(value).encode(), digest_size=2).hexdigest()
    readable = re.fullmatch(r"[0-9./]+|[A-Za-z0-9._:/ -]{1,40}", text)
    return plain[:40] if readable else f"{plain[:30]}-{digest}"


def number(value: Any) -> float | None:
    """A value as a number to draw against, fractions included; None where it is none."""
    from durometer.config import build

    try:
        return float(build.number(value))
    except DurometerError:
        return None
