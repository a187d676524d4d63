"""What a run's folder says of itself: digests of its files, figures of its records.

What a reader would get wrong: a document that was changed together with all its digests passes
here. That is why figures are computed again, and why the model is asked again where it is at hand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.report.evidence import digest, document
from durometer.report.report import Report
from durometer.run.store import Store
from durometer.verification.judge import wilson

Note = tuple[str, str]  # kind of finding, text


def evidence(folder: Path) -> tuple[dict[str, Any], list[Note]]:
    """The document, and what is wrong with it as a file."""
    path = folder / "evidence.json"
    if not path.exists():
        return {}, [
            ("hash", "evidence.json is missing: there is nothing to compare the files with")
        ]
    try:
        if not path.is_file():
            raise ValueError("it is no regular file")
        found = durable_files.parsed(path.read_bytes().decode())
        right = isinstance(found, dict) and found.get("digest") == digest(found)
        canonical = right and path.read_bytes() == _written(found)
    except (ValueError, OSError) as error:
        return {}, [("hash", f"evidence.json cannot be read: {error}")]
    if not (right and canonical):
        return found if isinstance(found, dict) else {}, [
            ("hash", "evidence.json is not as it was saved")
        ]
    return found, []


def _written(found: dict[str, Any]) -> bytes:
    return json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False).encode()


def hashes(folder: Path, known: dict[str, Any]) -> tuple[int, list[Note]]:
    """How many files were compared with their digests, and those that differ."""
    wrong: list[Note] = []
    listed = dict(known.get("integrity", {}).get("files", {}))
    for name, expected in listed.items():
        try:
            file = durable_files.entry(folder, name)
        except DurometerError as error:
            wrong.append(("hash", str(error)))
            continue
        if not file.is_file():
            wrong.append(("hash", f"{name} is missing"))
        elif durable_files.sha256(file) != expected:
            wrong.append(("hash", f"{name} is not as it was saved"))
    count = len(listed)
    if (folder / "index.sqlite").exists():
        store = Store(folder)
        for k, entry in store.index.done().items():
            count += 1
            if not store.chunk(k).is_file():
                wrong.append(("hash", f"chunks/{k}.npz is missing"))
            elif entry.digest is not None and durable_files.digest(store.chunk(k)) != entry.digest:
                wrong.append(("hash", f"chunks/{k}.npz is not as it was saved"))
    return count, wrong


def figures(report: Report, known: dict[str, Any]) -> tuple[int, list[Note], list[str]]:
    """How many figures were computed again, those that come out otherwise, what was left out."""
    count, wrong, notes = 0, [], []
    try:
        again = document(report, {}).content
    except (DurometerError, KeyError, ValueError, TypeError) as error:
        return 0, [("figure", f"the figures cannot be computed from these records: {error}")], []
    groups = ["figures", "slices", "criterion", "limits", "threat"]
    decision = str(again["criterion"]["decision"])
    if " no lower than " in str(again["criterion"]) and decision.startswith("none: "):
        groups.remove("criterion")  # its baseline is not here: nothing can be said of the decision
        notes.append(f"the criterion was not decided again, {decision.removeprefix('none: ')}")
    for group in groups:
        count += len(known.get(group, ()))
        for place, was, now in _differences(known.get(group), again[group], group):
            wrong.append(("figure", f"{place}: {was!r} in evidence.json, {now!r} from the records"))
    for name, hits, n in _counts(report):
        stated = next((f for f in known.get("figures", ()) if f.get("name") == name), None)
        if stated is None or not n:
            continue
        for key, value in zip(("value", "low", "high"), wilson(hits, n), strict=True):
            if not _same(stated.get(key), value):
                text = f"{name}, {key}: {stated.get(key)!r} stated, {value:.6g} counted"
                wrong.append(("figure", text))
    return count, wrong, notes


def _counts(report: Report) -> Iterator[tuple[str, int, int]]:
    """The shares of a game with an attacker, counted from the rows in plain numpy."""
    c = report.records.columns
    if report.spec.quota is not None or np.isfinite(c["probability_low"]).any():
        return
    if len(np.unique(c["run"])) > 1 or report.spec.game_type != "Static":
        return
    played = np.array([s == "" for s in c["skipped"]], bool)
    yield "clean", int((c["clean"] == c["y"]).sum()), len(c["y"])
    yield "robust", int((~c["success"][played]).sum()), int(played.sum())
    for verdict in ("proven", "open"):
        hits = np.array([v == verdict for v in c["verdict"]], bool)[played]
        yield verdict, int(hits.sum()), int(played.sum())


def _differences(a: Any, b: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b}):
            yield from _differences(a.get(key), b.get(key), f"{place}: {key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for k, (x, y) in enumerate(zip(a, b, strict=True)):
            name = x.get("name", x.get("slice", k)) if isinstance(x, dict) else k
            yield from _differences(x, y, f"{place}: {name}")
    elif not _same(a, b):
        yield place, a, b


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)
