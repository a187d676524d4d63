"""The MLflow evaluator: `mlflow.models.evaluate(model, data, ..., evaluators="durometer")`.

    mlflow.models.evaluate(
        "models:/loans/3", frame, targets="paid", model_type="classifier", evaluators="durometer",
        evaluator_config={"space": {"type": "Linf", "eps": 0.1}, "gate": ["robust >= 0.8"]},
    )

The configuration holds what a run file holds: `space`, `goal`, `attack`, `noise` as tables or as
the nouns themselves, `schema`, `gate`, `seed`, `rows`, `name`. Figures with both ends of their
intervals are logged as metrics, the whole report and its evidence as artifacts, flags as tags.

What a reader would get wrong: a model that MLflow only knows as "pyfunc" gives labels and nothing
else. It is attacked as such, so only searches that need no gradients and no scores apply.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError, nearest

NOUNS = {"space": "spaces", "goal": "goals", "attack": "attacks", "noise": "noises"}
KNOWN = (*NOUNS, "schema", "gate", "alpha", "seed", "rows", "name", "batch")
PLACE = "durometer"  # folder of the artifacts


class Evaluator:
    """What MLflow asks of an evaluator; it is made without arguments and kept for no time."""

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Any, **_: Any) -> bool:
        """Classifiers, where a threat is named: with `evaluators=None` all evaluators are asked."""
        named = set(evaluator_config or {}) & {"space", "noise"}
        return model_type == "classifier" and bool(named)

    def evaluate(
        self, *, dataset: Any, run_id: str, evaluator_config: Mapping[str, Any] | None,
        model: Any = None, **_: Any,
    ) -> Any:  # fmt: skip
        """Play, log, and give MLflow its result."""
        config = dict(evaluator_config or {})
        for key in config:
            if key not in KNOWN:
                raise DurometerError(f"evaluator_config: no '{key}'{nearest(key, KNOWN)}")
        if model is None or not dataset.has_targets:
            raise DurometerError("the evaluator durometer needs a model (model=) and targets=")
        from mlflow.models.evaluation import EvaluationResult

        from durometer.report.export import flat

        report, outcome = _played(model, dataset, config)
        metrics = flat(report)
        return EvaluationResult(metrics, _logged(report, outcome, metrics, run_id), run_id)


def _played(model: Any, dataset: Any, config: dict[str, Any]) -> tuple[Any, Any]:
    from durometer._evaluate import evaluate
    from durometer._gate import gate
    from durometer.config.build import Later, build
    from durometer.data.dataset import Dataset
    from durometer.games.nature import Nature
    from durometer.run.job import Job

    schema = config.get("schema")
    if isinstance(schema, str | Path):
        from durometer.tables.schema import Schema

        schema = Schema.read(schema)
    data = Dataset(
        dataset.features_data, np.asarray(dataset.labels_data), schema=schema,
        name=str(dataset.name or ""),
    )  # fmt: skip
    if config.get("rows"):
        data = data.sample(int(config["rows"]), seed=int(config.get("seed", 0)))
    options: dict[str, Any] = {"seed": int(config.get("seed", 0))}
    if "batch" in config:
        options["batch"] = int(config["batch"])
    for name, kind in NOUNS.items():
        given = config.get(name)
        noun = build(kind, given) if isinstance(given, Mapping) else given
        if isinstance(noun, Later):
            noun = noun.made(schema=data.schema, space=options.get("space"))
        if noun is not None:
            options[name] = noun
    target = native(model, data, str(config.get("name", "")))
    noise = options.pop("noise", None)
    if noise is not None:
        target = Nature(target, noise)
    if not config.get("gate"):
        return evaluate(target, data, **options, progress=False), None
    alpha = float(config.get("alpha", 0.05))
    outcome = gate(Job(target, data, **options), config["gate"], alpha=alpha, progress=False)
    return outcome.report, outcome


def native(model: Any, data: Any, name: str = "") -> Any:
    """The model behind MLflow's wrapper, where there is one that durometer can read; else its
    labels.

    A flavour's own model (scikit-learn, XGBoost, torch ...) is asked by its own name, which keeps
    gradients, trees and scores.
    """
    from durometer.model.classifier import wrap

    try:
        found = model.get_raw_model()
    except (AttributeError, NotImplementedError):
        found = None
    if found is not None:
        return wrap(found, name=name or _called(model))
    columns = None if data.columns is None else list(data.columns.names)
    labels = np.asarray(data.classes) if data.classes else np.arange(int(data.y.max()) + 1)

    def scores(x: Any) -> Any:
        """Labels as scores: 1 for the class that was answered."""
        import pandas as pd

        rows = np.asarray(x)
        frame = pd.DataFrame(rows.reshape(len(rows), -1), columns=columns)
        said = np.asarray(model.predict(frame)).reshape(-1)
        same: Any = said.astype(str)[:, None] == labels.astype(str)[None]
        if not same.any(1).all():
            strange = said[~same.any(1)][0]
            raise DurometerError(f"the model answers {strange!r}, which is no label of the data")
        return same.astype(float)

    return wrap(scores, "probabilities", inputs="array", name=name or _called(model))


def _called(model: Any) -> str:
    about = getattr(model, "metadata", None)
    return str(getattr(about, "name", None) or getattr(about, "model_uuid", None) or "model")


def _logged(report: Any, outcome: Any, metrics: dict[str, float], run_id: str) -> dict[str, Any]:
    """Everything into the run; what the result names besides."""
    from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact, TextEvaluationArtifact
    from mlflow.tracking import MlflowClient

    from durometer.report.evidence import document

    client = MlflowClient()
    for key, value in metrics.items():
        if np.isfinite(value):
            client.log_metric(run_id, key, float(value))
    for flag in report.flags:
        client.set_tag(run_id, f"durometer.flag.{flag.id}", flag.text[:500])
    if outcome is not None:
        client.set_tag(run_id, "durometer.gate", outcome.outcome)
    with tempfile.TemporaryDirectory() as place:
        folder = report.save(Path(place) / "report")
        client.log_artifacts(run_id, str(folder), PLACE)
    root = f"{client.get_run(run_id).info.artifact_uri}/{PLACE}"
    return {
        f"{PLACE}/report.html": TextEvaluationArtifact(f"{root}/report.html", report.html()),
        f"{PLACE}/evidence.json": JsonEvaluationArtifact(
            f"{root}/evidence.json", document(report, {}).content
        ),
    }
