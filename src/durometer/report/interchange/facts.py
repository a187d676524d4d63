"""evidence.json, typed: what the documents of other formats are made of.

Every format is a function of this file alone, so that two exports of a run are the same bytes: ids
are derived from the digest of the evidence, and the only date is the one it holds.

What a reader would get wrong: the file may come from anybody. Each value is checked for its type,
and names in it are text for people, never paths.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from durometer.core import durable_files
from durometer.core.errors import DurometerError

FORMAT = 1  # of the documents made here: what they say, and in which order
FIX = "save the report again, or take another copy of the folder"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:durometer:evidence")


@dataclass(frozen=True)
class Figure:
    """A figure with its interval; `value` is None where nothing was counted."""

    name: str
    title: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str = ""
    promise: str = ""
    slice: str = ""


@dataclass(frozen=True)
class Decided:
    """A criterion that was fixed beforehand, and what came of it."""

    criterion: str
    outcome: str  # pass, fail, undecided, or why there is none
    figure: Figure | None = None


@dataclass(frozen=True)
class Notice:
    """A flag of the run."""

    id: str
    level: str
    text: str


@dataclass(frozen=True)
class Facts:
    """What an evidence.json says, as the documents need it."""

    digest: str
    sha256: str
    scope: Mapping[str, str]
    rows: int
    threat: Mapping[str, str]
    decision: str
    decided: tuple[Decided, ...]
    alpha: float | None
    figures: tuple[Figure, ...]
    slices: tuple[Figure, ...]
    flags: tuple[Notice, ...]
    untested: tuple[str, ...]
    files: Mapping[str, str]
    sources: Mapping[str, str]
    model_hash: str
    data_hash: str
    repeat: str
    versions: Mapping[str, str]

    @property
    def model(self) -> str:
        """The model as its owner calls it."""
        return self.scope["model"] or self.scope["model evaluated"] or "model"

    @property
    def data(self) -> str:
        """The data as their owner calls them."""
        return self.scope["data"] or self.scope["data evaluated"] or "data"

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """Flags that make an evaluation doubtful."""
        return tuple(flag for flag in self.flags if flag.level == "warning")

    @property
    def time(self) -> str:
        """The day of the evidence as a point in time: its hour is not known."""
        return f"{self.scope['date']}T00:00:00Z"

    def id(self, name: str) -> str:
        """An id that the evidence and a name give: the same in every export."""
        return str(uuid.uuid5(_SPACE, f"{self.digest}/{name}"))


def read(folder: Path) -> Facts:
    """The facts of a saved run.

    Raises:
        DurometerError: There is no evidence.json, or it is damaged.
    """
    path = folder / "evidence.json"
    durable_files.refuse_links(folder, ("evidence.json",))
    with durable_files.reading(path, FIX):
        written = path.read_bytes()
        found = _table(durable_files.parsed(written.decode()), "evidence.json")
        return _facts(found, hashlib.sha256(written).hexdigest())


def text_of(document: Mapping[str, object]) -> str:
    """A document as a file: the same bytes for the same facts, and only ASCII."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _facts(found: Mapping[str, Any], sha256: str) -> Facts:
    groups = ("scope", "threat", "criterion", "limits", "integrity")
    scope, threat, criterion, limits, integrity = (_table(found.get(g), g) for g in groups)
    names = ("purpose", "model", "version", "owner", "evaluator", "data", "period", "notes",
             "model evaluated", "data evaluated", "date")  # fmt: skip
    said = {name: _text(scope.get(name, ""), f"scope.{name}") for name in names}
    if not _DATE.fullmatch(said["date"]):
        raise ValueError(f"scope.date is {said['date']!r}, which is no date")
    decision = _text(criterion.get("decision"), "criterion.decision")
    return Facts(
        digest=_sha256(found.get("digest"), "digest"),
        sha256=sha256,
        scope=said,
        rows=_count(scope.get("rows"), "scope.rows"),
        threat=_texts(threat, "threat"),
        decision=decision,
        decided=tuple(_decided(criterion, decision)),
        alpha=_number(criterion.get("wrong in at most"), "criterion.wrong in at most"),
        figures=tuple(_figure(f, "figures") for f in _list(found.get("figures"), "figures")),
        slices=tuple(_figure(s, "slices") for s in _list(found.get("slices"), "slices")),
        flags=tuple(_notice(f) for f in _list(limits.get("flags", []), "limits.flags")),
        untested=tuple(_lines(limits.get("threats not tested", []), "limits.threats not tested")),
        files=_digests(integrity.get("files"), "integrity.files"),
        sources=_digests(integrity.get("sources", {}), "integrity.sources"),
        model_hash=_text(integrity.get("model_hash", ""), "integrity.model_hash"),
        data_hash=_text(integrity.get("data_hash", ""), "integrity.data_hash"),
        repeat=_text(integrity.get("repeat", ""), "integrity.repeat"),
        versions=_texts(_table(integrity.get("versions", {}), "versions"), "integrity.versions"),
    )


def _decided(criterion: Mapping[str, Any], decision: str) -> Iterable[Decided]:
    given = _list(criterion.get("decisions", []), "criterion.decisions")
    for table in given:
        place = "criterion.decisions"
        row = _table(table, place)
        named = _text(row.get("criterion"), place)
        outcome = _text(row.get("outcome"), place)
        yield Decided(named, outcome, _figure(row | {"name": named}, place))
    if not given:  # fixed, but not decided: its baseline is gone, say
        for named in _lines(criterion.get("fixed beforehand", []), "criterion.fixed beforehand"):
            yield Decided(named, decision)


def _figure(value: object, place: str) -> Figure:
    row = _table(value, place)
    named = _text(row.get("name", "robust"), f"{place}.name")
    value, low, high = (_number(row.get(key), f"{place}.{key}") for key in ("value", "low", "high"))
    method, promise, part = (
        _text(row.get(key, ""), f"{place}.{key}") for key in ("method", "promise", "slice")
    )
    title = _text(row.get("title", named), f"{place}.title")
    return Figure(named, title, value, low, high, _count(row.get("n"), f"{place}.n"), method,
                  promise, part)  # fmt: skip


def _notice(value: object) -> Notice:
    row = _table(value, "limits.flags")
    return Notice(*(_text(row.get(key), f"limits.flags.{key}") for key in ("id", "level", "text")))


def _table(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place} is no table")
    return value


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{place} is no list")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{place} is {str(value)[:80]!r}, which is no text")
    return value


def _texts(value: Mapping[str, Any], place: str) -> dict[str, str]:
    return {name: _text(said, f"{place}.{name}") for name, said in value.items()}


def _lines(value: object, place: str) -> list[str]:
    return [_text(line, place) for line in _list(value, place)]


def _number(value: object, place: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value - value != 0:
        raise ValueError(f"{place} is {str(value)[:80]!r}, which is no number")
    return float(value)


def _count(value: object, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{place} is {str(value)[:80]!r}, which is no count")
    return value


def _sha256(value: object, place: str) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise DurometerError(f"{place} is {str(value)[:80]!r}, which is no SHA-256; {FIX}")
    return value


def _digests(value: object, place: str) -> dict[str, str]:
    table = _table(value, place)
    return {name: _sha256(table[name], f"{place}.{name}") for name in sorted(table)}
