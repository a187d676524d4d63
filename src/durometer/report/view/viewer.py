"""Viewer: what is answered to an address, as pages. It reads, and never writes or runs anything.

Runs are named by what the library found; no path of a request is opened.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from urllib.parse import urlencode

import numpy as np
import pandas as pd
from markupsafe import Markup

from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.report.comparison import Comparison
from durometer.report.examples import Examples
from durometer.report.export import inert
from durometer.report.figures.noise import SURE
from durometer.report.folder import FILES, FIX, read_json
from durometer.report.page import charts
from durometer.report.page.comparison import page as comparison_page
from durometer.report.page.report import page as report_page
from durometer.report.page.rows import EARLY, LEFT_OUT, cards
from durometer.report.page.section import Section, draw, flagged, render, table, written
from durometer.report.report import Report
from durometer.report.verdicts import Counts
from durometer.report.view.library import Entry, Library, is_file, progress, search
from durometer.report.view.rows import Filter, Rows, Tables, shown

_RUNS, _LINES = 50, 100  # on one page
_MOST = 8  # runs that are compared at once
_LARGEST = 200_000_000  # bytes of a file of examples
_SECONDS = 5  # between two looks at a run that is not finished
_CLASS = ("y", "clean", "target", "final")


@dataclass(frozen=True)
class Asked:
    """The parameters of an address.

    Args:
        pairs: Name and value, in their order; a name may come several times.
    """

    pairs: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """The last value of a name."""
        return dict(self.pairs).get(name, default)

    def all(self, name: str) -> list[str]:
        """Every value of a name that is not empty, once."""
        return list(dict.fromkeys(v for k, v in self.pairs if k == name and v))


@dataclass(frozen=True)
class Answer:
    """What is sent back.

    Args:
        status: HTTP's number.
        text: The page or file.
        kind: Its media type.
        refresh: Seconds after which a browser asks again; 0: never.
        file: Name under which it is saved; "" for a page.
    """

    status: int
    text: str
    kind: str = "text/html"
    refresh: int = 0
    file: str = ""


@dataclass
class Viewer:
    """The pages of a folder of runs.

    Args:
        root: The folder.
    """

    root: Path
    _tables: Tables = field(default_factory=Tables)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise DurometerError(f"'{self.root}' is no folder; give the folder of your runs")
        self._library = Library(self.root.resolve())

    def answer(self, path: str, asked: Asked) -> Answer:
        """The page at an address.

        Args:
            path: "" (all runs), "run", "row", "segments", "compare", "across" (rows of several
                runs), "report" (the whole report of a run), "csv" or "json" (the rows that a
                filter leaves).
            asked: The parameters of the address.
        """
        pages = {
            "": self._list, "run": self._run, "row": self._row, "segments": self._segments,
            "compare": self._compare, "across": self._across, "csv": self._csv, "json": self._json,
            "report": self._report,
        }  # fmt: skip
        if path not in pages:
            return Answer(404, _message("There is no such page."))
        with self._lock:
            try:
                return pages[path](asked)
            except DurometerError as error:
                return Answer(404, _message(str(error)))

    def _list(self, asked: Asked) -> Answer:
        keep = {"q": asked.get("q"), "tag": asked.get("tag")}
        every = self._library.entries()
        found = search(every, keep["q"], keep["tag"])
        at = _page(asked, len(found), _RUNS)
        here = found[at * _RUNS : (at + 1) * _RUNS]
        links = _pager(keep, "", at, len(found), _RUNS)
        known = sorted({t for e in every for t in e.tags})
        body = draw("runs", keep, [self.line(e) for e in here], links, known)
        told = f"{len(found):,} of {len(every):,} runs in {self.root}"
        about = "Newest first. Read-only: nothing here is changed, run or sent anywhere."
        return Answer(200, render("durometer: runs", told, about, [Section("runs", "Runs", body)]))

    def line(self, e: Entry, static: str | None = None) -> dict[str, object]:
        """A run as a line of the list; `static`: the page that it links to, for a site."""
        bar, note = Markup(""), e.problem
        try:
            if not note and not e.finished:
                known = progress(e)
                bar = draw("meter", len(known.chunks), known.of, _told(e))
            elif not note:
                bar = _bar(self._tables.counts(e))
        except DurometerError as error:
            note = str(error)
        warned = [f.id for f in e.flags if f.level == "warning"]
        asked = ("model", "data", "space", "noise", "goal")
        about = " · ".join(charts.short(t, 90) for t in map(e.spec.text, asked) if t)
        link = _link("run", name=e.name) if static is None else static
        tags = [(t, _link(".", tag=t) if static is None else "") for t in e.tags]
        return {"name": e.name, "link": link, "when": when(e.written), "about": about,
                "rows": e.spec.rows, "bar": bar, "warnings": warned, "note": note,
                "tags": tags}  # fmt: skip

    def entries(self) -> list[Entry]:
        """All runs, newest first."""
        return self._library.entries()

    def report(self, e: Entry) -> Report:
        """The report of a run; refused where it is damaged, too large, or made of links."""
        if e.problem:
            raise DurometerError(e.problem)
        durable_files.refuse_links(e.folder, (*FILES, "spec.json", "also"))
        self._tables.counts(e)
        return Report.load(e.folder)

    def _report(self, asked: Asked) -> Answer:
        """The page of a run, drawn anew from its records."""
        return Answer(200, report_page(self.report(self._library.get(asked.get("name"))), files=()))

    def _rows(self, asked: Asked) -> Rows:
        entry = self._library.get(asked.get("name"))
        if entry.problem:
            raise DurometerError(entry.problem)
        return self._tables.open(entry)

    def _run(self, asked: Asked) -> Answer:
        entry = self._library.get(asked.get("name"))
        if not entry.problem and not entry.finished:
            return self._running(entry)
        rows = self._rows(asked)
        e, keep = rows.entry, _kept(asked)
        places = rows.ordered(rows.places(_filter(asked)), keep["sort"], keep["down"] == "1")
        at = _page(asked, len(places), _LINES)
        here = places[at * _LINES : (at + 1) * _LINES]
        numbers = ("probability_low", "probability_high") if rows.noisy else ("distance", "margin")
        lines = [
            (
                draw("to", _link("row", name=e.name, at=str(place)), str(r["id"])),
                _class(e, r["y"]), _class(e, r["clean"]), _class(e, r["final"]),
                _outcome(r, rows.noisy), shown(r["winner"]) or "–",
                *(math.nan if r[n] is None else r[n] for n in numbers),
            )
            for place, r in zip(here.tolist(), rows.page(here), strict=True)
        ]  # fmt: skip
        classes = [(c, _class(e, c)) for c in rows.classes()]
        some = next((n for n, kind in rows.columns.items() if kind == "data" and n != "id"), "")
        example = f"id, or a column: {(some or 'winner').replace(' ', '-')}=..., {numbers[0]}<0.1"
        form = draw("row_filter", keep, rows.kinds, classes, example)
        head = [_sorted(keep, n, s) for n, s in zip(
            ("id", "true class", "clean", "final", "verdict", "by", *numbers),
            ("id", "y", "clean", "final", "verdict", "winner", *numbers), strict=True)]  # fmt: skip
        links = _pager(keep, "run", at, len(places), _LINES)
        files = draw("to", _link("csv", **keep), "CSV") + " " + draw("to", _link("json", **keep),
                                                                     "JSON")  # fmt: skip
        whole = draw("to", _link("report", name=e.name), "figures, curves, features, examples")
        sections = [
            _flags(e),
            Section("report", "Report", whole),
            Section(
                "rows", "Rows", form + table(head, lines) + links + files,
                f"{len(places):,} of {len(rows.table):,} rows; a row's id opens its whole record. "
                "The files at the end hold all rows that the filter leaves.",
            ),
            Section("segments", "Segments", self._choice(rows), "Robustness by any column."),
            Section("compare", "Compare", draw("other", e.name), "With another run, row by row."),
            Section("spec", "What was asked", _words(e.spec.in_words())),
            _back(),
        ]  # fmt: skip
        told = f"{e.name}: {e.spec.model_name()} on {e.spec.data}"
        title = f"durometer: {e.name}"
        return Answer(200, render(title, told, e.spec.threat, sections, _bar(rows.counts())))

    def _running(self, e: Entry) -> Answer:
        known = progress(e)
        bar, note = Markup(""), ""
        try:
            bar = _bar(self._tables.so_far(e, known))
        except DurometerError as error:
            note = str(error)
        meter = draw("meter", len(known.chunks), known.of, _told(e))
        text = note or "The bar is of the finished chunks; all figures may still change."
        sections = [
            Section("progress", "Progress", meter, f"{text} Renewed every {_SECONDS} seconds."),
            Section("spec", "What was asked", _words(e.spec.in_words())),
            _back(),
        ]
        told = f"NOT FINISHED: {e.name}, {e.spec.model_name()} on {e.spec.data}"
        page = render(f"durometer: {e.name}", told, e.spec.threat, sections, bar)
        return Answer(200, page, refresh=_SECONDS)

    def _choice(self, rows: Rows, chosen: str = "") -> Markup:
        names = [n for n in rows.columns if n not in ("id", "input", "stages")]
        names.sort(key=lambda n: (rows.columns[n] == "records" and n != "y", n != "y"))
        keep = [("name", rows.entry.name)]
        return draw("choose", "segments", keep, "by", names, chosen, "by column")

    def _segments(self, asked: Asked) -> Answer:
        rows = self._rows(asked)
        e, by = rows.entry, asked.get("by")
        found = rows.segments(by)

        def name(value: str) -> str:
            return _class(e, int(value)) if by in _CLASS and value.isdigit() else value

        drawn = {name(s.value): s.robust for s in found}
        what = "Probability that the answer stays" if rows.noisy else "Share of rows not broken"
        lines = [(name(s.value), *written(s.robust), f"{s.robust.n:,}") for s in found]
        bound = "" if rows.noisy else ": an upper bound of robust accuracy wherever rows are open"
        wide = f"Intervals are widened so that all {len(found)} hold at once."
        text = f"{what}, worst first{bound}. {wide}"
        body = self._choice(rows, by) + draw("figures", lines)
        body += charts.intervals(drawn, f"{what} by {by}")
        sections = [Section("segments", f"By {by}", body, text),
                    Section("run", "The run", draw("to", _link("run", name=e.name), e.name)),
                    _back()]  # fmt: skip
        return Answer(200, render(f"durometer: {e.name}", f"{e.name} by {by}", "", sections))

    def _row(self, asked: Asked) -> Answer:
        rows = self._rows(asked)
        at = _whole(asked.get("at"), "at")
        if not 0 <= at < len(rows.table):
            raise DurometerError(f"'{rows.entry.name}' has no row {at}; it has {len(rows.table):,}")
        record = rows.record(at)
        data = rows.data(str(record.get("id")))
        e = rows.entry
        classes = {
            k: f"{shown(v)} ({_class(e, v)})" if k in _CLASS else v
            for k, v in record.items()
            if not (k in (*_CLASS, "answer") and v == -1)
        }
        around = [draw("to", _link("row", name=e.name, at=str(p)), text) for p, text in
                  ((at - 1, "previous row"), (at + 1, "next row"))
                  if 0 <= p < len(rows.table)]  # fmt: skip
        sections = [
            self._changed(e, at),
            Section("record", "The record", _known(classes), _empty(record, classes), wide=False),
            Section("data", "The row of the data", _known(data), wide=False) if data else None,
            Section("run", "The run", Markup(" ").join(
                [draw("to", _link("run", name=e.name), e.name), *around])),
            _back(),
        ]  # fmt: skip
        told = f"Row {shown(record.get('id'))} of {e.name}"
        return Answer(200, render(f"durometer: {e.name}", told, "", sections))

    def _changed(self, e: Entry, at: int) -> Section | None:
        """What the attack changed in a row, where the run has kept it."""
        path = e.folder / "examples.npz"
        if not is_file(path):
            return None
        with durable_files.reading(path, FIX):
            if path.stat().st_size > _LARGEST:
                raise ValueError("it is larger than the viewer reads")
            saved = dict(read_json(e.folder / "spec.json", FIX).get("saved", {}))
            if saved.get("examples.npz") not in (None, durable_files.digest(path)):
                raise ValueError("it is not as it was saved")
            examples = Examples.load(path)
            k = examples.by_place.get(at)
            body = Markup("") if k is None else draw("opened", cards(examples, k, most=1000))
        if not body:
            return None
        return Section("changed", "What the attack changed", body,
                       "The counterexample that was handed in, beside the clean row.")  # fmt: skip

    def _compared(self, asked: Asked) -> dict[str, Report]:
        names = asked.all("run")
        if not 2 <= len(names) <= _MOST:
            raise DurometerError(f"{len(names)} runs: mark 2 to {_MOST} to compare them")
        return {name: self.report(self._library.get(name)) for name in names}

    def _compare(self, asked: Asked) -> Answer:
        reports = self._compared(asked)
        if len(reports) > 2:
            return self._across(asked)
        (a, first), (b, second) = reports.items()
        every = draw("to", _across_link([a, b]), "all rows of both runs")
        more = [Section("every", "Row by row", every), _back()]
        return Answer(200, comparison_page(first, second, (a, b), more))

    def _across(self, asked: Asked) -> Answer:
        """Several runs: each pair in a sentence that ranks no more than is known, and all rows."""
        reports, differ = self._compared(asked), asked.get("differ")
        names = list(reports)
        said = [
            f"{a} and {b}: {_compared(reports, a, b).sentence((a, b))}"
            for i, a in enumerate(names) for b in names[i + 1 :]
        ]  # fmt: skip
        joined = across(reports)
        verdicts = [f"verdict {k}" for k in range(len(names))]
        if differ:
            first = joined[verdicts[0]]
            other = np.logical_or.reduce([joined[v] != first for v in verdicts[1:]])
            joined = joined[other]
        at = _page(asked, len(joined), _LINES)
        here = joined.iloc[at * _LINES : (at + 1) * _LINES]
        entries = {n: self._library.get(n) for n in names}
        lines = [
            (
                str(row["id"]), _class(entries[names[0]], int(row["y"])),
                *(shown(row[v]) for v in verdicts),
            )
            for row in here.to_dict("records")
        ]  # fmt: skip
        pairs = [("run", n) for n in names]
        links = _pager_of([*pairs, ("differ", differ)], "across", at, len(joined), _LINES)
        other = _across_link(names, "" if differ else "1")
        turn = draw("to", other, "all rows" if differ else "only rows that differ")
        bars = [(draw("to", _link("run", name=n), n), _bar(self._tables.counts(entries[n])))
                for n in names]  # fmt: skip
        text = f"{len(joined):,} rows that were played in all {len(names)} runs"
        text += ", and differ in their verdict." if differ else "."
        sections = [
            Section("pairs", "Pair by pair", draw("lines", said),
                    "Nothing is ranked that the runs do not rank."),
            Section("bars", "Each on all of its rows", table(("run", "verdicts"), bars)),
            Section("rows", "Row by row", turn + table(("id", "true class", *names), lines) + links,
                    text),
            _back(),
        ]  # fmt: skip
        return Answer(200, render("durometer: comparison", f"{len(names)} runs compared",
                                  ", ".join(names), sections))  # fmt: skip

    def _frame(self, asked: Asked) -> pd.DataFrame:
        rows, keep = self._rows(asked), _kept(asked)
        places = rows.ordered(rows.places(_filter(asked)), keep["sort"], keep["down"] == "1")
        made: pd.DataFrame = rows.table.take(places).to_pandas()
        for column in _CLASS:
            made[f"{column}_name"] = [_class(rows.entry, c) for c in made[column].tolist()]
        return made

    def _csv(self, asked: Asked) -> Answer:
        text = inert(self._frame(asked)).to_csv(index=False)
        return Answer(200, text, "text/csv", file="records.csv")

    def _json(self, asked: Asked) -> Answer:
        text = self._frame(asked).to_json(orient="records")
        return Answer(200, json.dumps(json.loads(text)), "application/json", file="records.json")


def _compared(reports: Mapping[str, Report], a: str, b: str) -> Comparison:
    try:
        return reports[a].compare(reports[b])
    except DurometerError as error:
        raise DurometerError(f"'{a}' and '{b}': {error}") from None


def _outcome(row: Mapping[str, object], noisy: bool) -> str:
    """What came of a row, in the words of the filter."""
    if row["skipped"]:
        return LEFT_OUT
    if noisy:
        low, high = (float(str(row[f"probability_{end}"])) for end in ("low", "high"))
        return "stable" if low >= SURE else "not stable" if high < SURE else "undecided"
    return EARLY if row["success"] and row["winner"] == "clean" else str(row["verdict"])


def across(reports: Mapping[str, Report]) -> pd.DataFrame:
    """The rows that were played in every run: id, class and the verdict in each."""
    joined: pd.DataFrame | None = None
    for k, report in enumerate(reports.values()):
        t = report.table[report.table["skipped"] == ""]
        free = t["success"] & (t["winner"] == "clean")
        mine = pd.DataFrame(
            {
                "id": t["id"].astype(str),
                "run": t["run"],
                "y": t["y"],
                f"verdict {k}": t["verdict"].mask(free, "wrong before any attack"),
            }
        )
        joined = mine if joined is None else joined.merge(
            mine.drop(columns="y"), on=["id", "run"], validate="one_to_one")  # fmt: skip
    assert joined is not None
    return joined


def when(written: float) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%d %H:%M")


def _told(e: Entry) -> str:
    known = progress(e)
    of = f" of {known.of:,}" if known.of else ""
    text = f"not finished: {len(known.chunks):,}{of} chunks"
    return text + (f", the last {max(0, time.time() - known.last):,.0f} s ago" * bool(known.last))


def _kept(asked: Asked) -> dict[str, str]:
    """What of an address says which rows are shown, and in which order."""
    return {k: asked.get(k) for k in ("name", "verdict", "y", "q", "sort", "down")}


def _sorted(keep: Mapping[str, str], title: str, column: str) -> Markup:
    """The head of a column: a click sorts by it, a second one the other way."""
    down = "1" if keep["sort"] == column and keep["down"] != "1" else ""
    return draw("to", _link("run", **{**keep, "sort": column, "down": down}), title)


def _filter(asked: Asked) -> Filter:
    y = asked.get("y")
    return Filter(asked.get("verdict"), _whole(y, "y") if y else None, asked.get("q"))


def _whole(text: str, name: str) -> int:
    try:
        return int(text[:18])
    except ValueError:
        raise DurometerError(f"{name}={text[:40]!r}: expected a whole number") from None


def _page(asked: Asked, count: int, size: int) -> int:
    return min(max(0, _whole(asked.get("page", "0"), "page")), max(0, (count - 1) // size))


def _link(path: str, **asked: str) -> str:
    return _link_of(path, asked.items())


def _link_of(path: str, pairs: Iterable[tuple[str, str]]) -> str:
    """An address; of parameters without a value it says nothing."""
    said = urlencode([(k, v) for k, v in pairs if v], errors="surrogateescape")
    return f"{path}?{said}" if said else path or "."


def _across_link(names: Sequence[str], differ: str = "") -> str:
    return _link_of("across", [*(("run", n) for n in names), ("differ", differ)])


def _pager(keep: Mapping[str, str], path: str, at: int, count: int, size: int) -> Markup:
    return _pager_of(list(keep.items()), path, at, count, size)


def _pager_of(keep: Sequence[tuple[str, str]], path: str, at: int, count: int, size: int) -> Markup:
    last = max(0, (count - 1) // size)
    ends = {"first": 0, "previous": at - 1, "next": at + 1, "last": last}
    links = [(name, _link_of(path, [*keep, ("page", str(p))])) for name, p in ends.items()
             if 0 <= p <= last and p != at]  # fmt: skip
    return draw("pager", links, at + 1, last + 1)


def _class(e: Entry, c: object) -> str:
    if not isinstance(c, int) or c < 0:
        return "–"
    return str(e.spec.class_name(c))


def _bar(counts: Counts) -> Markup:
    if not any(n for _, n in counts.values()):
        return Markup("")
    return charts.verdicts(counts, ", ".join(f"{n} {name}" for name, n in counts.values()))


def _words(lines: Mapping[str, str]) -> Markup:
    return table(("field", "value"), list(lines.items()))


def _known(row: Mapping[str, object]) -> Markup:
    """A row's fields, without those that hold nothing."""
    return _words({k: v for k, v in ((k, shown(v)) for k, v in row.items()) if v not in ("", "–")})


def _empty(record: Mapping[str, object], said: Mapping[str, object]) -> str:
    """Which fields hold nothing, in a sentence."""
    names = [k for k in record if k not in said or shown(said[k]) in ("", "–")]
    return f"Empty: {', '.join(names)}." if names else ""


def _flags(e: Entry) -> Section | None:
    return Section("flags", "Look at this first", flagged(e.flags)) if e.flags else None


def _back() -> Section:
    return Section("all", "All runs", draw("to", ".", "all runs"))


def _message(text: str) -> str:
    return render("durometer", text, "", [_back()])
