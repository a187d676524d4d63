"""Schemas of other tools as far as they say types, ranges, sets of values and rules of a row.

    Great Expectations   a suite, {"expectations": [...]}
    pandera              what `DataFrameSchema.to_json()` or `.to_yaml()` writes
    Frictionless         a Table Schema {"fields": [...]}, or a package with one resource
    Croissant            JSON-LD with one `recordSet`; types and enumerations only

They describe data; a schema here describes what an attacker may hand in. So every feature comes
out mutable, and what is not in the file (costs, what an attacker may not touch) is for the reader.

What a reader would get wrong: a rule that cannot be taken over is never dropped in silence. It
stands in `left_out`, as a comment in the TOML, and `Schema.read` warns of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.relations import parse
from durometer.relations.expression import Relation, columns
from durometer.relations.language import F
from durometer.tables import files
from durometer.tables.feature import Feature, Kind
from durometer.tables.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

Tree = Mapping[str, Any]  # what JSON or YAML holds

SUFFIXES = (".json", ".jsonld", ".yaml", ".yml")
_REAL = ("float", "number", "decimal", "double", "numeric")
_WHOLE = ("int", "uint", "bigint", "smallint", "year", "date", "datetime", "timestamp")


@dataclass(frozen=True)
class Imported:
    """A schema read from another tool's file, and what of that file it does not hold.

    Args:
        schema: The schema.
        source: The tool that the file is of.
        left_out: Columns and rules that could not be taken over, each with the reason.
    """

    schema: Schema
    source: str
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [f"{self.schema!r} from a file of {self.source}"]
        return "\n".join([*lines, *(f"left out: {each}" for each in self.left_out)])

    def toml(self) -> str:
        """The schema as TOML to edit; what was left out stands above it as comments."""
        if self.source == "durometer":
            return self.schema.toml()
        notes = [
            f"# Taken over from a file of {self.source}: every feature is mutable. Say what an "
            "attacker may not change."
        ]
        notes += [f"# Left out: {each}" for each in self.left_out]
        return "\n".join([*notes, self.schema.toml()])


@dataclass
class _Described:
    """A column, as its checks come in one by one."""

    kind: Kind | None = None
    text: bool = False  # values are labels; without a list of them it is no feature
    low: float | None = None
    high: float | None = None
    values: tuple[Any, ...] = ()
    missing: bool = False
    unit: str = ""


@dataclass
class _Reading:
    """What has been read of a file."""

    columns: dict[str, _Described] = field(default_factory=dict)
    relations: list[Relation] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def column(self, name: Any) -> _Described:
        return self.columns.setdefault(str(name), _Described())

    def typed(self, name: Any, said: Any) -> None:
        """The kind of a column from the name of a type, in any tool's spelling."""
        each, word = self.column(name), str(said).lower().split(":")[-1].strip()
        if word.startswith("bool"):
            each.kind = "boolean"
        elif word.startswith(_REAL):
            each.kind = "real"
        elif word.startswith(_WHOLE):
            each.kind = "integer"
            each.unit = "days since 1970" if word.startswith(("date", "timestamp")) else ""
        elif word.startswith(("str", "text", "object", "categor", "varchar")):
            each.text = True
        elif word not in ("any", "none", ""):
            self.left_out.append(f"the type {said!r} of column '{name}'")

    def between(self, name: Any, low: Any, high: Any, strict: str = "") -> None:
        """Bounds; a strict one becomes a relation, for a bound of a feature may be reached."""
        each = self.column(name)
        for side, bound in (("low", low), ("high", high)):
            if bound is None:
                continue
            number = _number(bound)
            if number is None:
                self.left_out.append(f"the bound {bound!r} of column '{name}': no number")
            elif side == "low":
                each.low = number if each.low is None else max(each.low, number)
                if "low" in strict:
                    self.relations.append(F[str(name)] > number)
            else:
                each.high = number if each.high is None else min(each.high, number)
                if "high" in strict:
                    self.relations.append(F[str(name)] < number)

    def schema(self, name: str, table: pd.DataFrame | None) -> tuple[Schema, tuple[str, ...]]:
        features, left_out = [], list(self.left_out)
        for column, each in self.columns.items():
            made = _feature(column, each)
            if isinstance(made, str):
                left_out.append(f"column '{column}': {made}")
            else:
                features.append(made)
        if not features:
            raise DurometerError(f"no column of {name} could be taken over: {'; '.join(left_out)}")
        features = _ranged(features, name, table)
        known, kept = {f.name for f in features}, []
        for rule in self.relations:
            away = [n for n in _names(rule) if n not in known]
            if away:
                left_out.append(f"the rule {rule}: it names '{away[0]}'")
            else:
                kept.append(rule)
        return Schema(features, kept, name), tuple(left_out)


