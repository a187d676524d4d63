"""`durometer doctor`: what is installed, what works, and an exit code that says so."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import durometer
from durometer.cli import app, doctor
from durometer.core.errors import DurometerError

ROOT = Path(__file__).parents[2]


def call(*words: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *words])


def found(*words: str) -> dict[str, dict[str, str]]:
    return {one["name"]: one for one in json.loads(call("--json", *words).output)}


def test_all_works_here() -> None:
    done = call()
    assert done.exit_code == 0, done.output
    assert f"{durometer.__version__} (" in done.output
    assert done.output.rstrip().endswith("all that durometer needs works")


def test_extras_and_requirements_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def named(lines: list[str]) -> set[str]:
        return {line.partition(">=")[0].partition("==")[0] for line in lines}

    assert named(project["dependencies"]) == {*doctor.REQUIRED}
    assert {*doctor.EXTRAS} == {*project["optional-dependencies"]}
    for extra, packages in project["optional-dependencies"].items():
        assert {*doctor.EXTRAS[extra][0]} <= named(packages)


def test_an_extra_that_is_missing_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    own = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "onnx" else own(name))
    done = call("--fast")
    assert done.exit_code == 0
    assert "off   [onnx]" in done.output and "pip install 'durometer[onnx]'" in done.output


def test_a_requirement_that_is_missing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    own = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "scipy" else own(name))
    done = call("--fast")
    assert done.exit_code == 1 and "does not work here: scipy" in done.output


def test_both_packages_of_xgboost_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    own = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: "3.0" if name.startswith("xgboost") else own(name)
    )
    assert found("--fast")["xgboost twice"]["state"] == "wrong"


def test_kernels_that_do_not_load_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> None:
        raise DurometerError("the compiled kernels are missing (x): run `make setup`")

    monkeypatch.setattr("durometer.kernels.native.load", gone)
    kernels = found("--fast")["kernels"]
    assert kernels["state"] == "wrong" and "make setup" in kernels["text"]


def test_a_figure_that_is_not_the_closed_form_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Report:
        def metric(self, name: str) -> float:
            return 0.7

    monkeypatch.setattr(doctor, "_evaluated", lambda model, x: Report())
    made = found()
    assert made["a tree, exactly"]["state"] == "wrong"
    assert "expected 0.6 and 0.6" in made["a network, with bounds"]["text"]
    assert made["a run, saved and verified"]["state"] == "wrong"  # it has no `save`
    assert call().exit_code == 1


def test_it_runs_as_a_program() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "durometer", "doctor", "--fast"], capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
