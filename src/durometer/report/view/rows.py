"""Rows of a run, all of them: filtered and paged by pyarrow, without a data frame.

What a reader would get wrong: "broken" here is what an attack broke. Rows that were wrong before
any attack are a kind of their own, as in the bar of verdicts.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from durometer.core import durable_files
from durometer.core.errors import DurometerError, nearest
from durometer.core.records import FIELDS, Records
from durometer.report.figures.noise import SURE
from durometer.report.folder import FIX
from durometer.report.report import Report
from durometer.report.slices import Segment, segments
from durometer.report.totals import Totals
from durometer.report.verdicts import Counts, verdicts
from durometer.report.view.library import Entry, Progress, is_file

_LARGEST = 4_000_000_000  # bytes that a table of records may unpack to
_HELD = 3  # tables in memory
_CHUNKS = 5000  # of a running run that are counted
_AGAIN = "'durometer repair' sets it aside"
_FEW = 50_000  # rows that are counted as a report counts them
_TEXT = ("id", "verdict", "winner", "skipped")
_TYPES = {
    **dict.fromkeys(_TEXT, pa.string()),
    **dict.fromkeys(("run", "y", "clean", "final", "target", "forwards"), pa.int64()),
    **dict.fromkeys(("distance", "margin", "probability_low", "probability_high"), pa.float64()),
    "success": pa.bool_(),
}
ATTACKED = ("broken", "proven", "open", "wrong before any attack", "left out")
NOISY = ("stable", "undecided", "not stable", "left out")


@dataclass(frozen=True)
class Filter:
    """Which rows to show.

    Args:
        kind: One of `ATTACKED` or `NOISY`; "" for all.
        y: The true class by index; None for all.
        text: Words that must all hold: "age<30", "city=Rome", "winner:pgd" of any column of the
            records or of the data's table, or a part of the id.
    """

    kind: str = ""
    y: int | None = None
    text: str = ""


_WORD = re.compile(r"([^:<>=]+)([:<>=])(.+)")


@dataclass(frozen=True, eq=False)
class Rows:
    """The columns of a run that are shown and filtered by, in memory."""

    entry: Entry
    table: pa.Table
    _kept: dict[str, pa.ChunkedArray] = field(default_factory=dict, repr=False)

    @cached_property
    def columns(self) -> dict[str, str]:
        """Every column of the run: name -> "records" or "data"; the records' own names first."""
        found: dict[str, str] = {}
        for kind, name in (("data", "rows.parquet"), ("records", "records.parquet")):
            path = self.entry.folder / name
            if is_file(path):
                with durable_files.reading(path, FIX):
                    found |= dict.fromkeys(pq.read_schema(path).names, kind)
        return {k: v for k, v in found.items() if not k.startswith("__index_level")}

    def column(self, name: str) -> pa.ChunkedArray:
        """A column, one value per row of the records."""
        if name in self.table.column_names:
            return self.table[name]
        if name not in self.columns:
            raise DurometerError(f"no column '{name}'{nearest(name, self.columns)}")
        if name not in self._kept:
            self._kept[name] = self._read(name)
        return self._kept[name]

    def _read(self, name: str) -> pa.ChunkedArray:
        own = self.columns[name] == "records"
        path = self.entry.folder / ("records.parquet" if own else "rows.parquet")
        with durable_files.reading(path, FIX):
            _guard(pq.ParquetFile(path))
            found = pq.read_table(path, columns=[name] if own else ["id", name])
            if own:
                return found[name]
            place = pc.index_in(self.table["id"], value_set=found["id"].cast(pa.string()))
            return found[name].take(place)

    def held(self) -> np.ndarray:
        """What each row gives a share: 1 where nothing broke it, else 0; under noise the middle
        of its probability."""
        if not self.noisy:
            return (~self._is("success", True)).astype(float)
        low, high = (self.table[f"probability_{e}"].to_numpy() for e in ("low", "high"))
        return np.asarray((low + high) / 2, float)

    def segments(self, name: str) -> list[Segment]:
        """The share of rows that held, by a column: worst first."""
        held = self.held()
        at = self._is("skipped", "") & np.isfinite(held)
        values = self.column(name).to_pandas().to_numpy()[at]
        ids, runs = (self.table[k].to_numpy(zero_copy_only=False)[at] for k in ("id", "run"))
        return segments(values, held[at], ids, runs)

    @property
    def noisy(self) -> bool:
        return self.entry.spec.game_type == "Nature"

    @property
    def kinds(self) -> tuple[str, ...]:
        return NOISY if self.noisy else ATTACKED

    def places(self, wanted: Filter) -> np.ndarray:
        """Places of the rows that pass."""
        keep = np.ones(len(self.table), bool)
        if wanted.kind:
            keep &= self._kind(wanted.kind)
        if wanted.y is not None:
            keep &= self._is("y", wanted.y)
        if wanted.text:
            for word in wanted.text.split():
                keep &= self._word(word)
        return np.flatnonzero(keep)

    def _word(self, word: str) -> np.ndarray:
        """Rows for which one word of a search holds."""
        parts = _WORD.fullmatch(word)
        names = {n.replace(" ", "-").casefold(): n for n in self.columns}
        name = names.get(parts[1].casefold()) if parts else None
        if parts is None or name is None:
            return _mask(pc.match_substring(self.table["id"], word, ignore_case=True))
        column, sign, value = self.column(name), parts[2], parts[3]
        if sign in "<>":
            try:
                bound = float(value)
                numbers = column.cast(pa.float64())
            except (ValueError, pa.ArrowNotImplementedError):  # ValueError: ArrowInvalid too
                raise DurometerError(f"{word!r}: expected a number and a column of them") from None
            return _mask((pc.less if sign == "<" else pc.greater)(numbers, bound))
        texts = column.to_pandas().astype(str).str.casefold()
        wanted = value.casefold()
        found = texts == wanted if sign == "=" else texts.str.contains(wanted, regex=False)
        return np.asarray(found, bool)

    def ordered(self, places: np.ndarray, name: str, down: bool) -> np.ndarray:
        """These places, sorted by a column; rows without a value last."""
        if not name:
            return places
        order = "descending" if down else "ascending"
        mine = self.column(name).take(pa.array(places))
        if pa.types.is_floating(mine.type):
            mine = pc.if_else(pc.is_nan(mine), None, mine)
        by = pc.array_sort_indices(mine.combine_chunks(), order=order, null_placement="at_end")
        return np.asarray(places[by.to_numpy()])

    def page(self, places: np.ndarray) -> list[dict[str, Any]]:
        """These rows."""
        found: list[dict[str, Any]] = self.table.take(pa.array(places)).to_pylist()
        return found

    def classes(self) -> list[int]:
        return sorted(int(c) for c in pc.unique(self.table["y"]).to_pylist() if c is not None)

    def _is(self, column: str, value: object) -> np.ndarray:
        return _mask(pc.equal(self.table[column], value))

    def _kind(self, kind: str) -> np.ndarray:
        if kind not in self.kinds:
            raise DurometerError(f"no verdict '{kind}'; there are {', '.join(self.kinds)}")
        left_out: np.ndarray = ~self._is("skipped", "")
        if kind == "left out":
            return left_out
        if self.noisy:
            low, high = (
                np.asarray(self.table[f"probability_{e}"].to_numpy()) for e in ("low", "high")
            )
            stable, falls = low >= SURE, high < SURE
            known: np.ndarray = np.isfinite(low) & np.isfinite(high) & ~left_out
            which = {"stable": stable, "not stable": falls, "undecided": ~stable & ~falls}
            found: np.ndarray = known & which[kind]
            return found
        early = self._is("success", True) & self._is("winner", "clean")
        mine = early if kind == "wrong before any attack" else self._is("verdict", kind) & ~early
        return np.asarray(mine & ~left_out)

    def counts(self) -> Counts:
        """The bar of verdicts, as the report of this run has it."""
        t, spec = self.table, self.entry.spec
        totals = self.entry.folder / "totals.parquet"
        if is_file(totals):
            with durable_files.reading(totals, FIX):
                return verdicts(Report(spec, Records.of(0), totals=Totals.load(totals)))
        if len(t) > _FEW and not self.noisy:
            by = ["verdict", "success", "winner", "skipped"]
            lines = t.select(by).group_by(by).aggregate([([], "count_all")]).to_pandas()
            few = Totals(lines.rename(columns={"count_all": "rows"}))
            return verdicts(Report(spec, Records.of(0), totals=few))
        columns = {k: t[k].to_numpy(zero_copy_only=False) for k in _TYPES if k in t.column_names}
        return verdicts(Report(spec, Records.of(len(t), **columns)))

    def record(self, place: int) -> dict[str, object]:
        """Everything that is stored of a row."""
        path = self.entry.folder / "records.parquet"
        with durable_files.reading(path, FIX):
            file = pq.ParquetFile(path)
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if place < rows:
                    return _record(file, group, place)
                place -= rows
        raise DurometerError(f"'{path}' has no such row")

    def data(self, id_: str) -> dict[str, object]:
        """The row of the data's own table; empty where the run has kept none."""
        path = self.entry.folder / "rows.parquet"
        if not is_file(path):
            return {}
        with durable_files.reading(path, FIX):
            _guard(pq.ParquetFile(path))
            found = pq.read_table(path, filters=[("id", "==", id_)])
            return dict(found.slice(0, 1).to_pylist()[0]) if len(found) else {}