def _feature(name: str, each: _Described) -> Feature | str:
    """The feature, or why there is none."""
    if each.values and (each.text or each.kind != "boolean"):
        return Feature(name, "category", values=each.values, missing=each.missing)
    if each.text:
        return "text without a list of its values is no feature"
    if each.kind is None and each.low is None and each.high is None:
        return "neither a type nor a range is said"
    if each.kind == "boolean":
        return Feature(name, "boolean", missing=each.missing)
    return Feature(
        name, each.kind or "real", each.low, each.high, missing=each.missing, unit=each.unit
    )


def _ranged(features: list[Feature], name: str, table: pd.DataFrame | None) -> list[Feature]:
    """The features, those without a range scaled by what the table holds."""
    endless = [f for f in features if not f.has_range]
    if not endless:
        return features
    if table is None:
        raise DurometerError(
            f"{name} says no range of {', '.join(repr(f.name) for f in endless)}, and none is "
            "known to scale by; give the table as well: Schema.read(path, table=frame), or "
            "durometer schema FILE --data TABLE"
        )
    fitted = {f.name: f for f in Schema(endless).fit(table).features}
    return [fitted.get(f.name, f) for f in features]


def _names(rule: Relation) -> list[str]:
    return [c.name for c in columns(rule)]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def read(path: Path, table: pd.DataFrame | None = None) -> Imported:
    """A schema from a file of another tool, or of ours in JSON; `table` gives missing ranges."""
    with durable_files.reading(path, "expected JSON, or YAML of pandera"):
        text = path.read_text(encoding="utf-8")
    tree = _tree(text, path)
    if "features" in tree:
        return Imported(files.from_dict(dict(tree), f"schema file '{path}'"), "durometer")
    for source, (fits, reader) in _READERS.items():
        if fits(tree):
            reading = _Reading()
            try:
                reader(tree, reading)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise DurometerError(
                    f"'{path}' looks like a file of {source}, but is not laid out as one: {error!r}"
                ) from None
            schema, left_out = reading.schema(str(tree.get("name") or path.stem), table)
            return Imported(schema, source, left_out)
    raise DurometerError(
        f"'{path}' is no schema: expected one of durometer (features = ...), "
        f"{', '.join(_READERS)}; found the keys {sorted(map(str, tree))[:8]}"
    )


