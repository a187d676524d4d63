"""Hardening from the command line: a model file in, a model file of the same kind out."""

import joblib
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from typer.testing import CliRunner

from durometer.cli.app import app

TOML = """
[data]
path = "rows.npz"
[model]
pickle = "forest.joblib"
[space]
type = "Linf"
eps = 0.03
"""


def test_a_forest_is_hardened_and_saved(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.random((300, 3))
    y = (x[:, 0] + x[:, 1] > 1).astype(int)
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    joblib.dump(RandomForestClassifier(4, max_depth=3, random_state=0).fit(x, y),
                tmp_path / "forest.joblib")  # fmt: skip
    (tmp_path / "run.toml").write_text(TOML)
    out = tmp_path / "hard.joblib"
    done = CliRunner().invoke(
        app, ["harden", str(tmp_path / "run.toml"), "--rounds", "2", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "line to beat" in done.output or "weak by" in done.output
    assert "Before and after" in out.with_suffix(".html").read_text()
    assert isinstance(joblib.load(out), RandomForestClassifier)
