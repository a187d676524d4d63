"""Cells of the CAA study: one attack on one model, kept in a file as soon as it is done.

A cell's file holds, row by row, whether the model was right and whether it stayed right; all tables
and figures are views of these files. A study that was killed finds them and goes on. A cell is
known by everything it depends on, so a changed setting is another cell.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import durometer as du
from durometer.report.stats import Estimate, bootstrap, paired_difference, wilson


@dataclass(frozen=True)
class Cell:
    """What was asked."""

    data: str  # "url", "lcld", "ctu13"
    relations: str  # "published" or "meant"
    model: str
    seed_of_model: int
    madry: bool
    attack: Any  # a frozen dataclass: its repr is its configuration
    eps: float
    rows: int
    seed: int

    @property
    def file(self) -> str:
        """A name that changes with everything the result depends on."""
        words = repr(self).encode()
        head = f"{self.data}-{self.model.strip('.')}-{type(self.attack).__name__}"
        return f"{head}-{hashlib.blake2b(words, digest_size=6).hexdigest()}.json"


@dataclass(frozen=True)
class Outcome:
    """What came out, row by row."""

    ids: list[int]
    clean: np.ndarray  # bool: right before the attack
    robust: np.ndarray  # bool: right after it
    proven: np.ndarray  # bool: no valid record makes it wrong
    broken: int  # successes that break the relations as meant
    cpu: float
    queries: float  # forward passes per row attacked
    when: str


Rows = Callable[[Cell], tuple[du.Dataset, Any]]  # the data and the schema as meant


@dataclass
class Store:
    """Cells by file; `rows` and `model` are called only where a file is missing."""

    folder: Path
    rows: Rows
    model: Callable[[Cell], Any]
    missing: bool = False  # do not compute: leave out what is not there

    def get(self, cell: Cell) -> Outcome | None:
        """The outcome, from its file or computed now."""
        file = self.folder / cell.file
        if not file.exists():
            if self.missing:
                return None
            self.folder.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            part.write_text(json.dumps(self._compute(cell)))
            part.replace(file)
        found = json.loads(file.read_text())
        found.setdefault("proven", [0] * len(found["ids"]))  # cells from before there were proofs
        bits = {k: np.array(found[k], bool) for k in ("clean", "robust", "proven")}
        rest = {k: found[k] for k in ("ids", "broken", "cpu", "queries", "when")}
        return Outcome(**bits, **rest)

    def _compute(self, cell: Cell) -> dict[str, Any]:
        data, meant = self.rows(cell)
        model, began = self.model(cell), time.process_time()
        report = du.evaluate(
            model, data, space=data.schema.space(eps=cell.eps, p=2), attack=cell.attack,
            seed=cell.seed, batch=1024, progress=False,
        )  # fmt: skip
        table, cpu = report.table, time.process_time() - began
        attacked = table[(table["clean"] == table["y"]) & (table["skipped"] == "")]
        won = attacked.index[attacked["success"]].to_numpy().copy()
        handed = data.x.new_tensor(np.array(report.adversarial)[won])
        valid = meant.space(eps=cell.eps).around(data.x[won]).contains(handed)
        robust = int((~table["success"]).sum())
        print(
            f"{cell.data:5} {cell.relations:9} {cell.model:8} {'Madry' if cell.madry else '':5} "
            f"m{cell.seed_of_model} s{cell.seed} eps {cell.eps:g}  robust {robust}/{len(table)}  "
            f"{cpu:.0f} CPU-s  {cell.attack!r:.60}", flush=True,
        )  # fmt: skip
        return {
            "cell": repr(cell),
            "ids": [int(i) for i in table["id"]],
            "clean": (table["clean"] == table["y"]).astype(int).tolist(),
            "robust": (~table["success"]).astype(int).tolist(),
            "proven": (table["verdict"] == "proven").astype(int).tolist(),
            "broken": int((~valid).sum()),
            "cpu": round(cpu, 2),
            "queries": round(float(attacked["forwards"].mean()), 1) if len(attacked) else 0.0,
            "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        }


def rate(outcomes: list[Outcome | None], which: str = "robust") -> Estimate | None:
    """The mean over seeds with an interval; rows that recur under other seeds are one cluster."""
    found = [o for o in outcomes if o is not None]
    if not found:
        return None
    if len(found) == 1:
        bits = getattr(found[0], which)
        return wilson(int(bits.sum()), len(bits))
    values = np.concatenate([getattr(o, which) for o in found]).astype(float)
    ids = np.concatenate([np.array(o.ids) for o in found])
    return bootstrap(values, ids)


def won(outcomes: list[Outcome | None]) -> set[tuple[int, int]]:
    """(model, row) pairs that an attack broke."""
    return {
        (m, i)
        for m, o in enumerate(outcomes)
        if o is not None
        for i, was, stayed in zip(o.ids, o.clean, o.robust, strict=True)
        if was and not stayed
    }


def shared(found: dict[str, list[Outcome | None]]) -> dict[str, float]:
    """How many rows exactly these attacks broke: the parts of a Venn diagram."""
    sets = {name: won(outcomes) for name, outcomes in found.items()}
    parts = {}
    for count in range(1, len(sets) + 1):
        for names in combinations(sets, count):
            inside = set.intersection(*(sets[n] for n in names))
            outside = set().union(*(sets[n] for n in sets if n not in names))
            label = " and ".join(names) + (" only" if count == 1 else "")
            parts[label] = float(len(inside - outside))
    return parts


def coverage(found: dict[str, list[list[Outcome | None]]]) -> np.ndarray:
    """|B| / |A or B| (rows A, columns B), successes united over the seeds."""
    sets = {}
    for name, models in found.items():
        seeds = list(zip(*models, strict=True))
        sets[name] = set().union(*(won(list(s)) for s in seeds))
    table = [[len(b) / len(a | b) if a | b else 1.0 for b in sets.values()] for a in sets.values()]
    return np.array(table)


def gap(first: list[Outcome | None], second: list[Outcome | None]) -> float:
    """Lower end of the paired difference in robust accuracy; -1 where a cell is missing."""
    if not (all(first) and all(second)):
        return -1.0
    a, b = (np.mean([o.robust for o in f if o], axis=0) for f in (first, second))
    return paired_difference(a, b).low