def _tree(text: str, path: Path) -> Tree:
    try:
        tree = _yaml(text, path) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except RecursionError:
        raise DurometerError(f"'{path}' is nested too deep to be read") from None
    except ValueError as error:
        raise DurometerError(f"'{path}' cannot be read: {error}") from None
    if not isinstance(tree, dict):
        raise DurometerError(f"'{path}' holds a {type(tree).__name__}; expected a table")
    return tree


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise DurometerError(
            f"'{path}' is YAML: pip install pyyaml, or write it as JSON (pandera: .to_json())"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DurometerError(f"'{path}' is not valid YAML: {error}") from None


# --- Great Expectations ------------------------------------------------------------------------


def _expectations(tree: Tree, found: _Reading) -> None:
    for each in tree["expectations"]:
        kind, said = each.get("type") or each["expectation_type"], dict(each.get("kwargs", {}))
        if float(said.get("mostly", 1.0) or 1.0) < 1.0:
            found.left_out.append(f"{kind} of {_about(said)}: it holds for most rows only")
            continue
        match kind.removeprefix("expect_"):
            case "column_values_to_be_between":
                strict = "low" * bool(said.get("strict_min")) + "high" * bool(
                    said.get("strict_max")
                )
                found.between(said["column"], said.get("min_value"), said.get("max_value"), strict)
            case "column_values_to_be_in_set":
                found.column(said["column"]).values = tuple(said["value_set"])
            case "column_values_to_be_of_type":
                found.typed(said["column"], said["type_"])
            case "column_values_to_be_in_type_list":
                found.typed(said["column"], said["type_list"][0])
            case "column_values_to_not_be_null" | "column_to_exist":
                found.column(said["column"])
            case "column_values_to_be_null":
                found.column(said["column"]).missing = True
            case "column_pair_values_a_to_be_greater_than_b":
                a, b = F[said["column_A"]], F[said["column_B"]]
                found.relations.append(a >= b if said.get("or_equal") else a > b)
            case "column_pair_values_to_be_equal":
                found.relations.append(F[said["column_A"]] == F[said["column_B"]])
            case "multicolumn_sum_to_equal":
                total = sum(
                    (F[n] for n in said["column_list"][1:]), start=F[said["column_list"][0]]
                )
                found.relations.append(total == float(said["sum_total"]))
            case _:
                found.left_out.append(f"{kind} of {_about(said)}: no rule of a row")


def _about(said: Tree) -> str:
    names = [str(said[k]) for k in ("column", "column_A", "column_B", "column_list") if k in said]
    return ", ".join(names) or "the table"


# --- pandera -----------------------------------------------------------------------------------


def _pandera(tree: Tree, found: _Reading) -> None:
    known = ("dtype", "nullable", "unique", "coerce", "required", "regex", "checks", "title",
             "description", "name", "metadata", "default")  # fmt: skip
    for name, said in tree["columns"].items():
        found.typed(name, said.get("dtype") or "any")
        found.column(name).missing = bool(said.get("nullable"))
        checks = {k: v for k, v in said.items() if k not in known}
        for more in (said.get("checks") or {},):  # older files nest them, some as a list
            items: Iterable[Tree] = more if isinstance(more, list) else [more]
            for item in items:
                checks |= _pandera_check(item)
        for check, value in checks.items():
            _pandera_rule(found, str(name), check, value)
    for check in tree.get("checks") or ():
        found.left_out.append(f"the check {check!r} of the table: it is code")


def _pandera_check(item: Tree) -> dict[str, Any]:
    options = item.get("options")
    if isinstance(options, dict) and "check_name" in options:
        rest = {k: v for k, v in item.items() if k != "options"}
        return {options["check_name"]: rest.get("value", rest)}
    return dict(item)


def _pandera_rule(found: _Reading, name: str, check: str, value: Any) -> None:
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    match check:
        case "greater_than_or_equal_to":
            found.between(name, value, None)
        case "greater_than":
            found.between(name, value, None, "low")
        case "less_than_or_equal_to":
            found.between(name, None, value)
        case "less_than":
            found.between(name, None, value, "high")
        case "in_range":
            strict = "low" * (not value.get("include_min", True))
            strict += "high" * (not value.get("include_max", True))
            found.between(name, value["min_value"], value["max_value"], strict)
        case "isin":
            values = value.get("allowed_values", ()) if isinstance(value, dict) else value
            found.column(name).values = tuple(values)
        case "equal_to":
            found.column(name).values = (value,)
        case "not_equal_to":
            found.relations.append(F[name] != value)
        case _:
            found.left_out.append(f"the check {check} of column '{name}'")


# --- Frictionless ------------------------------------------------------------------------------


def _frictionless(tree: Tree, found: _Reading) -> None:
    if "fields" not in tree:
        resources = [r for r in tree["resources"] if isinstance(r.get("schema"), dict)]
        if len(resources) != 1:
            names = [str(r.get("name", "?")) for r in resources]
            raise DurometerError(
                f"{len(resources)} resources have a schema ({', '.join(names)}); give the schema "
                "of one table"
            )
        tree = resources[0]["schema"]
    for said in tree["fields"]:
        name, rules = said["name"], dict(said.get("constraints") or {})
        found.typed(name, said.get("type", "any"))
        each = found.column(name)
        each.missing = not rules.pop("required", False) and bool(tree.get("missingValues"))
        found.between(name, rules.pop("minimum", None), rules.pop("maximum", None))
        found.between(
            name,
            rules.pop("exclusiveMinimum", None),
            rules.pop("exclusiveMaximum", None),
            "lowhigh",
        )
        values = rules.pop("enum", None) or said.get("categories") or ()
        each.values = tuple(v["value"] if isinstance(v, dict) else v for v in values)
        rules.pop("unique", None)
        found.left_out += [
            f"{rule} = {value!r} of column '{name}'" for rule, value in rules.items()
        ]
    for rule in tree.get("checks") or ():
        formula = rule.get("formula") if rule.get("type") == "row-constraint" else None
        try:
            found.relations.append(parse.relation(formula or ""))
        except DurometerError:
            found.left_out.append(f"the check {rule!r}: it cannot be read as a relation")


# --- Croissant ---------------------------------------------------------------------------------


def _croissant(tree: Tree, found: _Reading) -> None:
    sets = _listed(tree["recordSet"])
    enumerations = {
        s.get("@id") or s.get("name"): [next(iter(row.values())) for row in s.get("data", ())]
        for s in sets
        if "Enumeration" in str(s.get("dataType", "")) and s.get("data")
    }
    tables = [s for s in sets if (s.get("@id") or s.get("name")) not in enumerations]
    if len(tables) != 1:
        raise DurometerError(f"{len(tables)} record sets; expected a file that describes one table")
    for said in _listed(tables[0]["field"]):
        name = str(said.get("name") or said["@id"]).split("/")[-1]
        types = _listed(said.get("dataType", "any"))
        found.typed(name, types[0])
        of = said.get("references", {})
        of = of.get("field", of) if isinstance(of, dict) else of
        source = of.get("@id", "") if isinstance(of, dict) else str(of)
        if (values := enumerations.get(str(source).split("/")[0])) is not None:
            found.column(name).values = tuple(values)


def _listed(of: Any) -> list[Any]:
    return list(of) if isinstance(of, list) else [of]


Fits = Callable[[Tree], bool]
_READERS: dict[str, tuple[Fits, Callable[[Tree, _Reading], None]]] = {
    "Great Expectations": (lambda t: isinstance(t.get("expectations"), list), _expectations),
    "pandera": (lambda t: isinstance(t.get("columns"), dict), _pandera),
    "Frictionless": (
        lambda t: isinstance(t.get("fields") or t.get("resources"), list),
        _frictionless,
    ),
    "Croissant": (lambda t: "recordSet" in t, _croissant),
}


# --- ours, as JSON -----------------------------------------------------------------------------


def to_json(schema: Schema) -> str:
    """The schema as JSON; `durometer/tables/schema.json` is the JSON Schema of such files."""
    from durometer.core import toml

    content = toml.read(schema.toml(), "the schema")
    return json.dumps({"version": files.VERSION, **content}, indent=2, ensure_ascii=False) + "\n"


def json_schema() -> str:
    """The JSON Schema (draft 2020-12) of schema files, JSON and TOML alike."""
    return (Path(__file__).parent / "schema.json").read_text(encoding="utf-8")
