"""The viewer, asked over HTTP as a browser would; its figures are counted again with pandas."""

from __future__ import annotations

import html
import http.client
import io
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import durometer as du
from durometer.report.page.section import percent
from durometer.report.view.server import Server
from durometer.report.view.site import export

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)

KINDS = ("table", "images", "groups", "nature", "long")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        getattr(pages, kind)().save(folder / kind)
    pages.images(2).save(folder / "deeper" / "images2")
    return folder


@pytest.fixture
def server(runs: Path) -> Iterator[Server]:
    yield from serving(runs)


def serving(folder: Path) -> Iterator[Server]:
    with Server(folder) as made:
        beat = {"poll_interval": 0.01}
        thread = threading.Thread(target=made.serve_forever, kwargs=beat, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


def ask(
    server: Server, path: str = "", method: str = "GET", host: str = "", whole: str = "", **q: Any
) -> tuple[int, str, Any]:
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    target = whole or f"/{server.token}/{path}" + (f"?{urlencode(q, doseq=True)}" if q else "")
    link.request(method, target, headers={"Host": host} if host else {})
    reply = link.getresponse()
    text = reply.read().decode()
    link.close()
    return reply.status, text, reply.headers


def rows_shown(text: str) -> int:
    found = re.search(r"([\d,]+) of [\d,]+ rows; a row", text)
    assert found, text[:2000]
    return int(found[1].replace(",", ""))


class Tags(HTMLParser):
    """Which elements a page really has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def inert(page: str) -> Tags:
    tags = Tags(page)
    assert [t for t, _ in tags.found].count("script") == 1  # the page's own, allowed by its hash
    assert not any(t in ("iframe", "object", "embed", "link", "base") for t, _ in tags.found)
    for tag, attrs in tags.found:
        assert not any(name.startswith("on") for name in attrs), (tag, attrs)
        for name in ("href", "src", "action"):
            value = attrs.get(name) or ""
            assert not re.match(r"\s*(javascript|data:text|https?:|//)", value, re.I), (tag, attrs)
    return tags


def test_it_listens_on_this_machine_with_a_token_of_its_own(server: Server, runs: Path) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with Server(runs) as other:
        assert len(server.token) >= 32 and other.token != server.token
    for whole in ("/", "/run", "/x/", f"/{server.token[:-1]}/", f"/{server.token}x/", "//", "/../"):
        status, text, _ = ask(server, whole=whole)
        assert status == 403 and "images" not in text, whole
    assert ask(server)[0] == 200
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1"):
        assert ask(server, host=host)[0] == 403  # a name that was pointed at this machine
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert ask(server, method=method)[0] == 501
    status, text, headers = ask(server, method="HEAD")
    assert status == 200 and not text and int(headers["Content-Length"]) > 1000


def test_pages_may_ask_for_nothing_outside(server: Server) -> None:
    for path, q in (("", {}), ("run", {"name": "images"}), ("nothing", {})):
        _, text, headers = ask(server, path, **q)
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'") and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert not re.search(r"https?://", re.sub(r"<style>.*?</style>", "", text, flags=re.S))


def test_all_runs_are_listed_with_bars_and_warnings(server: Server) -> None:
    text = inert(ask(server)[1]).text
    assert "6 of 6 runs" in text and "deeper/images2" in text
    for kind in KINDS:
        report = getattr(pages, kind)()
        for flag in report.flags:
            assert flag.level != "warning" or flag.id in text
    t = pages.images().table
    early = int((t["success"] & (t["winner"] == "clean")).sum())
    assert f"{int(t['success'].sum()) - early} rows broken" in text
    status, found, _ = ask(server, q="PICTURES linf")
    assert status == 200 and "2 of 6 runs" in found
    assert "0 of 6 runs" in ask(server, q="nobody")[1]


@pytest.mark.parametrize("kind", KINDS)
def test_filters_count_what_pandas_counts(server: Server, kind: str) -> None:
    t = getattr(pages, kind)().table
    played = t["skipped"] == ""
    early = t["success"] & (t["winner"] == "clean")
    masks = {
        "broken": played & t["success"] & ~early,
        "proven": played & (t["verdict"] == "proven"),
        "open": played & ~t["success"] & (t["verdict"] == "open"),
        "wrong before any attack": played & early,
        "left out": ~played,
    }
    if kind == "nature":
        low, high = t["probability_low"], t["probability_high"]
        masks = {"stable": low >= 0.99, "not stable": high < 0.99, "left out": ~played,
                 "undecided": (low < 0.99) & (high >= 0.99)}  # fmt: skip
    assert sum(int(m.sum()) for m in masks.values()) == len(t)
    for verdict, mask in masks.items():
        for y in ("", *sorted(t["y"].unique())[:2]):
            text = ask(server, "run", name=kind, verdict=verdict, y=y)[1]
            assert rows_shown(text) == int((mask & ((t["y"] == y) if y != "" else True)).sum())
    assert ask(server, "run", name=kind, verdict="robust")[0] == 404


def test_pages_go_over_all_rows_and_ids_are_found(server: Server) -> None:
    seen: list[str] = []
    for page in range(7):
        tags = inert(ask(server, "run", name="long", page=page)[1])
        links = [a["href"] for t, a in tags.found if t == "a" and str(a["href"]).startswith("row?")]
        seen += [re.search(r"at=(\d+)", str(link))[1] for link in links]  # type: ignore[index]
    assert [int(s) for s in seen] == list(range(700))
    assert ask(server, "run", name="long", page=99)[1] == ask(server, "run", name="long", page=6)[1]
    assert rows_shown(ask(server, "run", name="long", q="r65")[1]) == 11
    assert ask(server, "run", name="long", page="x")[0] == 404


def test_a_row_is_shown_whole(server: Server) -> None:
    report = pages.table()
    at = int(np.flatnonzero(report.table["success"])[0])
    text = inert(ask(server, "row", name="table", at=at)[1]).text
    row = report.table.iloc[at]
    for name in report.table.columns:
        assert name in text
    assert f"{row['distance']:.6g}" in text and str(row["winner"]) in text
    assert pages.HOSTILE in text  # a class's name
    for at in (-1, 10**6, "x", ""):
        assert ask(server, "row", name="table", at=at)[0] == 404


def test_two_runs_are_compared_with_the_guard(server: Server) -> None:
    status, text, _ = ask(server, "compare", run=["images", "deeper/images2"])
    assert status == 200 and "No ranking" in text and "higher robust accuracy" not in text
    wanted = pages.images(0).compare(pages.images(2)).sentence(("images", "deeper/images2"))
    assert wanted in html.unescape(text).replace("\N{NO-BREAK SPACE}", " ")
    status, text, _ = ask(server, "compare", run=["images", "table"])
    assert status == 404 and ("different data" in text or "no example in common" in text)
    assert ask(server, "compare", run=["images", "../images"])[0] == 404
    assert ask(server, "compare", run=["images", "images"])[0] == 404  # one run is no comparison


def test_several_runs_are_compared_row_by_row(runs: Path, tmp_path: Path) -> None:
    for k in range(3):
        pages.images(k).save(tmp_path / f"run{k}")
    names = [f"run{k}" for k in range(3)]
    reports = [pages.images(k) for k in range(3)]
    for server in serving(tmp_path):
        text = inert(ask(server, "compare", run=names)[1]).text
        for i in range(3):
            for j in range(i + 1, 3):
                said = reports[i].compare(reports[j]).sentence((names[i], names[j]))
                assert said in text and "No ranking" in said
        verdict = [
            ["wrong before any attack" if s and w == "clean" else v
             for v, s, w in zip(r.table["verdict"], r.table["success"], r.table["winner"],
                                strict=True)]
            for r in reports
        ]  # fmt: skip
        assert "70 rows that were played in all 3 runs." in text
        differ = [i for i, three in enumerate(zip(*verdict, strict=True)) if len(set(three)) > 1]
        page = inert(ask(server, "across", run=names, differ=1)[1])
        assert f"{len(differ):,} rows that were played in all 3" in page.text and differ
        for i in differ:
            cells = [str(i), *(v[i] for v in verdict)]
            assert all(c in page.text for c in cells)
        assert ask(server, "across", run=[f"x{k}" for k in range(9)])[0] == 404


def test_no_path_of_a_request_is_opened(server: Server, runs: Path) -> None:
    for name in ("..", "/etc", "../" + runs.name + "/images", "images/../images", "\0", "%2e%2e"):
        for path in ("run", "row", "compare", "across", "segments", "csv", "json"):
            status, text, _ = ask(server, path, name=name, run=[name, "images"], at=0, by="y")
            assert status == 404 and "root:" not in text
    for path in ("../etc/passwd", "images/report.html", quote("../x"), "report.html"):
        assert ask(server, path)[0] == 404


def test_a_hostile_folder_is_text(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    name = "<img src=x onerror=alert(1)>\"'"
    good = pages.images().save(runs / name)
    spec = json.loads((good / "spec.json").read_text())
    spec |= {"model": pages.HOSTILE, "data": pages.HOSTILE, "threat": pages.HOSTILE}
    spec["flags"] = [{"id": pages.HOSTILE, "text": pages.HOSTILE, "level": '"><script>'}]
    (good / "spec.json").write_text(json.dumps(spec))
    (good / "report.html").write_text(pages.HOSTILE)

    def other(kind: str) -> Path:
        shutil.copytree(good, runs / kind)
        return runs / kind

    (other("nested") / "spec.json").write_text("[" * 100_000)
    (other("list") / "spec.json").write_text("[]")
    (other("types") / "spec.json").write_text(json.dumps(spec | {"rows": {"a": 1}, "flags": 3}))
    (other("flags") / "spec.json").write_text(json.dumps(spec | {"flags": [["a"], 4]}))
    (other("bytes") / "records.parquet").write_bytes(b"PAR1" + os.urandom(500) + b"PAR1")
    changed = other("changed")
    records = pq.read_table(changed / "records.parquet")
    pq.write_table(records.slice(0, 10), changed / "records.parquet")
    strange = other("strange")
    table = records.set_column(records.column_names.index("y"), "y", pa.array([[1]] * 70))
    pq.write_table(table, strange / "records.parquet")
    (strange / "spec.json").write_text(json.dumps(spec | {"saved": {}}))
    linked = other("linked")
    (linked / "records.parquet").unlink()
    (linked / "records.parquet").symlink_to(good / "records.parquet")
    os.mkfifo(runs / "pipe")
    (runs / "piped").mkdir()
    os.mkfifo(runs / "piped" / "spec.json")
    (runs / "loop").symlink_to(runs)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "spec.json").write_text("{}")
    (runs / "out").symlink_to(tmp_path / "outside")
    before = {p: p.lstat().st_mtime_ns for p in runs.rglob("*")}
    for server in serving(runs):
        status, page, _ = ask(server)
        tags = inert(page)
        assert status == 200 and "9 of 9 runs" in tags.text and name in tags.text
        assert pages.HOSTILE in tags.text and "window.hacked=1</script>" not in page
        assert "not as it was saved" in tags.text and "loop" not in tags.text
        status, page, _ = ask(server, "run", name=name)
        assert status == 200 and pages.HOSTILE in inert(page).text
        assert ask(server, "row", name=name, at=0)[0] == 200
        broken = ("nested", "list", "types", "flags", "bytes", "changed", "strange", "linked")
        for kind in broken:
            status, page, _ = ask(server, "run", name=kind)
            inert(page)
            assert status == 404, kind
            assert ask(server, "compare", run=[kind, name])[0] == 404
            assert ask(server, "segments", name=kind, by="y")[0] == 404
    assert before == {p: p.lstat().st_mtime_ns for p in runs.rglob("*")}  # nothing was written


def test_a_run_that_is_saved_again_is_read_again(tmp_path: Path) -> None:
    pages.images().save(tmp_path / "a")
    for server in serving(tmp_path):
        assert rows_shown(ask(server, "run", name="a")[1]) == 70
        pages.nature().save(tmp_path / "a")
        assert rows_shown(ask(server, "run", name="a")[1]) == 50
        shutil.rmtree(tmp_path / "a")
        assert "0 of 0 runs" in ask(server)[1]


def test_many_rows_are_counted_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from durometer.report.view import rows

    pages.long().save(tmp_path / "long")
    wanted = [t for s in serving(tmp_path) for t in [ask(s)[1]]]
    monkeypatch.setattr(rows, "_FEW", 10)
    assert [t for s in serving(tmp_path) for t in [ask(s)[1]]] == wanted


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(du.DurometerError, match="no folder"):
        Server(tmp_path / "nothing")
    with pytest.raises(du.DurometerError, match="--port"):
        Server(tmp_path, 10**6)


def with_rows() -> du.Report:
    """A report with the table of its data, whose rows stand in another order."""
    report = pages.table()
    assert report.data is not None
    x = report.data.x.numpy()
    made = pd.DataFrame({"total": x[:, 1], "home town": np.where(x[:, 0] > 5, "Rome", None)})
    made.index = report.data.ids
    return replace(report, rows=made.sample(frac=1, random_state=0))


def test_words_filter_by_any_column(tmp_path: Path) -> None:
    report = with_rows()
    report.save(tmp_path / "table")
    t, rows = report.table, report.rows
    assert rows is not None
    total = rows["total"].reindex(t["id"]).to_numpy()
    town = rows["home town"].reindex(t["id"]).to_numpy()
    for server in serving(tmp_path):
        for word, mask in {
            "total<8": total < 8, "total>8": total > 8, "total=8.0": total == 8,
            "home-town=rome": town == "Rome",
            "distance<0.2": t["distance"] < 0.2, "winner:MOE": t["winner"].str.contains("MOE"),
            "total<10 verdict=broken": (total < 10) & (t["verdict"] == "broken"),
        }.items():  # fmt: skip
            assert rows_shown(ask(server, "run", name="table", q=word)[1]) == int(mask.sum()), word
        assert ask(server, "run", name="table", q="total<x")[0] == 404
        page = inert(ask(server, "run", name="table", sort="distance", down="1")[1])
        at = [int(re.search(r"at=(\d+)", str(a["href"]))[1])  # type: ignore[index]
              for n, a in page.found if n == "a" and str(a["href"]).startswith("row?")]  # fmt: skip
        far = t["distance"].to_numpy()[at]
        known = far[np.isfinite(far)]
        assert (np.diff(known) <= 0).all() and np.isnan(far[len(known) :]).all()
        status, text, headers = ask(server, "csv", name="table", q="total<8")
        assert status == 200 and "attachment" in headers["Content-Disposition"]
        assert len(pd.read_csv(io.StringIO(text))) == int((total < 8).sum())
        assert len(json.loads(ask(server, "json", name="table")[1])) == len(t)


def test_segments_are_those_of_pandas_with_intervals(tmp_path: Path) -> None:
    report, t = with_rows(), pages.table().table
    report.save(tmp_path / "table")
    pages.nature().save(tmp_path / "nature")
    assert report.rows is not None
    total = report.rows["total"].reindex(t["id"]).to_numpy()
    for server in serving(tmp_path):
        status, page, _ = ask(server, "segments", name="table", by="total")
        text = inert(page).text
        assert status == 200 and "hold at once" in text and "not broken" in text
        for value in np.unique(total):
            share = float((~t["success"])[total == value].mean())
            cells = f"<td>{value:.1f}</td><td class=n>{percent(share)}</td>"
            assert cells in page.replace('"', ""), value
        missing = report.rows["home town"].reindex(t["id"]).isna().to_numpy()
        text = inert(ask(server, "segments", name="table", by="home town")[1]).text
        share = float((~t["success"])[missing].mean())
        assert f"missing{percent(share)}" in text and "Rome" in text
        status, page, _ = ask(server, "segments", name="nature", by="y")
        assert status == 200 and "Probability that the answer stays" in inert(page).text
        assert ask(server, "segments", name="table", by="nothing")[0] == 404


def test_a_running_run_is_shown_as_it_goes(tmp_path: Path) -> None:
    net, data = du.testing.toy()
    folder = tmp_path / "night"
    seen: list[tuple[str, str, Any]] = []

    class Watched(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if (folder / "chunks" / "1.npz").exists() and not seen:
                for server in serving(tmp_path):
                    run = ask(server, "run", name="night")
                    seen.append((ask(server)[1], run[1], run[2]))
            return self.net(x)

    run = du.Run(folder)
    du.evaluate(Watched(), data, space=du.Linf(0.1), attack=du.PGD(3), batch=4, run=run).save(
        folder
    )
    listed, page, headers = seen[0]
    assert headers["Refresh"] == "5" and "not finished: 2 of 4 chunks" in inert(listed).text
    tags = inert(page)
    assert "NOT FINISHED" in tags.text and ("progress", "2") in [
        (t, a.get("value")) for t, a in tags.found
    ]
    t = du.Report.load(folder).table[:8]  # rows are played in the order of the data
    early = int((t["success"] & (t["winner"] == "clean")).sum())
    assert f"{int(t['success'].sum()) - early} rows broken" in tags.text
    for server in serving(tmp_path):
        status, page, headers = ask(server, "run", name="night")
        assert status == 200 and "Refresh" not in headers and "NOT FINISHED" not in page


def test_tags_come_from_the_run_and_from_people(tmp_path: Path) -> None:
    report = pages.images()
    told = replace(report.spec, evidence={"tags": "nightly, <b>bold</b>"})
    replace(report, spec=told).save(tmp_path / "a")
    pages.nature().save(tmp_path / "b")
    for server in serving(tmp_path):
        text = inert(ask(server)[1]).text
        assert "nightly" in text and "<b>bold</b>" in text
        assert "1 of 2 runs" in ask(server, tag="nightly")[1]
        assert "1 of 2 runs" in ask(server, tag="Nature")[1]
        assert "0 of 2 runs" in ask(server, tag="night")[1]


def test_a_static_site_holds_all_runs_and_nothing_foreign(runs: Path, tmp_path: Path) -> None:
    inside = tmp_path / "runs"
    shutil.copytree(runs / "images", inside / pages.HOSTILE.replace("/", "|"))
    shutil.copytree(runs / "nature", inside / "nature")
    (inside / "nature" / "report.html").write_text("<script>window.hacked=2</script>")
    (inside / "nature" / "evil.html").write_text("<script>window.hacked=3</script>")
    shutil.copytree(runs / "table", inside / "linked")
    (inside / "linked" / "examples.npz").unlink()
    (inside / "linked" / "examples.npz").symlink_to(runs / "table" / "examples.npz")
    out = tmp_path / "site"
    count, left_out = export(inside, out)
    assert count == 2 and len(left_out) == 1 and "link" in left_out[0]
    page = (out / "index.html").read_text()
    tags = inert(page)
    links = [str(a["href"]) for t, a in tags.found if t == "a" and "report" in str(a["href"])]
    assert len(links) == 2 and "linked" in tags.text
    for link in links:
        there = (out / link).read_text()
        inert(there)
        for name in ("records.csv", "records.parquet", "evidence.html", "spec.json"):
            assert (out / link).with_name(name).is_file()
    for path in out.rglob("*.html"):
        assert "window.hacked=2" not in path.read_text() and path.name != "evil.html"
    with pytest.raises(du.DurometerError, match="empty folder"):
        export(inside, out)
    with pytest.raises(du.DurometerError, match="choose another"):
        export(inside, inside / "site")
