"""The pages in a real browser: Debian's chromium, driven by Playwright.

They load without errors and without asking for anything, plots are drawn, filters, sorting, legends
and tooltips work, and a hostile name stays text. With DUROMETER_PICTURES=FOLDER screenshots are
kept.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)

pytestmark = pytest.mark.heavy
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
KINDS = (
    "table", "images", "groups", "quota", "nature", "moving", "long", "ladder", "sweep", "compare",
)  # fmt: skip
DESKTOP = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 1}


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
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    told = {field: f"{field} {pages.HOSTILE}" for field in ("purpose", "model", "owner")}
    evidence = pages.with_evidence(folder, told)
    found = {f"evidence-{k}": where / "evidence.html" for k, (_, where) in evidence.items()}
    return pages.write_all(folder) | found


EVIDENCE = ("images", "table", "nature", "moving", "groups", "quota")


@pytest.mark.parametrize("kind", EVIDENCE)
def test_evidence_opens_prints_and_asks_for_nothing(opened: Any, kind: str) -> None:
    for look in (DESKTOP, PHONE, DESKTOP | {"color_scheme": "dark"}):
        page = opened(f"evidence-{kind}", **look)
        assert page.locator("section").count() == 8
        assert page.evaluate("window.hacked") is None
        assert pages.HOSTILE in page.locator("body").inner_text()
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"), look
        page.locator("nav a").first.click()  # where two sections stand side by side too
        read = page.locator("nav a[aria-current=true]")
        read.wait_for(state="attached", timeout=5000)
        assert read.all_text_contents() == ["1 Scope"], look
    pdf = page.pdf(format="A4")
    assert pdf[:5] == b"%PDF-" and len(pdf) > 5_000


@pytest.fixture
def opened(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    """Open a page by its kind; at the end, nothing may have gone wrong or out."""
    wrong: list[str] = []
    contexts = []

    def open_(kind: str, **look: Any) -> Any:
        context = browser.new_context(**({"viewport": {"width": 1100, "height": 800}} | look))
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda e: wrong.append(str(e)))
        own = files[kind].as_uri()

        def asked(request: Any) -> None:
            if not request.url.startswith(("data:", own)):
                wrong.append(request.url)

        page.on("request", asked)
        page.goto(own)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
def test_loads_and_draws(opened: Any, kind: str) -> None:
    page = opened(kind)
    assert page.evaluate("window.hacked") is None
    charts = page.locator("svg")
    assert charts.count() >= 1
    for k in range(charts.count()):
        box = charts.nth(k).bounding_box()
        assert box["width"] > 200 and box["height"] > 20
        marks = charts.nth(k).locator("rect, circle, polyline")
        assert marks.count() >= 1
    pictures = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
    assert page.evaluate(pictures)
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth + 1")


@pytest.mark.parametrize("kind", ["table", "images", "sweep", "compare"])
def test_hostile_names_are_shown_as_text(opened: Any, kind: str) -> None:
    page = opened(kind)
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
    assert pages.HOSTILE in page.locator("body").inner_text()


def test_even_unescaped_script_would_not_run(browser: Any, files: dict[str, Path]) -> None:
    """The policy is a second wall: put script into the page as if escaping had failed."""
    page = browser.new_page()
    broken = files["table"].parent / "broken.html"
    broken.write_text(files["table"].read_text().replace("<main>", "<main>" + pages.HOSTILE, 1))
    page.goto(broken.as_uri())
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    page.close()


def test_filter_sort_and_choice(opened: Any) -> None:
    page = opened("images")
    rows = page.locator("#rows tbody tr:visible")
    report = pages.images()
    assert rows.count() == len(report.table) == 70
    page.select_option("select[data-choose=rows]", "broken")
    t = report.table
    assert rows.count() == int((t["success"] & (t["winner"] != "clean")).sum())
    page.fill("input[data-filter=rows]", "dog")
    assert all("dog" in text for text in rows.all_inner_texts())
    assert page.locator("#rows-count").inner_text() == f"{rows.count()} of 70 rows"
    page.fill("input[data-filter=rows]", "")
    page.select_option("select[data-choose=rows]", "")
    page.click("#rows th button >> text=distance")
    shown = page.locator("#rows tbody tr td:nth-child(7)").all_inner_texts()
    values = [float(v) for v in shown if v != "–"]
    assert len(values) > 20 and values == sorted(values, reverse=True)
    page.click("#rows th button >> text=distance")
    shown = page.locator("#rows tbody tr td:nth-child(7)").all_inner_texts()
    values = [float(v) for v in shown if v != "–"]
    assert values == sorted(values)


def test_the_search_finds_rows_that_are_not_drawn(opened: Any) -> None:
    page, table = opened("long"), pages.long().table
    rows, count = page.locator("#rows tbody tr"), page.locator("#rows-count")
    assert rows.count() == 200
    assert count.inner_text() == "700 of 700 rows, the first 200 shown"
    page.fill("input[data-filter=rows]", "id=r650")
    assert rows.count() == 1 and rows.first.locator("td").first.inner_text() == "r650"
    near = int((table["distance"] < 0.02).sum())
    page.fill("input[data-filter=rows]", "distance<0.02")
    assert near > 0 and count.inner_text().startswith(f"{near} of 700 rows")
    page.fill("input[data-filter=rows]", "outcome:wrong by:clean")
    free = int((table["success"] & (table["winner"] == "clean")).sum())
    assert rows.count() == free == 9
    page.fill("input[data-filter=rows]", "")
    page.click("#rows th button >> text=margin")
    first = rows.first.locator("td").nth(7).inner_text()
    assert float(first) == pytest.approx(table["margin"].max(), rel=1e-3)
    assert page.evaluate("window.hacked") is None and page.locator("img[src=x]").count() == 0


def test_a_row_opens_with_its_changes_and_is_found_by_them(opened: Any) -> None:
    page, t = opened("table"), pages.table().table
    e = pages.table().examples
    rows = page.locator("#rows tbody > tr")
    page.select_option("select[data-choose=rows][data-how=has]", "total")
    at = e.names.index("total")
    assert rows.count() == int((e.clean[:, at] != e.adversarial[:, at]).sum()) > 0
    page.select_option("select[data-choose=rows][data-how=has]", "")
    first = t.iloc[e.places[0]]
    page.fill("input[data-filter=rows]", f"id={first['id']}")
    page.locator("#rows button.whole").first.click()
    opened_row = page.locator("#rows tr.whole")
    moved = e.moved(0)
    assert opened_row.locator("ins").count() == len(moved)
    assert (
        opened_row.locator("del")
        .first.inner_text()
        .startswith(e.cell(moved[0], e.clean[0][moved[0]]))
    )
    page.fill("input[data-filter=rows]", "seconds>0")  # a field of the whole record
    assert rows.count() == int((t["seconds"].map("{:.6g}".format).astype(float) > 0).sum())
    shown = opened("images")
    shown.select_option("select[data-choose=rows]", "broken")
    shown.locator("#rows button.whole").first.click()
    assert shown.locator("#rows tr.whole img").count() == 3
    pictures = "[...document.images].every(i => i.complete && i.naturalWidth > 0)"
    assert shown.evaluate(pictures)


def test_a_desktop_is_used_and_a_phone_is_not_cut(opened: Any) -> None:
    """Figures stand beside their charts at 1440 pixels and above them at 390."""
    for kind in ("table", "images", "groups", "nature", "moving", "long"):
        page = opened(kind, **DESKTOP)
        main = page.locator("main").bounding_box()
        assert main["width"] >= 0.9 * 1440
        table, chart = (page.locator(f"#figures {at}").bounding_box() for at in ("table", "svg"))
        assert chart["x"] > table["x"] + table["width"] and chart["y"] < table["y"] + 60, kind
        small = opened(kind, **PHONE)
        table, chart = (small.locator(f"#figures {at}").bounding_box() for at in ("table", "svg"))
        assert chart["y"] >= table["y"] + table["height"], kind


@pytest.mark.parametrize("look", [DESKTOP, PHONE])
def test_the_bar_and_the_three_pictures_stand_at_the_top(opened: Any, look: Any) -> None:
    for kind in ("table", "images", "groups", "quota", "nature", "moving", "long"):
        page = opened(kind, **look)
        whole = page.locator("svg.verdicts").bounding_box()
        parts = page.locator("svg.verdicts rect").all()
        widths = [part.bounding_box()["width"] for part in parts]
        assert sum(widths) == pytest.approx(whole["width"], abs=1.0), kind
        assert page.locator(".threats figure").count() == 3
        for picture in page.locator(".threats svg").all():
            box = picture.bounding_box()
            words = picture.locator("text").all()
            for word in (w.bounding_box() for w in words):  # no word is cut off
                assert word["x"] >= box["x"] - 2, kind
                assert word["x"] + word["width"] <= box["x"] + box["width"] + 2, kind


def test_no_two_ticks_of_an_axis_overlap(opened: Any) -> None:
    for kind in ("table", "images", "quota", "nature", "long", "sweep"):
        page = opened(kind, **DESKTOP)
        wrong = page.evaluate(OVERLAPS)
        assert wrong == [], (kind, wrong)


OVERLAPS = """() => {
  const wrong = [];
  for (const svg of document.querySelectorAll("section svg")) {
    const lines = {};
    for (const t of svg.querySelectorAll("text.tick[text-anchor=middle]"))
      (lines[t.getAttribute("y")] ??= []).push(t);
    for (const row of Object.values(lines)) {
      const boxes = row.map((t) => t.getBoundingClientRect()).sort((a, b) => a.x - b.x);
      for (let k = 1; k < boxes.length; k += 1)
        if (boxes[k].x < boxes[k - 1].right) wrong.push(svg.getAttribute("aria-label"));
    }
  }
  return wrong;
}"""


def test_sections_legends_and_tooltips(opened: Any) -> None:
    page = opened("quota")
    for link in page.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        top = page.locator(f"{target} h2").bounding_box()["y"]
        assert -1 <= top < 800, target
    line = page.locator("#harm g[data-series='0']")
    assert line.is_visible()
    page.locator("#harm g.legend[data-for='0']").click()
    assert not line.is_visible()
    page.locator("#harm g.legend[data-for='0']").press("Enter")
    assert line.is_visible()
    dot = page.locator("#figures svg circle").first
    dot.hover()
    assert page.locator("#tip").is_visible()
    assert page.locator("#tip").inner_text() == dot.locator("title").text_content()


def test_phone_dark_and_print(opened: Any) -> None:
    for kind in KINDS:
        page = opened(kind, **PHONE)
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"), kind
    dark = opened("table", color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = opened("table", color_scheme="light")
    assert dark.evaluate(colour) != light.evaluate(colour) == "rgb(255, 255, 255)"
    light.emulate_media(media="print")
    assert not light.locator("nav").is_visible() and light.locator("#figures").is_visible()
    paper = opened("long")
    paper.emulate_media(media="print")
    assert paper.locator("#rows tbody tr:visible").count() == 40
    assert "first 40 rows" in paper.locator("#records .printed").inner_text()
    assert paper.pdf(format="A4").count(b"/Type /Page\n") <= 8


def test_on_paper_nothing_is_cut_off(opened: Any) -> None:
    for kind in (*KINDS, "evidence-quota", "evidence-nature"):  # nothing is cut off on A4
        paper = opened(kind, viewport={"width": 718, "height": 1016})
        paper.emulate_media(media="print")
        wide = "[document.documentElement, ...document.querySelectorAll('.scroll, .chart')]"
        cut = paper.evaluate(f"{wide}.filter((e) => e.scrollWidth > e.clientWidth + 1).length")
        assert cut == 0, kind


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["quota", "long", "nature"])
def test_text_can_be_read(opened: Any, kind: str, scheme: str) -> None:
    """Contrast of text to its background, WCAG AA: 4.5 to 1."""
    page = opened(kind, color_scheme=scheme)
    ratios = page.evaluate(CONTRAST)
    assert min(ratios.values()) >= 4.5, ratios


CONTRAST = """() => {
  const number = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => number(c).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = (e) => {
    for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (number(c).length === 3 || number(c)[3] > 0) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const found = {};
  for (const e of document.querySelectorAll("h1, h2, p, td, th, a, .soft, svg text")) {
    if (e.closest("svg") && /cell/.test(e.getAttribute("class"))) continue;
    const style = getComputedStyle(e);
    const chart = e.closest("svg");
    const a = light(chart ? style.fill : style.color);
    const b = light(paper(chart ? chart.parentElement : e));
    const key = e.tagName + "." + (e.getAttribute("class") || "");
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found[key] = Math.min(found[key] ?? 99, ratio);
  }
  return found;
}"""


def test_pictures_for_the_docs(opened: Any) -> None:
    folder = os.environ.get("DUROMETER_PICTURES")
    shot = opened("images").screenshot()
    assert shot[:4] == b"\x89PNG"
    if folder is None:
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    looks = {"desktop": DESKTOP, "phone": PHONE, "dark": DESKTOP | {"color_scheme": "dark"}}
    for kind in (*KINDS, *(f"evidence-{kind}" for kind in EVIDENCE)):
        for look, options in looks.items():
            page = opened(kind, **options)
            page.screenshot(path=Path(folder) / f"{kind}-{look}.png", full_page=True)
