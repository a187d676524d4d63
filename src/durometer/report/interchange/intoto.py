"""in-toto: a Statement v1 with the predicate Test Result v0.1, bound to files by their SHA-256.

Subjects are the files of model and data that the run was played on (where it came from a run file)
and the files of the run itself. https://in-toto.io/attestation/test-result/v0.1

What a reader would get wrong: PASSED says that every criterion fixed beforehand was shown to hold,
and that no flag makes the run doubtful. A run without a criterion is WARNED: nothing was tested
against a limit.
"""

from __future__ import annotations

from durometer.report.interchange.facts import FORMAT, Facts, Figure, text_of

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
NO_CRITERION = "no criterion was fixed beforehand"


def statement(facts: Facts) -> str:
    """The statement of a run, unsigned."""
    passed = [d.criterion for d in facts.decided if d.outcome == "pass"]
    failed = [d.criterion for d in facts.decided if d.outcome == "fail"]
    warned = [d.criterion for d in facts.decided if d.outcome not in ("pass", "fail")]
    warned += [] if facts.decided else [NO_CRITERION]
    warned += [f"flag: {flag.id}" for flag in facts.warnings]
    whole = facts.decision == "pass" and passed and not warned and not failed
    result = "FAILED" if facts.decision == "fail" or failed else "PASSED" if whole else "WARNED"
    return text_of(
        {
            "_type": STATEMENT,
            "subject": subjects(facts),
            "predicateType": PREDICATE,
            "predicate": {
                "result": result,
                "configuration": [_configuration(facts)],
                "passedTests": passed,
                "warnedTests": warned,
                "failedTests": failed,
            },
        }
    )


def subjects(facts: Facts) -> list[dict[str, object]]:
    """Files of model and data, then those of the run."""
    named = dict(facts.sources) | {"run/evidence.json": facts.sha256}
    named |= {f"run/{name}": sha256 for name, sha256 in facts.files.items()}
    return [{"name": name, "digest": {"sha256": digest}} for name, digest in named.items()]


def _configuration(facts: Facts) -> dict[str, object]:
    """What was asked, and what else the evidence says, as annotations of the run's spec."""
    name = next((n for n in ("config.toml", "spec.json") if n in facts.files), None)
    known = "evidence.json" if name is None else name
    digest = facts.sha256 if name is None else facts.files[name]
    return {
        "name": f"run/{known}",
        "digest": {"sha256": digest},
        "annotations": {
            "format": FORMAT,
            "evidence": facts.digest,
            "model": facts.model,
            "modelHash": facts.model_hash,
            "data": facts.data,
            "dataHash": facts.data_hash,
            "rows": facts.rows,
            "threat": dict(facts.threat),
            "decision": facts.decision,
            "wrongInAtMost": facts.alpha,
            "figures": [_figure(f) for f in facts.figures],
            "flags": [flag.id for flag in facts.flags],
            "notTested": list(facts.untested),
            "repeat": facts.repeat,
            "versions": dict(facts.versions),
        },
    }


def _figure(f: Figure) -> dict[str, object]:
    return {"name": f.name, "value": f.value, "low": f.low, "high": f.high, "n": f.n,
            "method": f.method, "promise": f.promise}  # fmt: skip
