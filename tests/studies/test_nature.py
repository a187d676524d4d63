"""The oracle study runs, and finds no interval that excludes the truth."""

import runpy
import sys
from pathlib import Path

import pytest

STUDY = Path(__file__).parents[2] / "studies" / "nature" / "oracle.py"


def test_no_interval_excludes_the_truth(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(STUDY), "--smoke"])
    runpy.run_path(str(STUDY), run_name="__main__")  # it exits with 1 where one does
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 33 and "0 excluded the truth" in said[-1]


def test_numerical_intervals_miss_at_most_one_in_a_hundred(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = STUDY.with_name("numerical.py")
    monkeypatch.syspath_prepend(str(study.parent))
    monkeypatch.setattr(sys, "argv", [str(study), "--smoke"])
    runpy.run_path(str(study), run_name="__main__")  # it exits with 1 where more do
    assert "numerical intervals" in capsys.readouterr().out
