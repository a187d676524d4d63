"""The viewer in a real browser: list, filter, drill-down, segments, comparison, a live run, a site.

It needs chromium and Playwright, see test_browser.py.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from durometer.report.view.server import Server
from durometer.report.view.site import export

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)

pytestmark = pytest.mark.heavy
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert path, "no chromium: apt-get install chromium, or set CHROMIUM to a browser"
    with sync_playwright() as play:
        made = play.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for k in range(3):
        pages.images(k).save(folder / f"images{k}")
    pages.table().save(folder / pages.HOSTILE.replace("/", "|"))
    pages.long().save(folder / "long")
    waiting = pages.nature().save(folder / "waiting")
    (waiting / "records.parquet").unlink()
    return folder


@pytest.fixture
def viewer(runs: Path) -> Iterator[Server]:
    with Server(runs) as made:
        beat = {"poll_interval": 0.01}
        thread = threading.Thread(target=made.serve_forever, kwargs=beat, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()


@pytest.fixture
def page(browser: Any, viewer: Server) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    made = context.new_page()
    outside: list[str] = []
    faults: list[str] = []
    here = f"http://127.0.0.1:{viewer.server_port}/"
    made.on("request", lambda r: None if r.url.startswith(here) else outside.append(r.url))
    made.on("pageerror", lambda e: faults.append(str(e)))
    made.goto(viewer.address)
    yield made
    assert outside == [] and faults == []
    assert made.evaluate("window.hacked") is None
    context.close()


def test_search_filter_and_drill_down(page: Any) -> None:
    assert page.locator("h1").inner_text().startswith("6 of 6 runs")
    page.fill("input[name=q]", "images1")
    page.click("form button >> text=search")
    page.click("a >> text=images1")
    report = pages.images(1)
    early = report.table["success"] & (report.table["winner"] == "clean")
    page.select_option("select[name=verdict]", "broken")
    page.click("form button >> text=filter")
    broken = int((report.table["success"] & ~early).sum())
    assert f"{broken} of 70 rows" in page.locator("#rows").inner_text()
    page.locator("#rows td a").first.click()
    assert "distance" in page.locator("#record").inner_text()


def test_segments_and_comparison(page: Any) -> None:
    for k in range(3):
        page.check(f"input[value=images{k}]")
    page.click("button >> text=compare the marked runs")
    assert "No ranking" in page.locator("#pairs").inner_text()
    page.click("a >> text=only rows that differ")
    assert "differ in their verdict" in page.locator("#rows").inner_text()
    page.click("#bars a >> text=images0")
    page.select_option("select[name=by]", "y")
    page.click("form button >> text=show")
    assert page.locator("#segments svg circle").count() == 3


def test_a_run_that_waits_and_a_hostile_name(page: Any) -> None:
    assert "not finished" in page.locator("table").inner_text()
    assert pages.HOSTILE.replace("/", "|") in page.locator("table").inner_text()
    page.click("a >> text=waiting")
    assert page.locator("h1").inner_text().startswith("NOT FINISHED")


def test_a_phone_is_not_cut(browser: Any, viewer: Server) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
        page = context.new_page()
        for path in ("", "run?name=long", "row?name=long&at=0", "segments?name=long&by=y"):
            page.goto(viewer.address + path)
            assert not page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"), path
        context.close()


def test_a_site_opens_from_files(browser: Any, runs: Path, tmp_path: Path) -> None:
    export(runs, tmp_path / "site")
    page = browser.new_page()
    page.goto((tmp_path / "site" / "index.html").as_uri())
    page.fill("input[data-filter=runs]", "long")
    assert page.locator("#runs tbody tr").count() == 1
    page.click("#runs a")
    assert page.locator("#records").is_visible()
    page.close()