def _record(file: pq.ParquetFile, group: int, place: int) -> dict[str, object]:
    """One row of a group: batches before it are let go as they come."""
    _guard(file)
    for batch in file.iter_batches(65_536, row_groups=[group]):
        if place < len(batch):
            return dict(batch.slice(place, 1).to_pylist()[0])
        place -= len(batch)
    raise ValueError("it holds fewer rows than it says")


def _mask(found: Any) -> np.ndarray:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), bool)


def _guard(file: pq.ParquetFile) -> None:
    """Refuses what would not fit into memory, before any of it is unpacked."""
    groups = (file.metadata.row_group(k) for k in range(file.num_row_groups))
    size = sum(g.total_byte_size for g in groups)
    if size > _LARGEST or file.metadata.num_rows > _LARGEST // 100:
        raise ValueError(f"it unpacks to {size:,} bytes, more than the viewer reads")


@dataclass
class Tables:
    """The tables that were looked at last."""

    _held: OrderedDict[str, Rows] = field(default_factory=OrderedDict)
    _counts: dict[str, tuple[Entry, Counts]] = field(default_factory=dict)
    _chunks: dict[Path, tuple[int, dict[str, tuple[str, int]]]] = field(default_factory=dict)

    def open(self, entry: Entry) -> Rows:
        """The rows of a run; refused where they are not as they were saved."""
        kept = self._held.get(entry.name)
        if kept is not None and kept.entry is entry:
            self._held.move_to_end(entry.name)
            return kept
        made = Rows(entry, _load(entry))
        self._held[entry.name] = made
        self._held.move_to_end(entry.name)
        while len(self._held) > _HELD:
            self._held.popitem(last=False)
        return made

    def counts(self, entry: Entry) -> Counts:
        """The bar of a run, counted once."""
        known = self._counts.get(entry.name)
        if known is None or known[0] is not entry:
            known = entry, Rows(entry, _load(entry)).counts()
            self._counts[entry.name] = known
        return known[1]

    def so_far(self, entry: Entry, known: Progress) -> Counts:
        """The bar of a run that is not finished; a chunk is read once."""
        total: Counts = {}
        for path in known.chunks[:_CHUNKS]:
            stamp = path.lstat().st_mtime_ns
            kept = self._chunks.get(path)
            if kept is None or kept[0] != stamp:
                kept = stamp, _chunk(entry, path)
                self._chunks[path] = kept
            for kind, (name, n) in kept[1].items():
                total[kind] = name, n + total.get(kind, ("", 0))[1]
        return {k: total[k] for k in ("proven", "open", "broken", "wrong") if k in total}


