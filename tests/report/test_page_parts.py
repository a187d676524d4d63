"""What one works with on a report's page; figures are counted again with pandas."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import durometer as du
from durometer.core.spec import GateSpec
from durometer.report.checks import IDS, Flag
from durometer.report.evidence import SCOPE
from durometer.report.page.section import explanations
from durometer.report.slices import segments

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)


class Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(page: str) -> str:
    return Text(page).text


def with_rows(report: du.Report) -> du.Report:
    assert report.data is not None
    x = report.data.x.reshape(len(report.data), -1).numpy()
    made = pd.DataFrame({"first": x[:, 0].round(2), "town": np.where(x[:, 1] > 8, "Rome", "Oslo")})
    made.index = report.data.ids
    return replace(report, rows=made)


def test_the_title_says_model_data_and_date() -> None:
    report = pages.images()
    named = replace(report, spec=replace(report.spec, model="loans"))
    page = named.html()
    name = f"loans on pictures, {datetime.now(UTC).date().isoformat()}"
    assert f"<title>durometer: {name}</title>" in page and name in text_of(page[page.index("<h") :])


def test_a_run_of_a_file_says_the_whole_command(tmp_path: Path) -> None:
    report = replace(pages.images(), spec=replace(pages.images().spec, command="durometer run"))
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text("")
    report.save(folder)
    page = text_of((folder / "report.html").read_text())
    told = json.loads((folder / "evidence.json").read_text())["integrity"]["repeat"]
    assert told in page and "config.toml --out" in told
    made = text_of(pages.images().html())
    assert "du.evaluate(MODEL, DATA, space=Linf(0.03)" in made


def test_every_flag_is_explained_on_the_page() -> None:
    known = explanations()
    assert set(IDS) <= set(known) and all(known[i] for i in IDS)
    flags = tuple(Flag(i, "look") for i in IDS[:3])
    page = replace(pages.images(), flags=flags).html()
    assert page.count("<details><summary>What it means") == 3
    for flag in flags:
        first = known[flag.id][0].replace("`", "")[:60]
        assert first in text_of(page)


def test_evidence_is_told_when_a_report_is_saved(tmp_path: Path) -> None:
    given = {field: f"{field} of it" for field in SCOPE}
    folder = pages.images().save(tmp_path / "a", evidence={**given, "tags": "nightly"})
    assert "(empty)" not in (folder / "evidence.html").read_text()
    scope = json.loads((folder / "evidence.json").read_text())["scope"]
    assert {k: scope[k] for k in given} == given
    assert du.Report.load(folder).spec.evidence["tags"] == "nightly"
    for wrong, match in (({"ower": "me"}, "owner"), ({"owner": 3}, "text"), ("me", "dictionary")):
        with pytest.raises(du.DurometerError, match=match):
            pages.images().save(tmp_path / "b", evidence=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()


def test_limits_are_a_light() -> None:
    report = pages.images()
    for criterion, light in (
        ("robust >= 0.001", "pass"),
        ("robust >= 0.999", "fail"),
        (f"robust >= {report.metric('robust').value:.3f}", "undecided"),
    ):
        spec = replace(report.spec, gate=GateSpec((criterion,), 0.05))
        page = replace(report, spec=spec).html()
        assert f"class='light {light}'" in page, criterion
        assert du.gate(replace(report, spec=spec)).outcome == light
        assert criterion in text_of(page)
    assert "class='light" not in report.html()


def test_rows_stand_worst_first_and_open_whole() -> None:
    report = pages.long()
    page, t = report.html(), report.table
    body = page[page.index("<table id=rows") :]
    ids = re.findall(r"<tr><td>(r\d+)</td>", body[: body.index("</tbody>")])
    further = re.search(r"<template id='rows-further'>(.*?)</template>", body, re.S)
    assert further is not None
    first = json.loads(text_of(further[1]))[0]  # a column at a time, the id first
    ids += first if isinstance(first, list) else [first["values"][k] for k in first["at"]]
    assert sorted(ids) == sorted(t["id"])
    mine = t.set_index("id").loc[ids]
    early = (mine["success"] & (mine["winner"] == "clean")).to_numpy()
    broken = mine["success"].to_numpy() & ~early
    proven = (mine["verdict"] == "proven").to_numpy()
    kind = np.select([early, broken, proven], [0, 1, 3], 2)
    assert (np.diff(kind) >= 0).all() and set(kind) == {0, 1, 2, 3}
    assert (np.diff(mine["distance"].to_numpy()[broken]) >= 0).all()
    assert (np.diff(mine["margin"].to_numpy()[kind == 2]) <= 0).all()
    whole = re.search(r"<template id='rows-whole'>(.*?)</template>", body, re.S)
    assert whole is not None
    kept = json.loads(text_of(whole[1]))
    records = [dict(zip(kept["fields"], row, strict=True)) for row in kept["rows"]]
    assert [r["id"] for r in records] == ids
    assert dict(kept["same"])["valid"] == "True"
    moved = {kept["rows"][int(k)][0]: c["changes"] for k, c in kept["changed"].items()}
    assert {*moved} == {*t["id"][t["success"] & (t["winner"] != "clean")]}
    assert float(records[20]["margin"]) == pytest.approx(mine["margin"].iloc[20], rel=1e-5)


def test_segments_are_those_of_pandas() -> None:
    report = with_rows(pages.table())
    text = text_of(report.html())
    assert "Segments" in text and "by columns of the data" in text
    assert report.rows is not None
    town = report.rows["town"].reindex(report.table["id"]).to_numpy()
    held = (~report.table["success"]).groupby(town).agg(["mean", "size"])
    for name, (share, n) in held.iterrows():
        assert re.search(rf"{name}: {share:.3f} \[[^]]*\] \(n = {n:.0f}\)", report.html()), name


def test_segments_cut_numbers_at_quartiles_and_hold_at_once() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(1000)
    held = (values > 0.5).astype(float)
    found = segments(values, held, np.arange(1000), np.zeros(1000, int))
    edges = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    wanted = pd.Series(held).groupby(pd.cut(values, edges, right=False, include_lowest=True,
                                            labels=False)).mean()  # fmt: skip
    assert [round(s.robust.value, 2) for s in found] == sorted(wanted.round(2))
    assert [s.robust.n for s in found] == [250] * 4
    assert found[0].value.startswith("[") and sum(s.value.endswith("]") for s in found) == 1
    one = segments(np.zeros(1000), held, np.arange(1000), np.zeros(1000, int))[0].robust
    assert found[-1].robust.low < 1 and one.n == 1000
    mixed = np.array([None, "a", "a", float("nan")] + [f"v{k}" for k in range(60)], dtype=object)
    parts = {s.value: s.robust.n for s in
             segments(mixed, np.ones(64), np.arange(64), np.zeros(64, int))}  # fmt: skip
    assert parts["missing"] == 2 and parts["a"] == 2 and parts["other values"] == 41


def test_intervals_of_segments_hold_at_once_in_simulations() -> None:
    """All five cover their true share in at least 95 % of runs, less what 400 runs may err by."""
    rng = np.random.default_rng(1)
    truth = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    inside = 0
    for _ in range(400):
        part = np.repeat(np.arange(5), 80)
        held = (rng.random(400) < truth[part]).astype(float)
        found = segments(part, held, np.arange(400), np.zeros(400, int))
        inside += all(s.robust.low <= truth[int(s.value)] <= s.robust.high for s in found)
    assert inside / 400 >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)
