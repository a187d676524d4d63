"""Rows that open with their changes; filters; a job file; flips and their cost; signed pictures."""

from __future__ import annotations

import base64
import html
import json
import re
import subprocess
import sys
import tomllib
import zlib
from pathlib import Path

import numpy as np
import torch

import durometer as du
from durometer.core.records import Records
from durometer.demo.tour import _index
from durometer.report import job_file, wording
from durometer.report.examples import Examples, gather
from durometer.report.page import rows as table_of_rows
from durometer.report.page.report import namer
from durometer.report.page.section import Section, arranged, percent

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)


def kept(page: str, part: str) -> object:
    found = re.search(rf"<template id='rows-{part}'>(.*?)</template>", page, re.S)
    assert found is not None
    return json.loads(html.unescape(found[1]))


def test_a_row_opens_with_what_the_attack_changed() -> None:
    report = pages.table()
    whole = kept(report.html(), "whole")
    e, t = report.examples, report.table
    assert e is not None and isinstance(whole, dict)
    at = whole["fields"].index("id")
    broken = t[t["success"] & (t["winner"] != "clean")]
    assert len(e.places) == len(broken) == len(whole["changed"]) > 12
    for line, opened in whole["changed"].items():
        place = t.index[t["id"].astype(str) == whole["rows"][int(line)][at]][0]
        k = e.by_place[place]
        moved = np.flatnonzero(e.clean[k] != e.adversarial[k])
        said = {name: (a, b, unit) for name, a, b, unit, _ in opened["changes"]}
        assert {*said} == {e.names[i] for i in moved}
        for i in moved:
            before, after, unit = said[e.names[i]]
            assert float(before.replace(",", "")) == np.float64(f"{e.clean[k][i]:.6g}")
            assert float(after.replace(",", "")) == np.float64(f"{e.adversarial[k][i]:.6g}")
            assert unit == e.units[i]


def test_rows_that_were_wrong_before_are_no_success_of_the_attack() -> None:
    t = pages.long().table
    said = table_of_rows.outcomes(t, noise=False)
    early = t["success"] & (t["winner"] == "clean")
    assert said.count("wrong before any attack") == int(early.sum()) == 9
    assert said.count("broken") == int((t["success"] & ~early).sum())


def test_a_long_run_shows_its_worst_rows_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(table_of_rows, "ALL", 700)
    monkeypatch.setattr(table_of_rows, "SAMPLE", 300)
    report = pages.long()
    section = table_of_rows.rows(report, namer(report))
    assert "The worst 300 of 700; all are in records.parquet" in section.text
    monkeypatch.setattr(table_of_rows, "ALL", 701)
    assert "The worst" not in table_of_rows.rows(report, namer(report)).text


def test_categories_and_dates_are_said_as_people_write_them() -> None:
    x = np.array([[0.0, 19_000.0], [1.0, 19_001.0]])
    schema = du.Schema([
        du.Feature("job", "category", values=("cook", "clerk")),
        du.Feature("since", "integer", 0, 30_000, unit="days since 1970"),
    ])  # fmt: skip
    data = du.Dataset(x, [0, 0], schema=schema)
    after = np.array([[1.0, 19_031.0], [1.0, 19_001.0]])
    won = np.array([True, False])
    records = Records.of(2, after, id=data.ids, success=won, winner="X", distance=[1, 0])
    e = gather(data, records)
    assert e is not None
    cells = table_of_rows.changed_cells(e, 0)
    assert {c[:4] for c in cells} == {("job", "cook", "clerk", ""),
                                      ("since", "2022-01-08", "2022-02-08", "")}  # fmt: skip


def test_kept_successes_survive_saving(tmp_path: Path) -> None:
    report = pages.table()
    report.save(tmp_path / "run")
    again = du.Report.load(tmp_path / "run").examples
    e = report.examples
    assert e is not None and again is not None
    assert (again.places == e.places).all() and again.labels == e.labels


def pixels(address: str) -> np.ndarray:
    data = base64.b64decode(address.split(",")[1])
    wide, high = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
    size = int.from_bytes(data[33:37], "big")
    lines = np.frombuffer(zlib.decompress(data[41 : 41 + size]), np.uint8).reshape(high, -1)
    return lines[:, 1:].reshape(high, wide, 3)


