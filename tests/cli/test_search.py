"""Forests and boosted trees on URL and LCLD, attacked from the command line by shipped files."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("kind", ["forest", "xgboost"])
@pytest.mark.parametrize("table", ["url", "lcld"])
def test_trees_from_the_command_line(tmp_path, kind, table) -> None:
    file = EXAMPLES / f"trees_{table}_{kind}.toml"
    done = CliRunner().invoke(app, ["run", str(file), "--rows", "10", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    report = du.Report.load(tmp_path)
    assert len(report.table) == 10 and report.table["valid"].all()
    won = (report.table["success"] & report.table["winner"].isin(["Graft", "MOEVA"])).to_numpy()
    assert won.any()
    model = runpy.run_path(str(EXAMPLES / "trees.py"))[f"{table}_{kind}"]()
    assert (model.predict(np.asarray(report.adversarial)[won]) == 0).all()
