"""verify(): is a saved run what it says it is? Files, figures, and every handed-in input again.

Without the model, files and figures are checked. With it, each row is taken up again: its label and
input are the data's, the model answers the clean input as recorded, and each broken row's input is
allowed by the space, answered as recorded, and reaches the goal, by a judge of its own (`judge`).

Proven rows that kept a certificate (`Exact(certificates=True)`) have it checked (`proofs`).

What a reader would get wrong: a proven row without a certificate rests on the search alone: of
those only the clean answer is asked again. A run with such rows is "consistent", not "verified":
whoever relabels a row as proven and drops the certificates makes nothing that contradicts itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from durometer.core.capabilities import HasCandidates, HasSchema
from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.data.parquet import Parquet
from durometer.games.static import Static
from durometer.model.classifier import Classifier, wrap
from durometer.model.frames import align_classes, align_columns
from durometer.report.checks import incomplete
from durometer.report.report import Report
from durometer.verification import attestations, files, judge, proofs

BATCH = 500
SHOWN = 10  # rows that are named


@dataclass(frozen=True)
class Finding:
    """Something that is not as a saved run says.

    Args:
        kind: "hash", "figure", "record", "label", "input", "model", "answer", "space", "goal",
            "proof" or "attestation".
        text: What is wrong.
        rows: Ids of the rows concerned.
    """

    kind: str
    text: str
    rows: tuple[Any, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(map(str, self.rows[:SHOWN]))
        more = f" and {len(self.rows) - SHOWN} more" if len(self.rows) > SHOWN else ""
        return f"{self.kind}: {self.text}" + (f" (rows {named}{more})" if self.rows else "")


Status = Literal["verified", "contradicted", "consistent", "unreadable"]


@dataclass
class Verification:
    """The outcome of `verify`; true only where `status` is "verified".

    Args:
        folder: The folder that was checked.
        findings: What is not as the run says.
        checked: How many files, figures, rows ... were checked; "proofs" are those checked by
            certificate.
        notes: What could not be checked, and why.
        unchecked: Proven rows whose proofs were not checked again: how many, by reason.
        readable: False where the records could not be loaded, so that no row was checked.
        unattested: What of an attestation was not compared, and how it can be.
    """

    folder: Path
    findings: list[Finding] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unchecked: dict[str, int] = field(default_factory=dict)
    readable: bool = True
    unattested: list[str] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """What all of it comes to.

        "verified": nothing is wrong, and every proof was re-checked by its certificate.
        "consistent": nothing is wrong, but some proofs were not re-checked (`unchecked`), or not
        all of an attestation was compared (`unattested`).
        "contradicted": something is not as the run says (`findings`).
        "unreadable": the records cannot be loaded.
        """
        if not self.readable:
            return "unreadable"
        if self.findings:
            return "contradicted"
        left = self.unattested or any(self.unchecked.values())
        return "consistent" if left else "verified"

    def __bool__(self) -> bool:
        return self.status == "verified"

    def __str__(self) -> str:
        looked = ", ".join(f"{n:,} {what}" for what, n in self.checked.items())
        many = sum(self.unchecked.values())
        proofs = many + self.checked.get("proofs", 0)
        left = (
            f"{many:,} of {proofs:,} proofs not checked" if many else "attestation compared in part"
        )
        heads: dict[Status, str] = {
            "verified": "verified",
            "consistent": f"consistent, not verified; {left}",
            "contradicted": f"NOT verified: {len(self.findings)} findings",
            "unreadable": "cannot be read",
        }
        lines = [f"{self.folder}: {heads[self.status]}", f"  looked at {looked}"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  not checked: {n:,} proofs: {why}" for why, n in self.unchecked.items() if n]
        lines += [f"  not compared: {what}" for what in self.unattested]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def name_rows(self, kind: str, text: str, ids: Any, wrong: Any) -> None:
        """Adds a finding where any row is wrong.

        Args:
            kind: Kind of the finding.
            text: What is wrong with the rows.
            ids: Ids of all rows.
            wrong: Which of them are wrong, bool.
        """
        wrong = np.asarray(wrong, bool)
        if wrong.any():
            many = f"{int(wrong.sum())} of {len(wrong)}"
            self.findings.append(Finding(kind, f"{many} {text}", tuple(ids[wrong].tolist())))


def verify(
    folder: str | Path, model: Any = None, data: Dataset | Parquet | None = None,
    space: Any = None, goal: Any = None, attestation: str | Path | None = None,
    key: str | Path | None = None, sources: Mapping[str, str] | None = None,
) -> Verification:  # fmt: skip
    """Checks a saved run again, independently of the code that played it.

    Without the model, the files' hashes and the figures are checked. With it, every row is judged
    again: its label and input are those of the data, the model answers as recorded, each
    adversarial input is allowed by the space and reaches the goal, and certificates of proven rows
    hold.

    Args:
        folder: The folder of the saved report.
        model: The model it was run on. None: no row is judged again.
        data: The data it was run on. None: no row is judged again.
        space: The space; needed only where the checker has no rule of its own for it.
        goal: The goal; needed only where the checker has no rule of its own for it.
        attestation: A file of `durometer export --format intoto`. The statement must be what the
            run gives, and every file as it was attested. None: there is none.
        key: The public key (PEM; ed25519 or ECDSA on P-256) whose signature the attestation must
            have. None: signatures are not checked.
        sources: SHA-256 of files of model, data and schema, by role and name
            ({"model/loans.ubj": ...}), which are compared with the attested ones. None: there are
            none.

    Returns:
        A `Verification`: true where nothing is wrong and every proof was checked again. Its
            `status` is "verified", "consistent" (nothing is wrong, but some proofs have no
            certificate, or not all of the attestation was compared), "contradicted" or
            "unreadable".

    Raises:
        DurometerError: There is no saved report in the folder, no such attestation or key.
        Unsupported: A signature is to be checked without the package cryptography.

    >>> import durometer as du
    >>> import tempfile
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5))
    >>> found = du.verify(report.save(tempfile.mkdtemp()), net, data)
    >>> found.status, found.checked["rows"], found.findings
    ('verified', 16, [])
    """
    folder = Path(folder)
    if not (folder / "spec.json").exists():
        raise DurometerError(f"no saved report in '{folder}': it has no spec.json")
    made = Verification(folder)
    known, said = files.evidence(folder)
    count, more = files.hashes(folder, known)
    made.findings += [Finding(*s) for s in (*said, *more)]
    made.checked["files"] = count + bool(known)
    if attestation is not None:
        attested = attestations.check(
            folder, Path(attestation), None if key is None else Path(key), sources or {}
        )
        made.findings += [Finding("attestation", text) for text in attested.wrong]
        made.unattested += attested.left
        made.notes += attested.notes
        made.checked["attested files"] = attested.compared
    elif key is not None:
        raise DurometerError(f"key '{key}' without an attestation: there is no signature to check")
    try:
        report = Report.load(folder)
    except DurometerError as error:
        made.findings.append(Finding("hash", str(error)))
        made.readable = False
        return made
    made.checked["figures"], said, notes = files.figures(report, known)
    made.notes += notes
    made.findings += [Finding(*s) for s in said]
    _records(made, report)
    if why := incomplete(report.flags):
        made.notes.append(why)
    if model is None or data is None:
        made.notes.append("without the model and the data no row was judged again")
        proofs.leave(made, report, "no model and data were given")
        return made
    if isinstance(data, Parquet):
        data = data.those(report.records.columns["id"])
    game = report.spec.game_type
    if game != "Static":
        made.notes.append(f"the game is {game}: its model moves or its rows are probabilities, so "
                          "only files and figures were checked")  # fmt: skip
        proofs.leave(made, report, f"the game is {game}")
        return made
    model = model.model if isinstance(model, Static) else model
    asked = model if isinstance(model, Classifier) else wrap(model)
    _again(made, report, asked, data, space, goal)
    return made


def _records(made: Verification, report: Report) -> None:
    """Rows that contradict themselves."""
    c = report.records.columns
    verdict = np.array([str(v) for v in c["verdict"]])
    asked = ~np.isfinite(c["probability_low"]) & (verdict != "")
    made.checked["rows"] = len(verdict)
    contradicts = asked & ((verdict == "broken") != c["success"])
    made.name_rows(
        "record", "rows are broken without a success or hold with one", c["id"], contradicts
    )


def _again(
    made: Verification, report: Report, model: Classifier, data: Dataset, space: Any, goal: Any
) -> None:
    spec, c = report.spec, report.records.columns
    if spec.model_hash not in ("", "unknown", model.hash):
        text = f"the model is another one: hash {spec.model_hash} in the run, {model.hash}"
        made.findings.append(Finding("model", text))
    if isinstance(space, HasSchema) and space.schema is not None:
        data = data.in_schema(space.schema)
    data = align_classes(model, data)
    model = align_columns(model, data)  # columns by name, text as text: as it was asked in the run
    if goal is not None:
        data, _ = goal.expand(data)
    place = {str(i): k for k, i in enumerate(data.ids.tolist())}
    at = np.array([place.get(str(i), -1) for i in c["id"].tolist()])
    made.name_rows("input", "rows are not in the data", c["id"], at < 0)
    if (at < 0).any():
        proofs.leave(made, report, "rows of the run are not in the data")
        return
    digests = data.digests()[at]
    made.name_rows("input", "clean inputs are not the data's", c["id"],
               (c["input"] != 0) & (c["input"] != digests))  # fmt: skip
    y = data.y.cpu().numpy()[at]
    made.name_rows("label", "labels are not the data's", c["id"], c["y"] != y)
    clean = data.x[torch.from_numpy(at)]
    made.name_rows("answer", "clean inputs are answered otherwise than recorded", c["id"],
               _answers(model, clean) != c["clean"])  # fmt: skip
    proofs.again(made, report, model, data.schema, clean, y)
    if report.records.adversarial is None:
        made.notes.append("the run kept no handed-in inputs")
        return
    _handed_in(made, report, model, data, clean, y, space)


def _handed_in(
    made: Verification, report: Report, model: Classifier, data: Dataset, clean: torch.Tensor,
    y: Any, space: Any,
) -> None:  # fmt: skip
    """Every input that was handed in, judged again."""
    spec, c = report.spec, report.records.columns
    x, x0 = np.asarray(report.records.adversarial), clean.cpu().numpy()
    won = np.flatnonzero(c["success"])
    held = np.flatnonzero(~c["success"])
    ids = c["id"]
    same = (x[held] == x0[held]) | (np.isnan(x[held]) & np.isnan(x0[held]))
    made.name_rows("input", "rows that hold do not keep their clean input", ids[held],
               ~same.reshape(len(held), -1).all(1) if len(held) else [])  # fmt: skip
    made.checked["adversarial examples"] = len(won)
    if not len(won):
        return
    answers = _answers(model, torch.from_numpy(x[won]))
    made.name_rows("answer", "adversarial examples are answered otherwise than recorded", ids[won],
               answers != c["final"][won])  # fmt: skip
    reached = judge.wins(spec.goal or {}, y[won], answers, c["target"][won], spec.classes)
    if reached is None:
        made.notes.append(
            "the judge has no rule for this goal: whether it is reached was not asked"
        )
    else:
        made.name_rows("goal", "adversarial examples do not reach the goal", ids[won], ~reached)
    maker = space.candidates if isinstance(space, HasCandidates) else None
    legal = judge.allowed(spec.space or {}, x0[won], x[won], data.schema, maker)
    if legal is None and space is not None:
        made.notes.append("the judge has no rule for this space: it was taken at its own word")
        legal = space.around(clean[won]).contains(torch.from_numpy(x[won])).cpu().numpy()
    if legal is None:
        made.notes.append("the judge has no rule for this space: give space=")
    else:
        made.name_rows(
            "space", "adversarial examples are not allowed by the space", ids[won], ~legal
        )


def _answers(model: Classifier, x: torch.Tensor) -> np.ndarray:
    with model.ready(), torch.no_grad():
        parts = [model.logits(x[k : k + BATCH]).argmax(1).cpu() for k in range(0, len(x), BATCH)]
    return torch.cat(parts).numpy()