def test_brighter_is_red_darker_is_blue_and_what_stayed_is_white() -> None:
    clean = np.full((1, 3, 8, 8), 0.5, np.float32)
    after = clean.copy()
    after[0, :, 0, 0] += 0.1
    after[0, :, 1, 1] -= 0.1
    e = Examples(np.array([0]), clean, after, (), (), np.zeros(192, int), np.zeros(192))
    shown = table_of_rows.pictures(e, 0)
    (name,) = (n for n in shown if n.startswith("difference"))
    assert "up to 25.5/255" in name
    signed = pixels(shown[name])
    assert signed[0, 0].tolist() == [255, 0, 0] and signed[1, 1].tolist() == [0, 0, 255]
    assert signed[5, 5].tolist() == [255, 255, 255]


def test_what_a_flip_costs_is_said_in_money_where_it_is() -> None:
    features = [
        du.Feature("age", "real", 0, 10, cost=2.0),
        du.Feature("debt", "real", 0, 10, cost=5),
    ]
    schema = du.Schema(features)
    net = torch.nn.Linear(2, 2).double()
    net.weight.data = torch.tensor([[-1.0, 0.0], [1.0, 0.0]]).double()
    net.bias.data = torch.tensor([5.0, -5.0]).double()
    x = np.column_stack([np.linspace(3, 4.9, 20), np.full(20, 5.0)])
    data = du.Dataset(x, np.zeros(20, int), schema=schema)
    report = du.evaluate(net, data, space=schema.space(cost=3.0), attack=du.CAPGD(), progress=False)
    text = html.unescape(report.html())
    assert "Cheapest flips" in text and "the least cost is" in text and "least cost</th>" in text
    assert "Nobody looked for the least cost" in text
    said = wording.cheapest(10, 5, ("1", "2"), True, True)
    assert "Nobody" not in said and "5 nearest" in said


def test_sections_half_as_wide_stand_in_twos_or_have_the_whole_width() -> None:
    def part(name: str, wide: bool) -> Section:
        return Section(name, name, du.__name__, wide=wide)  # type: ignore[arg-type]

    made = arranged([part("a", False), part("b", True), None, part("c", False), part("d", False)])
    assert [(s.id, s.wide) for s in made] == [("a", False), ("c", False), ("b", True), ("d", True)]


def test_shares_are_written_in_one_way() -> None:
    space = "\N{NO-BREAK SPACE}%"
    assert percent(1.0) == "100.0" + space and percent(0.99999) == "over 99.9" + space
    assert percent(0.0) == "0.0" + space and percent(0.00012) == "0.01" + space


SCRIPT = """
import durometer as du
net, data = du.testing.toy()
if __name__ == "__main__":
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(7), seed=3, progress=False)
    report.save("runs/first")
"""


def test_a_run_from_a_script_says_so_and_its_job_file_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True)
    run = tmp_path / "runs/first"
    page = html.unescape((run / "report.html").read_text())
    assert "cd ../.. && python script.py" in page and "href='job.toml'" in page
    text = (run / "job.toml").read_text()
    for old, new in (("FILE.py:DATA", "script.py:data"), ("FILE.py:MODEL", "script.py:net")):
        text = text.replace(old, new)
    (tmp_path / "job.toml").write_text(text)
    subprocess.run([sys.executable, "-m", "durometer", "run", "job.toml", "--out", "runs/again"],
                   cwd=tmp_path, check=True, capture_output=True)  # fmt: skip
    first, again = (du.Report.load(tmp_path / "runs" / n) for n in ("first", "again"))
    assert first.spec.attack == again.spec.attack and first.spec.seed == again.spec.seed == 3
    assert (first.table["success"] == again.table["success"]).all()


def test_a_job_file_of_every_kind_reads_as_toml_or_is_left_out() -> None:
    for kind in ("table", "images", "groups", "quota", "nature"):
        text = job_file.job_toml(getattr(pages, kind)().spec)
        assert tomllib.loads(text)["model"], kind
    assert job_file.job_toml(pages.moving().reports["transfer"].spec) == ""


def test_the_demo_s_index_is_a_page_like_the_others() -> None:
    page = _index([("1. Scene", "two of 60 rows", {"images": pages.images()})])
    assert 'name="viewport"' in page and "Content-Security-Policy" in page
    assert "images/report.html" in page and "Two of 60 rows" in page and "<svg" in page
