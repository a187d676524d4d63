"""A schema from any table: text, dates, gaps and ids are seen for what they are."""

import numpy as np
import pandas as pd
import pytest

import durometer as du
from durometer.core.errors import DurometerError

RNG = np.random.default_rng(0)
N = 300
TABLE = pd.DataFrame(
    {
        "customer_id": np.arange(N) + 7000,
        "name": [f"n{i}" for i in range(N)],
        "purpose": RNG.choice(["car", "house"], N),
        "grade": pd.Categorical(RNG.choice(list("ABC"), N), categories=list("CBA"), ordered=True),
        "opened": pd.Timestamp("2015-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
        "owner": RNG.random(N) < 0.5,
        "amount": RNG.integers(10, 99, N),
        "income": np.where(RNG.random(N) < 0.2, np.nan, RNG.uniform(1, 9, N)),
        "empty": [None] * N,
    }
).assign(total=lambda t: t["amount"] * 2)


def test_kinds_bounds_gaps_and_what_is_no_feature():
    found = du.Schema.suggest(TABLE)
    kinds = {f.name: f.kind for f in found.features}
    assert kinds == {"purpose": "category", "grade": "category", "opened": "integer",
                     "owner": "boolean", "amount": "integer", "income": "real",
                     "total": "integer"}  # fmt: skip
    assert set(found.left_out) == {"customer_id", "name", "empty"}
    by_name = {f.name: f for f in found.features}
    assert by_name["income"].missing and not by_name["amount"].missing
    assert by_name["grade"].values == ("C", "B", "A")
    assert any("total" in str(c.relation) for c in found.candidates)


def test_a_suggestion_is_a_schema_at_once_and_reads_back():
    found = du.Schema.suggest(TABLE)
    data = du.Dataset(TABLE, RNG.integers(0, 2, N), schema=found)
    assert found.validate(TABLE).empty and len(found) == 7
    pd.testing.assert_frame_equal(
        data.frame().reset_index(drop=True), TABLE[list(found.names)], check_dtype=False
    )
    assert found.space(eps=0.2).schema == found.schema
    text = str(found)
    assert "left out: a different whole number" in text and "cells are missing" in text
    made = {}
    exec(found.code(), {"du": du}, made)
    assert made["schema"] == found.schema


def test_a_table_without_features():
    with pytest.raises(DurometerError, match="no column is a feature"):
        du.Schema.suggest(TABLE[["name", "empty"]])


def test_the_command_line_leaves_the_target_out(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from durometer.cli import app

    monkeypatch.chdir(tmp_path)
    TABLE.drop(columns="opened").assign(paid=1).to_csv("t.csv", index=False)
    done = CliRunner().invoke(app, ["schema", "t.csv", "--target", "paid", "--out", "s.toml"])
    assert done.exit_code == 0, done.output
    read = du.Schema.read("s.toml")
    assert read.names == ("purpose", "grade", "owner", "amount", "income", "total")
    assert read.features[4].missing
    bad = CliRunner().invoke(app, ["schema", "t.csv", "--target", "payed"])
    assert bad.exit_code and "did you mean" in str(bad.output) + str(bad.exception)
