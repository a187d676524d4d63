"""Schemas in files: TOML (ours) and the CSV of features that the CAA and MOEVA repositories use.

    name = "loans"
    relations = ["open_acc <= total_acc", "if ip > 0 then digits > 0"]
    [features]
    loan_amnt = {kind = "real", low = 1000, high = 40000, unit = "$"}
    age = {kind = "integer", low = "original", high = 120, mutable = false}

The CSV has a line per feature: name (or `feature`), type (real, int, cat, ohe), mutable, min, max;
"dynamic" as a bound means the record's own value.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from durometer.core import durable_files, toml
from durometer.core.errors import DurometerError, nearest
from durometer.relations.expression import Relation
from durometer.tables.feature import Feature, Kind, plain
from durometer.tables.schema import Schema

KEYS = ("name", "relations", "features", "version")
VERSION = 1  # of the format of schema files


def read(path: Any, relations: Iterable[Relation | str] = ()) -> Schema:
    """A schema from a .toml or .csv file."""
    path = Path(path)
    if not path.exists():
        raise DurometerError(f"no schema file '{path}'")
    if path.suffix == ".csv":
        return from_csv(path, relations)
    with durable_files.reading(path, "expected a schema as text (TOML, or the CSV of its authors)"):
        content = toml.read(path.read_text(encoding="utf-8"), f"schema file '{path}'")
    return from_dict(content, str(path))


def from_dict(content: dict[str, Any], where: str = "schema") -> Schema:
    """A schema from what a TOML file holds."""
    if not isinstance(content, dict):
        raise DurometerError(f"{where}: expected a table with features and relations")
    for key in content:
        if key not in (*KEYS, "$schema"):
            raise DurometerError(f"{where}: '{key}'{nearest(key, KEYS)}")
    if content.get("version", VERSION) != VERSION:
        raise DurometerError(
            f"{where}: version = {content['version']!r}: this durometer reads version {VERSION}"
        )
    features = []
    known = [f for f in Feature.__dataclass_fields__ if f != "name"]
    tables, relations = content.get("features", {}), content.get("relations", ())
    if not isinstance(tables, dict):
        raise DurometerError(
            f"{where}: features = {tables!r}: expected a table, one entry per feature"
        )
    if not isinstance(relations, list | tuple) or not all(isinstance(r, str) for r in relations):
        raise DurometerError(f"{where}: relations: expected a list of texts, e.g. ['a <= b']")
    for name, fields in tables.items():
        if not isinstance(fields, dict):
            raise DurometerError(f"{where}: feature '{name}' = {fields!r}: expected {{kind = ...}}")
        for key in fields:
            if key not in known:
                raise DurometerError(f"{where}: feature '{name}': '{key}'{nearest(key, known)}")
        features.append(Feature(name, **fields))
    return Schema(features, relations, content.get("name", ""))


def to_toml(schema: Schema) -> str:
    """The schema as TOML text."""
    lines = [toml.line("name", schema.name), "relations = ["]
    lines += [f"    {toml.value(str(r))}," for r in schema.relations]
    lines += ["]", "", "[features]"]
    for f in schema.features:
        fields = {"kind": f.kind, **plain(f)}
        lines.append(toml.line(f.name, {k: _written(v) for k, v in fields.items()}))
    return "\n".join(lines) + "\n"


def _written(value: Any) -> Any:
    """Numbers without a fraction as whole ones, whatever they are kept as."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, tuple | list):
        return [_written(v) for v in value]
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


_KINDS: dict[str, Kind] = {"real": "real", "int": "integer", "cat": "category", "bool": "boolean"}


def from_csv(path: Any, relations: Iterable[Relation | str] = ()) -> Schema:
    """The authors' format; categories get the codes min..max, one-hot columns a group."""
    with Path(path).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    if not rows:
        raise DurometerError(f"'{path}' holds no features")
    features = []
    for row in rows:
        name, kind = row.get("name") or row.get("feature"), row.get("type", "")
        if not name:
            raise DurometerError(
                f"'{path}': expected a column 'name' or 'feature'; found {list(row)}"
            )
        group = (row.get("one_hot_group") or "").strip()
        if kind.startswith("ohe"):
            kind, group = "bool", group or kind
        elif kind != "cat" and group:
            kind = "bool"
        if kind not in _KINDS:
            raise DurometerError(
                f"'{path}', feature '{name}': type '{kind}'{nearest(kind, _KINDS)}"
            )
        low, high = (_bound(row[side], f"'{path}', feature '{name}'") for side in ("min", "max"))
        mutable = str(row["mutable"]).strip().lower() in ("true", "1", "yes")
        if kind == "cat":
            if not (isinstance(low, float) and isinstance(high, float)):
                raise DurometerError(f"'{path}', category '{name}': expected min and max codes")
            codes = tuple(range(int(low), int(high) + 1))
            features.append(Feature(name, "category", mutable=mutable, values=codes))
        elif kind == "bool":
            features.append(Feature(name, "boolean", mutable=mutable, group=group))
        else:
            features.append(Feature(name, _KINDS[kind], low, high, mutable))
    return Schema(features, relations, Path(path).stem)


def _bound(text: str, where: str) -> float | Literal["original"] | None:
    text = text.strip()
    if text in ("dynamic", "original"):
        return "original"
    if text in ("", "nan"):
        return None
    try:
        return float(text)
    except ValueError:
        raise DurometerError(f"{where}: bound '{text}'; expected a number or 'dynamic'") from None