def _chunk(entry: Entry, path: Path) -> Counts:
    """The verdicts of a finished chunk."""
    with durable_files.reading(path, _AGAIN):
        if path.stat().st_size > _LARGEST // 10:
            raise ValueError("it is larger than the viewer reads")
        with durable_files.arrays(path) as file:
            columns = {n: file[n] for n in _TYPES if n in file.files}
            return verdicts(Report(entry.spec, Records.of(len(file["id"]), **columns)))


def _load(entry: Entry) -> pa.Table:
    path = entry.folder / "records.parquet"
    if not is_file(path):
        raise DurometerError(f"the run in '{entry.folder}' has no records yet, or a link for them")
    with durable_files.reading(path, FIX):
        if entry.digest and durable_files.digest(path) != entry.digest:
            raise ValueError("it is not as it was saved")
        file = pq.ParquetFile(path)
        _guard(file)
        names = [n for n in _TYPES if n in file.schema_arrow.names]
        table = file.read(columns=names)
        made = {n: table[n].cast(_TYPES[n]) for n in names}
        for name in _TYPES:  # older runs have fewer columns
            if name not in made:
                blank = "" if name in _TEXT else FIELDS[name][1]
                made[name] = pa.array(np.full(len(table), blank), _TYPES[name])
        return pa.table(made)


def shown(value: object) -> str:
    """A cell as text."""
    if isinstance(value, float):
        return "–" if value != value else f"{value:.6g}"
    return "–" if value is None or value is pd.NaT else str(value)
