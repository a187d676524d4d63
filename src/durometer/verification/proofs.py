"""Proven rows again: those that kept a certificate are checked, the others are counted.

The trees are read from the model as the search reads them, and compared with the model's answers
before they are trusted. Everything else of a proof is judged by code of its own: what the space
says (`assumptions`), and that the certificate leaves no valid point (`certificate`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from durometer.core.errors import DurometerError
from durometer.model.classifier import Classifier
from durometer.trees.align_ensemble import ensemble_of, own_classes
from durometer.verification import judge, network
from durometer.verification.assumptions import KNOWN, around
from durometer.verification.certificate import check, constraints
from durometer.verification.domain import Refused

if TYPE_CHECKING:
    from durometer.report.report import Report
    from durometer.verification.verify import Verification


def leave(made: Verification, report: Report, why: str) -> None:
    """Count every proven row as not checked."""
    if many := len(_proven(report)):
        made.unchecked[why] = many


def _proven(report: Report) -> NDArray[np.int64]:
    verdict = report.records.columns["verdict"]
    return np.flatnonzero(np.array([str(v) == "proven" for v in verdict], bool))


def again(
    made: Verification, report: Report, model: Classifier, schema: Any, clean: torch.Tensor, y: Any
) -> None:
    """Every certificate that the run has kept."""
    c, kept = report.records.columns, report.records.certificates
    proven = _proven(report)
    some = [i for i in proven if kept is not None and kept[i] is not None]
    if len(some) < len(proven):
        made.unchecked["they have no certificate"] = len(proven) - len(some)
    space = report.spec.space or {}
    if kept is None or not some:
        return
    of_networks = [i for i in some if kept[i][:2] == b"PK"]
    if of_networks:
        _networks(made, report, model, schema, clean, y, of_networks)
        some = [i for i in some if kept[i][:2] != b"PK"]
        if not some:
            return
    if space.get("type") not in KNOWN:
        made.unchecked[f"the checker has no rule for the space {space.get('type')}"] = len(some)
        return
    try:
        trees = ensemble_of(model)
        same = trees.decide(clean.double().numpy().reshape(len(clean), -1)) == own_labels(model, c)
    except DurometerError as error:
        made.unchecked[f"the trees cannot be read from this model ({error})"] = len(some)
        return
    made.name_rows("model", "rows are answered otherwise by the trees as read", c["id"], ~same)
    goal = _goals(report, trees.n_classes, y)
    goal = None if goal is None else own_classes(model, trees, goal)
    if goal is None:
        made.unchecked["the judge has no rule for this goal"] = len(some)
        return
    wrong, unknown = np.zeros(len(some), bool), 0
    x, single, reasons = clean.double().numpy(), clean.dtype == torch.float32, []
    for k, i in enumerate(some):
        said = around(space, schema, np.ascontiguousarray(x[i]), goal[i], single)
        try:
            check(kept[i], trees, said.row)
            if all(said.implies(claim) for claim in constraints(kept[i])):
                continue
            if not said.complete:
                unknown += 1
                continue
            raise Refused("it assumes more than the space says")
        except Refused as error:
            wrong[k] = True
            reasons.append(str(error))
    made.checked["proofs"] = made.checked.get("proofs", 0) + len(some) - unknown
    if unknown:
        made.unchecked["their certificates assume what is beyond the checker"] = unknown
    text = f"proofs do not hold ({reasons[0]})" if reasons else ""
    made.name_rows("proof", text, c["id"][some], wrong)


def own_labels(model: Classifier, c: Any) -> Any:
    """The recorded clean answers as classes of the trees."""
    return c["clean"] if model.order is None else np.asarray(model.order)[c["clean"]]


def _networks(
    made: Verification, report: Report, model: Classifier, schema: Any, clean: torch.Tensor,
    y: Any, some: list[int],
) -> None:  # fmt: skip
    """Certificates of networks and linear models: their bounds are computed anew."""
    space, kept, c = report.spec.space or {}, report.records.certificates, report.records.columns
    assert kept is not None
    if space.get("type") not in KNOWN:
        made.unchecked[f"the checker has no rule for the space {space.get('type')}"] = len(some)
        return
    with model.ready(), torch.no_grad():
        classes = model.logits(clean[:1]).shape[1]
    goal = _goals(report, classes, y)
    if goal is None:
        made.unchecked["the judge has no rule for this goal"] = len(some)
        return
    x, narrow, reasons = clean.double().numpy(), clean.dtype == torch.float32, []
    wrong = np.zeros(len(some), bool)
    try:
        layers, single = network.layers_of(model, tuple(clean.shape[1:]))
        for k, i in enumerate(some):
            said = around(space, schema, np.ascontiguousarray(x[i]), goal[i], narrow)
            try:
                network.check(
                    kept[i], model.hash, layers, network.domain(said, single), goal[i], model.order
                )
            except Refused as error:
                wrong[k] = True
                reasons.append(str(error))
    except network.Unreadable as error:
        made.unchecked[f"the checker has no rule for the model ({error})"] = len(some)
        return
    made.checked["proofs"] = made.checked.get("proofs", 0) + len(some)
    text = f"proofs do not hold ({reasons[0]})" if reasons else ""
    made.name_rows("proof", text, c["id"][some], wrong)


def _goals(report: Report, classes: int, y: Any) -> Any:
    """(n, classes) which answers reach the goal; None: no rule."""
    spec, target = report.spec, report.records.columns["target"]
    won = [judge.wins(spec.goal or {}, y, np.full(len(y), k), target, spec.classes)
           for k in range(classes)]  # fmt: skip
    if any(w is None for w in won):
        return None
    return np.stack([np.asarray(w) for w in won], axis=1)
