"""A page never stops a run; a table is inert in a spreadsheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import durometer as du
from durometer.report import export
from durometer.report.page import charts
from durometer.report.page import report as pages


def report(ids: Any = None, columns: Any = None) -> du.Report:
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(4, 2).double()
    x = torch.rand(40, 4, generator=g).double()
    data = du.Dataset(x, net(x).argmax(1).detach(), ids=ids)
    return du.evaluate(net, data, space=du.L2(0.3), attack=du.FGSM())


@pytest.mark.parametrize("value", [0.3, 0.0, 1e-300, 1e300, 255.0])
def test_distances_that_agree_to_rounding_are_drawn(value: float) -> None:
    values = np.full(40, value)
    values[::2] = np.nextafter(value, np.inf)
    values[1] = value * (1 + 1e-13)
    for mark in (None, value, float(np.nextafter(value, np.inf))):
        assert charts.histogram(values, "distances", "distance", mark)


def test_float64_fgsm_is_saved_with_its_page(tmp_path: Path) -> None:
    made = report().save(tmp_path)
    assert "could not be made" not in (made / "report.html").read_text()


def test_a_section_that_fails_is_a_sentence_and_all_else_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(report: du.Report) -> None:
        raise ZeroDivisionError("by <design>")

    (tmp_path / "log.txt").write_text("")
    monkeypatch.setattr(pages, "SECTIONS", (broken, *pages.SECTIONS))
    monkeypatch.setattr(pages, "headline", broken)
    made = report()
    made.save(tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "This section could not be made (ZeroDivisionError: by &lt;design&gt;)" in text
    assert text.count("<section") >= 5
    assert "ZeroDivisionError: by <design>" in (tmp_path / "log.txt").read_text()
    assert len(du.Report.load(tmp_path).records) == 40


FORMULAS = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", " =1+1"]


def test_text_that_a_spreadsheet_would_run_is_made_inert(tmp_path: Path) -> None:
    ids = [*FORMULAS, "-5", "plain", *(f"row {i}" for i in range(32))]
    made = report(ids)
    export.write(made, "csv", tmp_path / "a.csv")
    cells = pd.read_csv(tmp_path / "a.csv", dtype=str, keep_default_na=False)["id"].tolist()
    assert cells[: len(FORMULAS)] == ["'" + text for text in FORMULAS]
    assert cells[len(FORMULAS) : len(FORMULAS) + 2] == ["-5", "plain"]  # a number is a number
    export.write(made, "csv", tmp_path / "raw.csv", raw=True)
    raw = pd.read_csv(tmp_path / "raw.csv", dtype=str, keep_default_na=False)["id"].tolist()
    assert raw == ids


def test_names_of_columns_are_made_inert_too() -> None:
    table = pd.DataFrame({"=1+1": [1.5], "b": ["=2"]})
    made = export.inert(table)
    assert list(made.columns) == ["'=1+1", "b"] and made["b"][0] == "'=2"
