"""SARIF 2.1.0: what does not pass, for code-scanning pages (OASIS standard, sections 3.13 to 3.27).

Each figure is a rule, each criterion that fails an "error" and each undecided one a "warning"; one
that passes is no result at all, so that the alert closes itself. A run that broke is a result too:
with none, a page would close the alerts of the run before it.

What a reader would get wrong: a code-scanning page wants a place in the repository. It is the line
of the run file where the criterion stands, where it can be found, else its first.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import durometer
from durometer.gates.decide import Decision, Outcome

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
BROKEN = "broken-run"
PROPERTY = "property"
_RULES = {
    "robust": "Robust accuracy: the share of rows that no valid attack found breaks",
    "broken": "The share of rows that a valid attack breaks",
    "proven": "The share of rows for which it is proven that no attack succeeds",
    "open": "The share of rows that are neither proven nor broken",
    "clean": "Clean accuracy",
    PROPERTY: "A claim about every valid record, decided by proof",
    BROKEN: "The run broke: nothing is decided",
}


def sarif(outcome: Outcome, source: str) -> str:
    """The log of one run of the gate."""
    figures = sorted({d.criterion.figure for d in outcome.decisions})
    results = [_decided(d, source) for d in outcome.decisions if d.outcome != "pass"]
    claims = outcome.properties
    if claims is not None:
        figures.append(PROPERTY)
        named = zip(claims.properties, claims.outcomes, claims.answers, strict=True)
        for p, decided, a in named:
            if decided != "pass":
                level = "error" if decided == "fail" else "warning"
                said = f"{p}: {a.verdict}; largest value: {a.value}"
                line = _line(source, str(p))
                results.append(_result(PROPERTY, level, said, source, line, str(p)))
    done = {"executionSuccessful": True, "exitCode": outcome.exit_code}
    return _log(figures, results, done)


def broken(why: str, source: str) -> str:
    """The log of a run that broke: nothing is decided, and why."""
    said = {"level": "error", "message": {"text": why}}
    done = {"executionSuccessful": False, "exitCode": 3, "toolExecutionNotifications": [said]}
    line = re.search(r", line (\d+)", why)
    result = _result(BROKEN, "error", why, source, int(line[1]) if line else 1, why)
    return _log([BROKEN], [result], done)


def _log(rules: list[str], results: list[dict[str, Any]], done: dict[str, Any]) -> str:
    driver = {
        "name": "durometer",
        "semanticVersion": durometer.__version__.replace(".dev", "-dev."),
        "rules": [{"id": f"durometer/{r}", "shortDescription": {"text": _RULES[r]}} for r in rules],
    }
    run = {"tool": {"driver": driver}, "results": results, "invocations": [done]}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _decided(decision: Decision, source: str) -> dict[str, Any]:
    text, level = str(decision.criterion), "error" if decision.outcome == "fail" else "warning"
    line = _line(source, text)
    return _result(decision.criterion.figure, level, str(decision), source, line, text)


def _result(rule: str, level: str, said: str, source: str, line: int, same: str) -> dict[str, Any]:
    """An alert; `same`: what makes it the same one in the next run."""
    place = {"artifactLocation": {"uri": _uri(source)}, "region": {"startLine": line}}
    return {
        "ruleId": f"durometer/{rule}",
        "level": level,
        "message": {"text": " ".join(said.split())},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"criterion/v1": hashlib.sha256(same.encode()).hexdigest()[:16]},
    }


def _uri(source: str) -> str:
    """The run file relative to where the command is run, as code scanning wants it."""
    from urllib.parse import quote

    path = Path(source)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return quote(path.as_posix())


def _line(source: str, criterion: str) -> int:
    path = Path(source)
    if not path.is_file():
        return 1
    wanted = "".join(criterion.split()).replace('"', "")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        plain = "".join(line.split()).replace('"', "").replace("\\", "").replace("'", "")
        if wanted in plain:
            return number
    return 1
