"""Examples: a few successful attacks, before and after, so that a report can explain itself.

A report holds what the attacker handed in, not the clean data; to show changes side by side the
clean rows of the nearest successes are kept here (all of them, unless they are large), plus which
features were changed over all of them, for tables which rules held the attacker back, and for texts
which words were replaced by which.

A rule binds a changed feature if going on in the same direction, all else equal, would break it:
one more unit for whole numbers, a hundredth of the change for others. The question is put to the
schema's own judge, so it works for every relation that can be written. What a reader would get
wrong: this is about one feature at a time. A rule that binds can often be kept by moving another
feature along, which is what the attacks' repair does.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import torch

from durometer.core import durable_files
from durometer.core.records import Records
from durometer.data.columns import DAYS
from durometer.data.dataset import Dataset
from durometer.relations.expression import changing
from durometer.report.changes import Replaced, join_changes, replaced
from durometer.spaces import token_ids
from durometer.tables.validation import bounded

if TYPE_CHECKING:
    from durometer.tables.schema import Schema

SHOWN = 12  # as cards; every one that is kept can be opened in the table of rows
_BYTES = 16_000_000  # of the clean inputs that are kept
KEPT = 200  # replacements; more than are shown, because shards are joined
_ASKED = 200  # successes over which it is counted which rules bind


@dataclass(frozen=True, eq=False)
class Examples:
    """`places` are rows of the report's table; inputs as in the data, shape (k, ...)."""

    places: np.ndarray
    clean: np.ndarray
    adversarial: np.ndarray
    names: tuple[str, ...]  # of the features, for tables
    units: tuple[str, ...]
    changed: np.ndarray  # (features,): in how many successes each feature was changed
    shift: np.ndarray  # (features,): the mean change, as a share of the range in the data
    bound: tuple[dict[int, list[str]], ...] = ()  # per example: changed feature -> rules that bind
    rules: tuple[tuple[str, int], ...] = ()  # in how many of the `asked` successes a rule binds
    asked: int = 0
    replaced: Replaced = ()  # of texts: the replacements in most successes
    labels: dict[int, dict[float, str]] = field(default_factory=dict)  # of categories: by code

    @property
    def by_place(self) -> dict[int, int]:
        """Row of the report's table -> which of these it is."""
        return {p: k for k, p in enumerate(self.places.tolist())}

    def moved(self, k: int) -> list[int]:
        """The features that the k-th one changed, the largest change first."""
        before, after = self.clean[k].reshape(-1), self.adversarial[k].reshape(-1)
        other = (before != after) & ~(np.isnan(before) & np.isnan(after))
        size = np.nan_to_num(np.abs(after.astype(float) - before), nan=np.inf)
        at = np.flatnonzero(other)
        found: list[int] = at[np.argsort(-size[at], kind="stable")].tolist()
        return found

    def name(self, i: int) -> str:
        """What a feature is called."""
        return self.names[i] if self.names else f"feature {i}"

    def cell(self, i: int, value: float) -> str:
        """A value of a feature as people write it: a label, a date, a number."""
        if value != value:
            return "missing"
        known = self.labels.get(i, {}).get(float(value))
        if known is not None:
            return known
        if self.units and self.units[i] == DAYS and abs(value) < 1e6:
            return str(np.datetime64("1970-01-01") + np.timedelta64(int(value), "D"))
        whole = float(value).is_integer() and abs(value) < 1e12
        return f"{value:,.0f}" if whole else f"{value:,.6g}"

    def unit(self, i: int) -> str:
        """The unit of a feature; "" where its values stand for themselves."""
        known = self.units[i] if self.units else ""
        return "" if known == DAYS else known

    @property
    def text(self) -> bool:
        """Are the inputs sentences?"""
        return token_ids.is_token_ids(self.clean)

    @property
    def is_image(self) -> bool:
        """Are the inputs (1 or 3, height, width), which can be shown as pictures?"""
        shape = self.clean.shape[1:]
        return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= 8

    def save(self, path: Path | BinaryIO) -> None:
        np.savez(
            path,
            places=self.places,
            clean=self.clean,
            adversarial=self.adversarial,
            names=np.array(self.names, str),
            units=np.array(self.units, str),
            changed=self.changed,
            shift=self.shift,
            bound=np.array(json.dumps(self.bound)),
            rules=np.array(json.dumps(self.rules)),
            asked=self.asked,
            words=np.array(token_ids.words_in(self.clean, self.adversarial), str),
            replaced=np.array(json.dumps(self.replaced)),
            labels=np.array(json.dumps({i: list(v.items()) for i, v in self.labels.items()})),
        )

    @classmethod
    def load(cls, path: Path) -> Examples:
        with durable_files.arrays(path) as f:
            token_ids.register_words(f["words"].tolist())
            return cls(
                f["places"],
                f["clean"],
                f["adversarial"],
                tuple(f["names"].tolist()),
                tuple(f["units"].tolist()),
                f["changed"],
                f["shift"],
                tuple(
                    {int(k): v for k, v in b.items()} for b in durable_files.parsed(str(f["bound"]))
                ),
                tuple((str(r), int(n)) for r, n in durable_files.parsed(str(f["rules"]))),
                int(f["asked"]),
                tuple(
                    (str(a), str(b), int(n)) for a, b, n in durable_files.parsed(str(f["replaced"]))
                ),
                _labels(durable_files.parsed(str(f["labels"]))) if "labels" in f.files else {},
            )


