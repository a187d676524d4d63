"""`durometer init`: what it writes can be played as it is, and says what only its reader knows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from durometer.cli import app
from durometer.report.report import Report
from durometer.tables.schema import Schema


def call(*words: object) -> Any:
    return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with an id, a text column and an order, and a pipeline fitted on its features."""
    rng = np.random.default_rng(0)
    n = 120
    opened = rng.integers(1, 30, n)
    frame = pd.DataFrame(
        {
            "loan_id": np.arange(n) + 1000,
            "age": rng.integers(18, 90, n),
            "amount": rng.uniform(100, 900, n).round(2),
            "acc_open": opened,
            "acc_total": opened + rng.integers(0, 20, n),
            "purpose": rng.choice(["car", "house"], n),
        }
    )
    y = np.where(frame["amount"] > 500, "paid", "lost")
    names = ["age", "amount", "acc_open", "acc_total", "purpose"]
    encoded = make_column_transformer((OneHotEncoder(), ["purpose"]), remainder="passthrough")
    joblib.dump(
        make_pipeline(encoded, DecisionTreeClassifier(max_depth=3, random_state=0)).fit(
            frame[names], y
        ),
        tmp_path / "tree.joblib",
    )
    frame.assign(status=y).to_csv(tmp_path / "loans.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_it_writes_is_played_as_it_is(place: Path) -> None:
    done = call("init", "loans.csv", "tree.joblib", "--target", "status")
    assert done.exit_code == 0, done.output
    assert "the model is right on 1.000 of 120 rows" in done.output
    assert "probably: age" in done.output and "durometer run loans_run.toml" in done.output
    schema = Schema.read(place / "loans_schema.toml")
    assert schema.names == ("age", "amount", "acc_open", "acc_total", "purpose")
    assert "acc_open <= acc_total" in map(str, schema.relations)
    asked = tomllib.loads((place / "loans_run.toml").read_text())
    assert asked["data"]["extra"] == ["loan_id"] and asked["data"]["label"] == "status"
    played = call("run", "loans_run.toml", "-q")
    assert played.exit_code == 0, played.output
    report = Report.load(place / "runs/loans_run")
    assert report.spec.text("space").startswith("TableSpace")
    assert 0 < float(report.metric("robust")) < 1
    assert (place / "runs/loans_run/report.html").exists()


def test_the_gate_that_it_shows_is_a_gate(place: Path) -> None:
    assert call("init", "loans.csv", "tree.joblib", "--target", "status").exit_code == 0
    text = (place / "loans_run.toml").read_text()
    shown = text.replace("# [gate]", "[gate]").replace("# criteria", "criteria")
    (place / "loans_run.toml").write_text(shown.replace(">= 0.8", ">= 0.01"))
    assert call("gate", "loans_run.toml", "-q").exit_code == 0


def test_files_are_named_as_seen_from_the_run_file(place: Path) -> None:
    (place / "net.py").write_text(
        "import joblib, pathlib\n"
        "def net():\n    return joblib.load(pathlib.Path(__file__).parent / 'tree.joblib')\n"
    )
    words = ("init", "loans.csv", "net.py:net", "--target", "status", "--out", "robust/first")
    done = call(*words)
    assert done.exit_code == 0, done.output
    asked = tomllib.loads((place / "robust/first/loans_run.toml").read_text())
    assert asked["data"]["path"] == "../../loans.csv"
    assert asked["model"]["python"] == "../../net.py:net"
    again = call(*words)
    assert again.exit_code == 2 and "is there already" in again.output
    assert call(*words, "--force").exit_code == 0


def test_nothing_is_loaded_where_nobody_is_to_be_asked(place: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (place / "told",)

    joblib.dump(Trap(), place / "trap.joblib")
    done = call("init", "loans.csv", "trap.joblib", "--target", "status", "--no-ask")
    assert done.exit_code == 0 and not (place / "told").exists()


def test_a_model_that_does_not_take_the_columns_is_said(place: Path) -> None:
    frame = pd.read_csv(place / "loans.csv")
    two = frame[["age", "amount"]]
    joblib.dump(LogisticRegression().fit(two.to_numpy(), frame["status"]), "few.joblib")
    done = call("init", "loans.csv", "few.joblib", "--target", "status")
    assert done.exit_code == 2 and "--drop" in done.output
    gone = [w for name in ("acc_open", "acc_total", "purpose") for w in ("--drop", name)]
    done = call("init", "loans.csv", "few.joblib", "--target", "status", *gone, "--force")
    assert done.exit_code == 0, done.output
    joblib.dump(LogisticRegression().fit(two, frame["status"]), "few.joblib")  # it knows its names
    done = call("init", "loans.csv", "few.joblib", "--target", "status", "--force")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("loans.csv", "tree.joblib"), "which column holds the class?"),
        (("loans.csv", "tree.joblib", "--target", "statsu"), "did you mean 'status'"),
        (("loans.csv", "tree.joblib", "--target", "status", "--drop", "agee"), "'age'"),
        (("loans.csv", "none.joblib", "--target", "status"), "no such file"),
        (("loans.csv", "loans.csv", "--target", "status"), "expected a file of"),
        (("none.csv", "tree.joblib"), "no file none.csv"),
        (("tree.joblib", "tree.joblib"), "expected a table"),
        (("loans.csv", "tree.joblib", "--target", "status", "--eps", "-1"), "eps"),
    ],
)
def test_what_is_wrong_is_said(place: Path, words: tuple[str, ...], said: str) -> None:
    done = call("init", *words)
    assert done.exit_code == 2 and said in done.output, done.output


def test_the_class_is_among_the_columns_it_offers(place: Path) -> None:
    done = call("init", "loans.csv", "tree.joblib")
    assert "status" in done.output and "purpose" in done.output
