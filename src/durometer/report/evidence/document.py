"""Evidence: one run as a document in seven groups: scope, threat, criterion, figures, slices,
limits, integrity.

All of it is derived from the spec and the records, but for the scope, which only people know (the
[evidence] table of a run file); a field nobody filled is shown as empty, never left out.

What a reader would get wrong: the digests show that files are as they were saved, not that they
are true. That is what `durometer verify` is for, which asks the model again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durometer.core.errors import DurometerError
from durometer.report.evidence.method import method
from durometer.report.evidence.reproduce import reproduce_command
from durometer.report.evidence.threat import threat, untested
from durometer.report.slices import worst_slices
from durometer.report.stats import Estimate
from durometer.report.verdicts import verdicts

if TYPE_CHECKING:
    from durometer.gates.decide import Decision
    from durometer.report.report import Report

SCOPE = ("purpose", "model", "version", "owner", "evaluator", "data", "period", "notes")
GROUPS = ("scope", "threat", "criterion", "figures", "slices", "limits", "integrity")
FORMAT = 1
Content = dict[str, Any]


@dataclass(frozen=True)
class Evidence:
    """The document; `content` holds a group by its name, as plain values."""

    content: Content

    def with_file(self, name: str, sha256: str) -> Evidence:
        """The same, with the digest of one more file."""
        integrity = self.content["integrity"]
        files = {**integrity["files"], name: sha256}
        return Evidence({**self.content, "integrity": {**integrity, "files": files}})

    @property
    def json(self) -> str:
        """As a file; its last line is the digest of all the others."""
        body = {**self.content, "digest": digest(self.content)}
        return json.dumps(body, indent=1, allow_nan=False, ensure_ascii=False)


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of the content in one canonical form, without the digest itself."""
    rest = {k: v for k, v in content.items() if k != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def document(report: Report, files: Mapping[str, str], folder: Path = Path()) -> Evidence:
    """The document of a report in a folder; `files` are the SHA-256 of all it rests on, by name."""
    made = {
        "format": FORMAT,
        "scope": _scope(report),
        "threat": threat(report),
        "criterion": _criterion(report),
        "figures": figures(report),
        "slices": _slices(report),
        "limits": _limits(report),
        "integrity": _integrity(report, files, folder),
    }
    return Evidence(_plain(made))


def _scope(report: Report) -> Content:
    spec, given = report.spec, report.spec.evidence
    return {
        **{field: given.get(field, "") for field in SCOPE},
        "model evaluated": spec.model,
        "data evaluated": spec.data,
        "rows": len(report.records),
        "rows asked for": spec.rows or len(report.records),
        "classes": spec.classes or [],
        "date": datetime.now(UTC).date().isoformat(),
    }


def _criterion(report: Report) -> Content:
    from durometer.gates.decide import decide

    fixed = report.spec.gate
    if fixed is None:
        return {"fixed beforehand": [], "decision": "none: no criterion was fixed beforehand"}
    try:
        outcome = decide(report, fixed.criteria, fixed.alpha)
    except DurometerError as error:  # a baseline that is gone, say: a document never stops a run
        return {"fixed beforehand": list(fixed.criteria), "decision": f"none: {error}"}
    return {
        "fixed beforehand": list(fixed.criteria),
        "wrong in at most": fixed.alpha,
        "decision": outcome.outcome,
        "decisions": [_decision(d) for d in outcome.decisions],
    }


def _decision(d: Decision) -> Content:
    said = {"criterion": str(d.criterion), "outcome": d.outcome, "decided after row": d.rows,
            "open": d.open, **estimate(d.estimate)}  # fmt: skip
    if d.outcome == "undecided":
        del said["decided after row"]
    return said | ({"not in both runs": d.unpaired} if d.unpaired else {})


def figures(report: Report) -> list[Content]:
    """Every figure of the summary, with its method."""
    found = []
    for name, (title, e) in report.shown.items():
        by, promise = method(report, name)
        found.append({"name": name, "title": title, **estimate(e), "method": by,
                      "promise": promise})  # fmt: skip
    return found


def estimate(e: Estimate) -> Content:
    """A figure as plain values."""
    return {"value": e.value, "low": e.low, "high": e.high, "n": e.n}


def _slices(report: Report) -> list[Content]:
    return [
        {"slice": s.title, **estimate(s.robust), "slices looked at": s.of}
        for s in worst_slices(report)
    ]


def _limits(report: Report) -> Content:
    said = report.counts("verdict")
    counts = {f"{name} rows": said.get(name, 0) for name in ("open", "proven", "broken")}
    if report.spec.game_type == "Nature":  # a row is a probability there
        counts = dict(verdicts(report).values())
    return {
        "rows": len(report.records if report.totals is None else report.totals),
        **counts,
        "rows left out": sum(report.counts("skipped", lambda t: t["skipped"] != "").values()),
        "flags": [{"id": f.id, "level": f.level, "text": f.text} for f in report.flags],
        "threats not tested": untested(report),
        "intervals": "95 %, over rows: they speak for rows drawn as these were, and for no others",
    }


def _integrity(report: Report, files: Mapping[str, str], folder: Path) -> Content:
    spec = report.spec
    return {
        "files": dict(sorted(files.items())),
        "model_hash": spec.model_hash,
        "data_hash": spec.data_hash,
        "seed": spec.seed,
        "versions": spec.versions,
        "repeat": reproduce_command(report, files, folder),
        "verify": "durometer verify FOLDER --model FILE",
    }


def _plain(value: Any) -> Any:
    """Without numpy, without NaN: JSON knows neither."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
