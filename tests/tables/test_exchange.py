"""Schemas as JSON, and those of other tools: what is taken over, and that nothing goes silently."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.core.errors import DurometerError
from durometer.tables import exchange
from durometer.tables.schema import Schema

SUITE = {
    "name": "loans",
    "expectations": [
        {"type": "expect_column_values_to_be_of_type",
         "kwargs": {"column": "amount", "type_": "int64"}},
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "amount", "min_value": 1000, "max_value": 40000}},
        {"expectation_type": "expect_column_values_to_be_between",  # as older versions call it
         "kwargs": {"column": "rate", "min_value": 0, "max_value": 30, "strict_min": True}},
        {"type": "expect_column_values_to_be_in_set",
         "kwargs": {"column": "grade", "value_set": ["A", "B"]}},
        {"type": "expect_column_pair_values_a_to_be_greater_than_b",
         "kwargs": {"column_A": "total", "column_B": "open", "or_equal": True}},
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "total", "min_value": 0}},
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "open", "min_value": 0}},
        {"type": "expect_column_values_to_be_between",
         "kwargs": {"column": "open", "max_value": 9, "mostly": 0.95}},
        {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "rate", "max_value": 9}},
        {"type": "expect_column_to_exist", "kwargs": {"column": "note"}},
    ],
}  # fmt: skip
PANDERA = {
    "schema_type": "dataframe",
    "columns": {
        "amount": {"dtype": "int64", "in_range": {"min_value": 1000, "max_value": 40000,
                                                  "include_min": True, "include_max": True}},
        "rate": {"dtype": "float64", "nullable": True, "greater_than": 0,
                 "checks": [{"value": 30, "options": {"check_name": "less_than_or_equal_to"}}]},
        "grade": {"dtype": "string[python]", "isin": ["A", "B"]},
        "name": {"dtype": "object", "str_startswith": "x"},
    },
    "checks": None,
}  # fmt: skip
FRICTIONLESS = {
    "resources": [{"name": "loans", "schema": {
        "missingValues": [""],
        "fields": [
            {"name": "amount", "type": "integer",
             "constraints": {"minimum": 1000, "maximum": 40000, "required": True}},
            {"name": "rate", "type": "number", "constraints": {"exclusiveMinimum": 0}},
            {"name": "grade", "type": "string",
             "constraints": {"enum": ["A", "B"], "pattern": "."}},
        ],
        "checks": [{"type": "row-constraint", "formula": "rate <= amount"}],
    }}],
}  # fmt: skip
CROISSANT = {
    "@type": "sc:Dataset", "name": "loans",
    "recordSet": [
        {"@id": "grades", "dataType": "sc:Enumeration", "data": [{"grades/name": "A"},
                                                                 {"grades/name": "B"}]},
        {"@id": "loans", "field": [
            {"@id": "loans/amount", "name": "amount", "dataType": "sc:Integer"},
            {"@id": "loans/rate", "dataType": "sc:Float"},
            {"@id": "loans/grade", "dataType": "sc:Text",
             "references": {"field": {"@id": "grades/name"}}},
        ]},
    ],
}  # fmt: skip


FRAME = pd.DataFrame({"amount": [1500, 9000], "rate": [1.0, 20.0], "total": [0, 30],
                      "open": [0, 9]})  # fmt: skip


def imported(tmp_path, tree, name="file.json", table=FRAME):
    path = tmp_path / name
    path.write_text(json.dumps(tree))
    return exchange.read(path, table)


def test_a_suite_of_great_expectations(tmp_path):
    found = imported(tmp_path, SUITE)
    kinds = {f.name: (f.kind, f.low, f.high, f.values) for f in found.schema.features}
    assert kinds == {
        "amount": ("integer", 1000, 40000, ()), "rate": ("real", 0, 30, ()),
        "grade": ("category", None, None, ("A", "B")),
        "total": ("real", 0, None, ()), "open": ("real", 0, None, ()),
    }  # fmt: skip
    assert len(found.schema.relations) == 2
    outside = pd.DataFrame({"amount": [1500] * 3, "rate": [0.0, 1.0, 1.0], "grade": ["A"] * 3,
                            "total": [5, 5, 5], "open": [5, 6, 4]})  # fmt: skip
    assert found.schema.validate(outside)["row"].tolist() == [0, 1]
    text = " ".join(found.left_out)
    assert "most rows" in text and "column_mean" in text and "column 'note'" in text
    assert len(found.left_out) == 3


def test_a_schema_of_pandera(tmp_path):
    found = imported(tmp_path, PANDERA)
    amount, rate, grade = found.schema.features
    assert (amount.kind, amount.low, amount.high, amount.missing) == ("integer", 1000, 40000, False)
    assert (rate.kind, rate.low, rate.high, rate.missing) == ("real", 0, 30, True)
    assert grade.values == ("A", "B") and len(found.schema.relations) == 1
    assert any("str_startswith" in each for each in found.left_out)
    assert any("'name'" in each and "no feature" in each for each in found.left_out)


def test_a_package_of_frictionless(tmp_path):
    found = imported(tmp_path, FRICTIONLESS)
    amount, rate, _grade = found.schema.features
    assert not amount.missing and rate.missing and rate.low == 0
    assert sorted(str(r) for r in found.schema.relations)[-1].startswith("rate")
    assert len(found.schema.relations) == 2
    assert [each for each in found.left_out if "pattern" in each] == list(found.left_out)


def test_croissant_says_types_and_enumerations(tmp_path):
    found = imported(tmp_path, CROISSANT)
    assert [f.kind for f in found.schema.features] == ["integer", "real", "category"]
    assert found.schema.features[2].values == ("A", "B")
    with pytest.raises(DurometerError, match=r"no range of 'amount', 'rate'.*--data"):
        imported(tmp_path, CROISSANT, table=None)


def test_what_was_left_out_is_said_everywhere(tmp_path):
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(SUITE))
    with pytest.warns(UserWarning, match="left out: column 'note'"):
        Schema.read(path, table=FRAME)
    out, table = tmp_path / "loans.toml", tmp_path / "loans.csv"
    FRAME.to_csv(table, index=False)
    result = CliRunner().invoke(app, ["schema", str(path), "--out", str(out), "--data", str(table)])
    assert result.exit_code == 0 and "left out: " in result.stdout
    text = out.read_text()
    assert text.count("# Left out: ") == 3
    assert Schema.read(out) == exchange.read(path, FRAME).schema


def test_an_imported_schema_serves_an_evaluation(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"amount": rng.integers(1000, 40000, 60), "rate": rng.uniform(1, 30, 60)})
    frame["grade"] = rng.choice(["A", "B"], 60)
    schema = imported(tmp_path, PANDERA).schema.fit(frame)
    x = schema.tensor(frame)
    region = schema.space(eps=0.2).around(x)
    assert bool(region.contains(x).all())
    x[0, 0] = 99_999.0
    assert not bool(region.contains(x)[0])


@pytest.mark.parametrize(
    "tree, said",
    [
        ({"a": 1}, "is no schema"),
        ([1], "holds a list"),
        ({"expectations": [{"kwargs": {}}]}, "not laid out as one"),
        ({"columns": {"a": {"dtype": "str"}}}, "no column of"),
        ({"features": {"a": {}}, "version": 2}, "reads version 1"),
        ({"resources": [{"schema": {}}, {"schema": {}}]}, "2 resources"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(tmp_path, tree, said):
    with pytest.raises(DurometerError, match=said):
        imported(tmp_path, tree)


def test_a_file_nested_without_end_is_a_sentence(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(DurometerError, match=r"nested too deep|cannot be read"):
        exchange.read(path)


def test_every_bundled_schema_fits_the_published_json_schema(tmp_path):
    rules = json.loads(exchange.json_schema())
    jsonschema.Draft202012Validator.check_schema(rules)
    check = jsonschema.Draft202012Validator(rules)
    for schema in (du.datasets.url().test.schema, du.datasets.lcld(28).test.schema,
                   du.datasets.heart().test.schema):  # fmt: skip
        assert schema is not None
        content = json.loads(schema.json())
        check.validate(content)
        path = tmp_path / "s.json"
        path.write_text(schema.json())
        assert Schema.read(path) == schema
    for wrong in ({"features": {}}, {"features": {"a": {"kind": "text"}}},
                  {"features": {"a": {"kind": "category"}}}, {"features": {"a": {"lo": 1}}},
                  {"version": 2, "features": {"a": {}}}):  # fmt: skip
        assert not check.is_valid(wrong), wrong


def test_the_json_schema_names_every_field_of_a_feature():
    from durometer.tables.feature import Feature

    rules = json.loads(exchange.json_schema())["$defs"]["feature"]["properties"]
    assert set(rules) == set(Feature.__dataclass_fields__) - {"name"}
    shown = CliRunner().invoke(app, ["schema", "--json-schema"])
    assert json.loads(shown.stdout)["$id"] == "urn:durometer:schema:1"
