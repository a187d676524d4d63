"""MLflow's own `evaluate` with our evaluator, found by its entry point, on a local file store."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import durometer as du
from durometer.plugins.mlflow import Evaluator

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys, warnings
from pathlib import Path
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
import mlflow
from sklearn.linear_model import LogisticRegression
from durometer.plugins.mlflow import Evaluator
from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

registered = registry.is_registered("durometer")
if not registered:  # an editable install made before the entry point was written
    registry.register("durometer", Evaluator)
rng = np.random.default_rng(0)
x = pd.DataFrame(rng.random((200, 3)), columns=["a", "b", "c"])
x["paid"] = (x["a"] > 0.5).astype(int)
net = LogisticRegression(C=100.0).fit(x[["a", "b", "c"]], x["paid"])

class Labels(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return net.predict(model_input)

class Flavour:
    '''What mlflow.sklearn.load_model(...) as pyfunc holds: the raw model behind it.'''
    def __init__(self, raw): self.raw = raw
    def predict(self, data, params=None): return self.raw.predict(data)
    def get_raw_model(self): return self.raw

mlflow.set_tracking_uri(Path("store").resolve().as_uri())
config = {"space": {"type": "Linf", "eps": "1/10"}, "seed": 3, "name": "loans",
          "gate": ["robust >= 0.5"]}
found = {"registered": registered}
with mlflow.start_run() as run:
    info = mlflow.pyfunc.log_model(name="labels", python_model=Labels(), pip_requirements=[])
    made = mlflow.models.evaluate(
        info.model_uri, x, targets="paid", model_type="classifier", evaluators="durometer",
        evaluator_config=config | {"attack": {"type": "Square", "queries": 60}, "rows": 60,
                                   "gate": []})
    found["labels"] = made.metrics
with mlflow.start_run() as run:
    from mlflow.pyfunc import PyFuncModel
    from mlflow.models import Model
    pyfunc = PyFuncModel(Model(flavors={"python_function": {"loader_module": "none"}}),
                         Flavour(net))
    made = mlflow.models.evaluate(
        pyfunc, x, targets="paid", model_type="classifier", evaluators="durometer",
        evaluator_config=config | {"attack": {"type": "Square", "queries": 60}})
    found["raw"] = made.metrics
    client = mlflow.MlflowClient()
    kept = client.get_run(run.info.run_id).data
    found["logged"] = kept.metrics
    found["tags"] = {k: v for k, v in kept.tags.items() if k.startswith("durometer")}
    found["files"] = sorted(f.path for f in client.list_artifacts(run.info.run_id, "durometer"))
    found["artifacts"] = sorted(made.artifacts)
    page = made.artifacts["durometer/report.html"].content
    found["page"] = "loans classifies" in page
Path("found.json").write_text(json.dumps(found))
"""


def test_the_evaluator_is_an_entry_point() -> None:
    import tomllib

    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points["mlflow.model_evaluator"] == {"durometer": "durometer.plugins.mlflow:Evaluator"}
    for found in entry_points(group="mlflow.model_evaluator", name="durometer"):
        assert found.load() is Evaluator


def test_it_plays_classifiers_with_a_threat_and_nothing_else() -> None:
    space = {"space": {"type": "Linf", "eps": 0.1}}
    assert Evaluator.can_evaluate(model_type="classifier", evaluator_config=space)
    assert not Evaluator.can_evaluate(model_type="classifier", evaluator_config={})
    assert not Evaluator.can_evaluate(model_type="classifier", evaluator_config=None)
    assert not Evaluator.can_evaluate(model_type="regressor", evaluator_config=space)


@pytest.mark.heavy
def test_mlflow_evaluates_with_durometer_and_keeps_the_report(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    (tmp_path / "script.py").write_text(SCRIPT)
    import os

    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
        "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true",
        "MLFLOW_ALLOW_FILE_STORE": "true", "GIT_PYTHON_REFRESH": "quiet",
    }  # fmt: skip
    made = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0 <= found["raw"]["robust_low"] <= found["raw"]["robust"] <= found["raw"]["robust_high"]
    assert found["logged"]["robust"] == pytest.approx(found["raw"]["robust"])
    assert found["tags"]["durometer.gate"] in ("pass", "fail", "undecided")
    names = {Path(f).name for f in found["files"]}
    assert {"report.html", "evidence.json", "evidence.html", "records.parquet"} <= names
    assert found["artifacts"] == ["durometer/evidence.json", "durometer/report.html"]
    assert found["page"] and 0 <= found["labels"]["robust"] <= 1


def test_a_mistyped_setting_is_named() -> None:
    class Data:
        has_targets = True

    with pytest.raises(du.DurometerError, match="spcae"):
        Evaluator().evaluate(dataset=Data(), run_id="", evaluator_config={"spcae": 1}, model=1)
