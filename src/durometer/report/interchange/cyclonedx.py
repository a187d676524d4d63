"""CycloneDX 1.7: an ML-BOM of the model, with the figures of a run as performance metrics.

The model is a component of type machine-learning-model with a model card, the data are a component
of type data. Nothing of 1.7 is used that 1.6 does not have. https://cyclonedx.org/docs/1.7/json/

What a reader would get wrong: a metric has no field for its method. It stands in the type, "robust
accuracy ... (empirical)", so that an upper bound found by trying is not taken for a proof.
"""

from __future__ import annotations

from collections.abc import Mapping

import durometer
from durometer.report.interchange.facts import Facts, Figure, text_of


def bom(facts: Facts) -> str:
    """The bill of materials of a run's model and data."""
    tool = {"type": "application", "name": "durometer", "version": durometer.__version__}
    model = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": facts.model,
        **({"version": facts.scope["version"]} if facts.scope["version"] else {}),
        **_files(facts, "model"),
        "modelCard": _card(facts),
        "properties": _properties({"durometer:modelHash": facts.model_hash}),
    }
    data = {
        "type": "data",
        "bom-ref": "data",
        "name": facts.data,
        **_files(facts, "data"),
        "data": [{"type": "dataset", "name": facts.data}],
        "properties": _properties({"durometer:dataHash": facts.data_hash}),
    }
    return text_of(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.7",
            "serialNumber": f"urn:uuid:{facts.id('bom')}",
            "version": 1,
            "metadata": {
                "timestamp": facts.time,
                "tools": {"components": [tool]},
                "component": model,
                "properties": _properties(_run(facts)),
            },
            "components": [data],
            "dependencies": [{"ref": "model"}, {"ref": "data"}],
        }
    )


def _card(facts: Facts) -> dict[str, object]:
    limits = [f"not tested: {threat}" for threat in facts.untested]
    limits += [f"{flag.level} {flag.id}: {flag.text}" for flag in facts.flags]
    uses = {"useCases": [facts.scope["purpose"]]} if facts.scope["purpose"] else {}
    shown = [f for f in (*facts.figures, *facts.slices) if f.value is not None]
    return {
        "modelParameters": {"task": "classification", "datasets": [{"ref": "data"}]},
        "quantitativeAnalysis": {"performanceMetrics": [_metric(f) for f in shown]},
        "considerations": {**uses, "technicalLimitations": limits},
    }


def _metric(f: Figure) -> dict[str, object]:
    method = f" ({f.method})" if f.method else ""
    ends = {"lowerBound": str(f.low), "upperBound": str(f.high)}
    known = f.low is not None and f.high is not None
    return {
        "type": f"{f.title}{method}, n = {f.n}",
        "value": str(f.value),
        **({"slice": f.slice} if f.slice else {}),
        **({"confidenceInterval": ends} if known else {}),
    }


def _files(facts: Facts, role: str) -> dict[str, object]:
    """The digest of one file; several are components of their own."""
    found = {n: d for n, d in facts.sources.items() if n.startswith(f"{role}/")}
    hashes = [[{"alg": "SHA-256", "content": d}] for d in found.values()]
    if len(found) == 1:
        return {"hashes": hashes[0]}
    inside = [{"type": "file", "bom-ref": name, "name": name, "hashes": h}
              for name, h in zip(found, hashes, strict=True)]  # fmt: skip
    return {"components": inside} if inside else {}


def _run(facts: Facts) -> dict[str, str]:
    criteria = {f"durometer:criterion:{k}": f"{d.criterion}: {d.outcome}"
                for k, d in enumerate(facts.decided, 1)}  # fmt: skip
    return {
        "durometer:evidence": f"sha256:{facts.sha256}",
        "durometer:decision": facts.decision,
        **criteria,
        **{f"durometer:threat:{name}": text for name, text in facts.threat.items()},
        "durometer:repeat": facts.repeat,
    }


def _properties(said: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in said.items() if value]
