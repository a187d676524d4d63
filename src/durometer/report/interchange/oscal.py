"""OSCAL 1.2.1 assessment results: figures as observations, criteria as findings.

https://pages.nist.gov/OSCAL/ (assessment-results)

What a reader would get wrong: OSCAL knows satisfied and not-satisfied. A criterion that is not
decided is not satisfied, with the reason "other", and says so. No control is claimed to be
assessed: targets are the criteria themselves.
"""

from __future__ import annotations

from durometer.report.interchange.facts import Decided, Facts, Figure, text_of

VERSION = "1.2.1"
_REASONS = {"pass": "pass", "fail": "fail"}


def assessment_results(facts: Facts) -> str:
    """The assessment results of a run."""
    seen = [_observation(facts, f, k) for k, f in enumerate((*facts.figures, *facts.slices))]
    findings = [_finding(facts, d, k) for k, d in enumerate(facts.decided, 1)]
    limits = [f"not tested: {threat}" for threat in facts.untested]
    limits += [f"{flag.level} {flag.id}: {flag.text}" for flag in facts.flags]
    result = {
        "uuid": facts.id("result"),
        "title": _line(f"Robustness of {facts.model} on {facts.data}"),
        "description": _line(facts.threat.get("in words", "")),
        "start": facts.time,
        "props": _props({"decision": facts.decision, "model-hash": facts.model_hash,
                         "data-hash": facts.data_hash}),
        "reviewed-controls": {
            "control-selections": [
                {
                    "description": "An id of durometer's own, since one is required: no control of "
                    "a catalog was assessed, only the criteria below.",
                    "include-controls": [{"control-id": "durometer-robustness"}],
                }
            ]
        },
        "observations": seen,
        **({"findings": findings} if findings else {}),
        "remarks": _line("; ".join([*limits, "the day of the run is known, its hour is not"])),
    }  # fmt: skip
    return text_of(
        {
            "assessment-results": {
                "uuid": facts.id("assessment-results"),
                "metadata": {
                    "title": _line(f"Robustness of {facts.model}: what durometer measured"),
                    "last-modified": facts.time,
                    "version": facts.digest,
                    "oscal-version": VERSION,
                    "remarks": "States what was measured and how. Shows no conformity.",
                },
                "import-ap": {"href": f"#{facts.id('evidence')}"},
                "results": [result],
                "back-matter": {"resources": _resources(facts)},
            }
        }
    )


def _observation(facts: Facts, f: Figure, k: int) -> dict[str, object]:
    value = "nothing was counted" if f.value is None else f"{f.value} [{f.low}, {f.high}]"
    where = f", {f.slice}" if f.slice else ""
    said = f"{f.title}{where}: {value}, n = {f.n}"
    return {
        "uuid": facts.id(f"observation {k}"),
        "title": _line(f.title + where),
        "description": _line(f"{said}. {f.promise}"),
        "props": _props({"figure": f.name, "method": f.method}),
        "methods": ["TEST"],
        "relevant-evidence": [
            {"href": f"#{facts.id('evidence')}", "description": "The evidence of the run."}
        ],
        "collected": facts.time,
    }


def _finding(facts: Facts, d: Decided, k: int) -> dict[str, object]:
    state = "satisfied" if d.outcome == "pass" else "not-satisfied"
    said = f"{d.criterion}: {d.outcome}"
    if d.figure is not None and d.figure.value is not None:
        said += f"; {d.figure.value} [{d.figure.low}, {d.figure.high}], n = {d.figure.n}"
    status = {"state": state, "reason": _REASONS.get(d.outcome, "other"), "remarks": _line(said)}
    return {
        "uuid": facts.id(f"finding {k}"),
        "title": _line(d.criterion),
        "description": _line(said),
        "target": {"type": "objective-id", "target-id": f"criterion-{k}", "status": status},
    }


def _resources(facts: Facts) -> list[dict[str, object]]:
    """The files, by digest: evidence.json first, to which everything refers."""
    named = {"run/evidence.json": facts.sha256, **facts.sources}
    named |= {f"run/{name}": digest for name, digest in facts.files.items()}
    return [
        {
            "uuid": facts.id("evidence" if k == 0 else f"resource {name}"),
            "title": _line(name),
            "rlinks": [{"href": f"urn:sha256:{digest}",
                        "hashes": [{"algorithm": "SHA-256", "value": digest}]}],
        }
        for k, (name, digest) in enumerate(named.items())
    ]  # fmt: skip


def _props(said: dict[str, str]) -> list[dict[str, str]]:
    ns = "urn:durometer:oscal"
    return [{"name": name, "ns": ns, "value": _line(value)} for name, value in said.items()]


def _line(text: str) -> str:
    """One line that is not empty: what OSCAL takes for text."""
    return " ".join(text.split()) or "(empty)"