def _labels(stored: dict[str, list[tuple[float, str]]]) -> dict[int, dict[float, str]]:
    return {int(i): {float(c): str(v) for c, v in of} for i, of in stored.items()}


def _kept(clean: np.ndarray) -> int:
    """How many clean rows like this one are kept."""
    return max(SHOWN, _BYTES // max(1, clean[:1].nbytes))


def gather(data: Dataset, records: Records) -> Examples | None:
    """The nearest successes an attack had to work for; None where there are none."""
    c = records.columns
    won = np.flatnonzero(c["success"] & (c["winner"] != "clean"))
    if records.adversarial is None or not len(won) or len(records) > len(data):
        return None
    near = won[np.argsort(c["distance"][won], kind="stable")]
    at = won
    if len(records) != len(data) or bool((c["id"] != data.ids).any()):  # games may reorder the rows
        place = {name: i for i, name in enumerate(data.ids.tolist())}
        at = np.array([place[name] for name in c["id"][won].tolist()])
    clean = data.x.cpu().numpy()
    changed, shift = np.zeros(clean[0].size, int), np.zeros(clean[0].size)
    span = np.ptp(clean.reshape(len(clean), -1), axis=0)
    for some in np.array_split(np.arange(len(won)), -(-len(won) // 4096)):  # a run may be large
        flat = (len(some), -1)
        moved = records.adversarial[won[some]].reshape(flat) - clean[at[some]].reshape(flat)
        changed += (moved != 0).sum(0)
        shift += np.abs(moved).sum(0) / np.where(span > 0, span, 1.0) / len(won)
    names, units = _features(data.schema)
    where = dict(zip(won.tolist(), at.tolist(), strict=True))
    near = near[: _kept(clean)]
    asked = near[:_ASKED]
    before = clean[[where[i] for i in near.tolist()]]
    bound: list[dict[int, list[str]]] = []
    if data.schema is not None:
        bound = binding(data.schema, before[:_ASKED], records.adversarial[asked])
    counts = Counter(r for b in bound for r in {rule for rules in b.values() for rule in rules})
    return Examples(
        near,
        before,
        records.adversarial[near],
        names,
        units,
        changed,
        shift,
        (*bound, *({} for _ in near[len(bound) :])) if bound else (),
        tuple(counts.most_common(SHOWN)),
        len(bound),
        replaced(clean[at], records.adversarial[won], KEPT)
        if token_ids.is_token_ids(data.x)
        else (),
        _values(data),
    )


def merged(parts: Sequence[tuple[np.ndarray, Examples]], whole: Records) -> Examples | None:
    """The examples of a run from those of its shards, each with the ids of its records."""
    if not parts:
        return None
    c = whole.columns
    place = {name: i for i, name in enumerate(c["id"].tolist())}
    at = np.concatenate([[place[ids[p]] for p in e.places.tolist()] for ids, e in parts])
    near = np.lexsort((at, c["distance"][at]))[: _kept(parts[0][1].clean)]
    rules: Counter[str] = Counter()
    for _, e in parts:
        rules.update(dict(e.rules))
    bound = [b for _, e in parts for b in e.bound]
    weights = [max(1, int(e.changed.max())) for _, e in parts]
    first = parts[0][1]
    return Examples(
        at[near],
        np.concatenate([e.clean for _, e in parts])[near],
        np.concatenate([e.adversarial for _, e in parts])[near],
        first.names,
        first.units,
        np.sum([e.changed for _, e in parts], axis=0),
        np.average([e.shift for _, e in parts], axis=0, weights=weights),
        tuple(bound[i] for i in near.tolist()) if bound else (),
        tuple(rules.most_common(SHOWN)),
        sum(e.asked for _, e in parts),
        join_changes([e.replaced for _, e in parts], KEPT),
        first.labels,
    )


def _values(data: Dataset) -> dict[int, dict[float, str]]:
    """What the codes of each category stand for."""
    columns = () if data.columns is None else data.columns.each
    found = {i: dict(zip(c.codes, map(str, c.values), strict=True))
             for i, c in enumerate(columns) if c.kind == "label"}  # fmt: skip
    features = () if data.schema is None else data.schema.features
    return found | {i: dict(zip(f.codes, map(str, f.values), strict=True))
                    for i, f in enumerate(features) if f.kind == "category"}  # fmt: skip


def _features(schema: Schema | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if schema is None:
        return (), ()
    features = schema.features
    return tuple(f.name for f in features), tuple(f.unit for f in features)


_SHARE = 0.01  # of the change, that a real-valued feature is pushed on


def binding(
    schema: Schema, clean: np.ndarray, adversarial: np.ndarray
) -> list[dict[int, list[str]]]:
    """For each record, changed feature -> the rules that would break if it went on.

    Features that no relation names together are pushed at once: one by one it would take features
    times relations for every record.
    """
    x0 = torch.as_tensor(clean, dtype=torch.float64).reshape(len(clean), -1)
    x = torch.as_tensor(adversarial, dtype=torch.float64).reshape(x0.shape)
    change = x - x0
    found: list[dict[int, list[str]]] = [{} for _ in range(len(x0))]
    if not bool(change.any()):
        return found
    pushed = x + torch.where(schema.whole, change.sign(), _SHARE * change)
    program, rules = schema.program, [str(r) for r in schema.relations]
    held = program.holds(x, x0)
    broken: dict[tuple[int, int], list[int]] = {}
    for feature_of, features in _apart(schema):
        moved = x.clone()
        moved[:, features] = pushed[:, features]
        for i, r in (held & ~program.holds(moved, x0)).nonzero().tolist():
            broken.setdefault((i, feature_of[r]), []).append(r)
    inside = bounded(schema, pushed, x0)
    for i, j in change.nonzero().tolist():
        names = [rules[r] for r in broken.get((i, j), [])]
        f = schema.features[j]
        if not bool(inside[i, j]):
            up = bool(change[i, j] > 0)
            end = f.high if up else f.low
            said = f"{end:g}" if isinstance(end, int | float) else str(end)
            names.append(f"{f.name} {'<=' if up else '>='} {said}")
        if names:
            found[i][j] = names
    return found


def _apart(schema: Schema) -> list[tuple[dict[int, int], list[int]]]:
    """Sets of features no two of which share a relation, each with relation -> its feature there.

    A greedy colouring, in the order of the features.
    """
    place = schema.layout.place
    named = [{place[name] for name in changing(r)} for r in schema.relations]
    naming: dict[int, list[int]] = {}
    for r, features in enumerate(named):
        for j in features:
            naming.setdefault(j, []).append(r)
    sets: list[tuple[dict[int, int], list[int]]] = []
    used: list[set[int]] = [set() for _ in named]  # the sets that a relation has a feature in
    for j, relations in sorted(naming.items()):
        taken = set().union(*(used[r] for r in relations))
        k = next(k for k in range(len(sets) + 1) if k not in taken)
        if k == len(sets):
            sets.append(({}, []))
        sets[k][1].append(j)
        for r in relations:
            used[r].add(k)
            sets[k][0][r] = j
    return sets
