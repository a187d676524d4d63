"""The page: self-contained, inert whatever the data is called, and true to the records."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import durometer as du
from durometer.report.page import charts, png
from durometer.report.stats import Estimate, wilson

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>"


def run(names: tuple[str, ...] = ("cat", "dog", "owl")) -> du.Report:
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(6, 3)
    net.weight.data = torch.randn(3, 6, generator=g)
    net.bias.data.zero_()
    x = torch.rand(80, 6, generator=g)
    data = du.Dataset(x, net(x).argmax(1).detach(), classes=names, name=names[0])
    return du.evaluate(net, data, space=du.Linf(0.1), attack=du.APGD(10))


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


BESIDE = (
    "records.parquet",
    "evidence.html",
    "evidence.json",
    "spec.json",
    "config.toml",
    "job.toml",
)


def test_nothing_comes_from_outside() -> None:
    reader = read(run().html())
    for tag, attrs in reader.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "href", "xlink:href"):
            value = attrs.get(name)
            beside = tag == "a" and str(value) in BESIDE  # a file of the run, in its folder
            assert value is None or value.startswith(("data:image/png", "#")) or beside, (
                tag,
                value,
            )
        assert not any(name.startswith("on") or name == "style" for name in attrs), (tag, attrs)


def test_policy_admits_just_this_style_and_script() -> None:
    page = run().html()
    for tag in ("style", "script"):
        inner = re.search(f"<{tag}>(.*?)</{tag}>", page, re.S)
        assert inner is not None
        digest = base64.b64encode(hashlib.sha256(inner[1].encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert page.count("<script") == 1


def test_hostile_names_stay_text() -> None:
    reader = read(run((HOSTILE, "b", "c")).html())
    assert [t for t, _ in reader.tags].count("script") == 1
    assert not any(t == "img" and a.get("src") == "x" for t, a in reader.tags)
    assert HOSTILE in reader.text


def test_figures_are_the_records_figures() -> None:
    report = run()
    text = read(report.html()).text
    e = report.metric("robust")
    assert f"{100 * e.low:.1f} – {100 * e.high:.1f}\N{NO-BREAK SPACE}%" in text
    share = f"{100 * e.value:.0f} %, between {100 * e.low:.0f} and {100 * e.high:.0f}"
    said = f"{round(e.value * e.n)} of {e.n} ({share})"
    assert said.replace(" %", "\N{NO-BREAK SPACE}%") in text
    assert len(report.html()) < 1_000_000


def test_saved_page_and_examples_survive(tmp_path: Path) -> None:
    report = run()
    report.save(tmp_path)
    again = du.Report.load(tmp_path)
    assert again.examples is not None and report.examples is not None
    assert (again.examples.clean == report.examples.clean).all()
    assert again.html() == report.html() == (tmp_path / "report.html").read_text()


def test_examples_are_the_nearest_true_successes() -> None:
    report = run()
    e = report.examples
    assert e is not None
    rows = report.table.iloc[e.places]
    assert rows["success"].all() and (rows["winner"] != "clean").all()
    assert (np.diff(rows["distance"]) >= 0).all()
    assert e.changed.max() <= report.table["success"].sum()


def test_no_success_no_examples() -> None:
    data = du.Dataset(torch.rand(5, 6), torch.zeros(5))
    net = torch.nn.Linear(6, 2)
    net.weight.data.zero_()
    net.bias.data = torch.tensor([1.0, 0.0])
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(3))
    assert report.examples is None
    assert "Examples" not in read(report.html()).text


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_real_pngs(channels: int) -> None:
    image = np.random.default_rng(0).random((channels, 9, 11))
    data = base64.b64decode(png.address(image).split(",")[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(data[16:20], "big") == 11 and int.from_bytes(data[20:24], "big") == 9


def test_charts_hold_what_they_are_given() -> None:
    lines = charts.curves({"a": [(0.1, wilson(9, 10)), (0.2, wilson(5, 10))]}, "curve", "eps")
    assert lines.count("<circle") == 2 and "eps 0.2" in lines
    assert charts.intervals({"none": Estimate(float("nan"), 0, 0, 0)}, "x").count("<circle") == 0
    assert "<b>" not in charts.bars({"<b>": 3}, "x")
    assert charts.histogram(np.array([np.nan]), "x", "y") == ""
