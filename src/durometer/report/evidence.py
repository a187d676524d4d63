"""Evidence: one run as a document in seven groups: scope, threat, criterion, figures, slices,
limits, integrity.

All of it is derived from the spec and the records, but for the scope, which only people know (the
[evidence] table of a run file); a field nobody filled is shown as empty, never left out.

What a reader would get wrong: the digests show that files are as they were saved, not that they
are true. That is what `durometer verify` is for, which asks the model again.

By which class of method a figure was found, in the words of ISO/IEC TR 24029-1, and what it
promises: *formal* (holds for every change allowed), *statistical* (holds in the mean over rows like
these, with an interval), *empirical* (what was found by trying).

What a reader would get wrong: the interval of every figure is statistical, whatever its method. A
formal figure is certain for the rows it was proven on, and an estimate for others.

How a run is repeated: the command, for whoever stands in the folder of the run; or the call.

    cd ../.. && durometer gate runs/loans/config.toml --out runs/loans-again

What a reader would get wrong: config.toml holds the run as it was played, options of the command
line included, and where its files are; the model and the data are not in the folder, but looked for
where they were. Their hashes say whether they are still the same.

The threat in the terms of NIST AI 100-2 E2025 (section 2.1): goal, capability, knowledge, stage.

Derived from the axes of the run and from what the records say was used, never typed in: a run that
counted backward passes had a white-box attacker, whatever anybody calls it.

What a reader would get wrong: measurement noise has no attacker and no place in that taxonomy, and
an adaptive defender is attacked at the deployment stage although it learns there.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from durometer.core.durable_files import path_from
from durometer.core.errors import DurometerError, nearest
from durometer.report.job_file import call_in_python, script_command
from durometer.report.page.report import Light
from durometer.report.page.section import written
from durometer.report.slices import worst_slices
from durometer.report.stats import Estimate
from durometer.report.verdicts import verdicts

if TYPE_CHECKING:
    from durometer.gates.decide import Decision
    from durometer.report.report import Report


SCOPE = ("purpose", "model", "version", "owner", "evaluator", "data", "period", "notes")
TAGS = "tags"  # by commas; a viewer sorts runs by them
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


def told(report: Report, given: Mapping[str, str]) -> Report:
    """The report with what people say of its scope; fields that are not given stay as they are."""
    known = (*SCOPE, TAGS)
    if not isinstance(given, Mapping):
        raise DurometerError(f"evidence={given!r}: expected a dictionary with {', '.join(known)}")
    for field, value in given.items():
        if field not in known:
            raise DurometerError(f"evidence has no field {field!r}{nearest(str(field), known)}")
        if not isinstance(value, str):
            raise DurometerError(f"evidence[{field!r}]={value!r}: expected text")
    return replace(report, spec=replace(report.spec, evidence={**report.spec.evidence, **given}))


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


def light(report: Report) -> Light | None:
    """What came of the limits that were fixed beforehand, for the page; None without any."""
    from durometer.gates.decide import decide  # late: it reads reports itself

    fixed = report.spec.gate
    if fixed is None:
        return None
    try:
        found = decide(report, fixed.criteria, fixed.alpha)
    except DurometerError as error:  # a baseline that is gone
        return Light(f"Not decided: {error}")
    lines = []
    for d in found.decisions:
        more = [f"{d.open:,} rows are open"] if d.open else []
        more += [d.wanting] if d.outcome == "undecided" else []
        more += [d.unpaired] if d.unpaired else []
        figure = written(d.estimate)
        lines.append((str(d.criterion), d.outcome, *figure, f"{d.estimate.n:,}", "; ".join(more)))
    text = f"Such decisions are wrong in at most {fixed.alpha:.12g} of cases."
    return Light(text, found.outcome, tuple(lines))


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
        "sources": dict(sorted(spec.sources.items())),
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


FORMAL, STATISTICAL, EMPIRICAL = "formal", "statistical", "empirical"
_PROVEN = ("certified", "exact", "leaves", "enumerated")  # kinds of bounds that are certain
_PROMISE = {
    "clean": (STATISTICAL, "the share of right answers without any change, on rows like these"),
    "clean_played": (STATISTICAL, "the same, of the rows that were played"),
    "proven": (FORMAL, "no change that is allowed reaches the goal on these rows"),
    "robust": (
        EMPIRICAL,
        "an upper bound: nothing that was tried reached the goal on these rows",
    ),
    "broken": (EMPIRICAL, "a change that is allowed and reaches the goal is kept for each row"),
    "open": (EMPIRICAL, "neither proven nor broken: nothing is promised of these rows"),
    "success": (EMPIRICAL, "a lower bound of what an attacker can reach, of the rows attacked"),
    "valid": (EMPIRICAL, "the share of handed-in inputs that the threat allows"),
}


def method(report: Report, name: str) -> tuple[str, str]:
    """The class and the promise of a figure of this report."""
    table = report.table
    if table["probability_low"].notna().any() and name not in ("clean", "clean_played"):
        kinds = {str(k).split("+")[0] for k in table["winner"] if k}
        if kinds and kinds <= set(_PROVEN):
            return FORMAL, "each row's probability lies between bounds that are proven"
        return STATISTICAL, "each row's probability lies in an interval, from draws or in part so"
    if name in _PROMISE:
        return _PROMISE[name]
    return EMPIRICAL, "what was counted or measured in this run"


def reproduce_command(report: Report, files: Mapping[str, str], folder: Path) -> str:
    """The command of a run that came from a file, the call of one that was made in Python."""
    spec = report.spec
    if "config.toml" in files and spec.command:
        here = path_from(folder, Path())
        words = [*spec.command.split(), f"{here}/config.toml", "--out", f"{here}-again"]
        if spec.shard:
            words += ["--shard", "/".join(map(str, spec.shard))]
        return f"cd {shlex.quote(path_from(Path(), folder))} && {shlex.join(words)}"
    script = spec.command if "&& python " in spec.command else ""
    if not spec.command:
        script = script_command(folder)
    return script or f"made in Python: {call_in_python(spec)}"


TAXONOMY = "NIST AI 100-2 E2025"
_KNOWN = {"seed": "and the randomness of the defender", "start": "before it adapts"}


def threat(report: Report) -> dict[str, str]:
    """The four dimensions, and the threat as a sentence."""
    spec = report.spec
    said = {"taxonomy": TAXONOMY, "in words": spec.threat}
    if spec.game_type == "Nature":
        said["in words"] = f"Measurements are off by {spec.under or 'noise'}."
        said["noise"] = spec.text("noise")[:1000]
        none = "none: nobody attacks; measurement noise is outside the taxonomy"
        return said | {"goal": none, "capability": none, "knowledge": none, "stage": "deployment"}
    if spec.is_unattacked:
        none = "none: nobody attacked in this run"
        return said | {"goal": none, "capability": none, "knowledge": none, "stage": "deployment"}
    return said | {
        "goal": _goal(report),
        "capability": _capability(report),
        "knowledge": _knowledge(report),
        "stage": _stage(report),
    }


def _goal(report: Report) -> str:
    spec = report.spec
    if "Poison" in spec.attacks:
        return "integrity violation: poisoning of what a defender adapts on, harming others' rows"
    if spec.quota is not None:
        return "integrity violation: targeted evasion, several distinct impersonations at once"
    aim = "untargeted" if spec.is_untargeted else f"targeted, {spec.text('goal')[:200]}"
    return f"integrity violation: evasion, {aim}"


def _capability(report: Report) -> str:
    control = "testing data control"
    if report.spec.game_type == "Transductive":
        share = report.table["controlled"].mean() if len(report.table) else 1.0
        control += f" over {share:.0%} of each batch that the defender adapts on"
    limit = f"within {report.spec.text('space')[:300]}" if report.spec.space else ""
    queries = "query access" if report.table["forwards"].sum() > 0 else ""
    return "; ".join(part for part in (control, limit, queries) if part)


def _knowledge(report: Report) -> str:
    if report.spec.game_type == "Transductive":
        known = report.spec.information
        return f"white-box: model and defence known {_KNOWN.get(known, known)}"
    if report.table["backwards"].sum() > 0:
        return "white-box: gradients of the model"
    if report.two_sided:
        return "white-box: the model as a whole, as proofs need it"
    return "black-box: answers to queries only"


def _stage(report: Report) -> str:
    if report.spec.game_type == "Transductive":
        return "deployment; the model learns there from the inputs it is sent"
    return "deployment"


def untested(report: Report) -> list[str]:
    """Threats about which the run says nothing."""
    spec = report.spec
    found = ["control of the training data (poisoning, backdoors)",
             "privacy attacks (membership, reconstruction, extraction of the model)"]  # fmt: skip
    if spec.game_type == "Nature":
        return ["an adversary who chooses the change", "noise other than that named above", *found]
    found.insert(0, f"changes outside {spec.text('space')[:120] or 'the space named above'}")
    if not spec.is_untargeted:
        found.insert(1, "other goals than the one named above")
    if report.table["backwards"].sum() == 0 and not report.two_sided:
        found.insert(0, "an attacker who knows the model (white-box)")
    if spec.game_type == "Static":
        found.append("random failures and drift of the data (see Nature)")
    return found
