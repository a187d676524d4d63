"""Forests and boosted trees on URL and LCLD, attacked from the command line."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner
from xgboost import XGBClassifier

import assay as ay
from assay.cli import app

RUN = """
[data]
name = "{data}"
where = {{y = "{critical}"}}
rows = 12

[model]
pickle = "model.joblib"

[space]
type = "TableSpace"
eps = 0.5
p = 2

[attack]
type = "{attack}"
{options}
"""
SHORT = "generations = 40\npopulation = 60\noffspring = 30"


@pytest.mark.parametrize("kind", ["forest", "xgboost"])
@pytest.mark.parametrize("table", ["url", "lcld"])
@pytest.mark.parametrize("attack, options", [("MOEVA", SHORT), ("Graft", "evaluations = 400")])
def test_trees_from_the_command_line(tmp_path, kind, table, attack, options) -> None:
    data = ay.datasets.url().train if table == "url" else ay.datasets.lcld().test
    model = RandomForestClassifier(15, random_state=0)
    if kind == "xgboost":
        model = XGBClassifier(n_estimators=15, random_state=0, n_jobs=1)
    joblib.dump(model.fit(data.x.numpy(), data.y.numpy()), tmp_path / "model.joblib")
    critical = "phishing" if table == "url" else "charged off"
    text = RUN.format(data=table, critical=critical, attack=attack, options=options)
    (tmp_path / "run.toml").write_text(text)
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["run", str(tmp_path / "run.toml"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    report = ay.Report.load(out)
    assert len(report.table) == 12 and report.table["valid"].all()
    won = report.table["success"] & (report.table["winner"] == attack)
    assert attack != "Graft" or won.any()
    if won.any():
        x = np.asarray(report.adversarial)[won]
        assert (model.predict(x) == 0).all()
