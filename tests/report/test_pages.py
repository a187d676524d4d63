"""Every kind of page says what it must, and stays inert."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

import durometer as du

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    files = pages.write_all(tmp_path_factory.mktemp("pages"))
    return {name: path.read_text() for name, path in files.items()}


BESIDE = (
    "records.parquet",
    "evidence.html",
    "evidence.json",
    "spec.json",
    "config.toml",
    "job.toml",
)


def test_every_page_is_inert_and_small(made: dict[str, str]) -> None:
    for name, page in made.items():
        reader = Reader(page)
        assert [t for t, _ in reader.tags].count("script") == 1, name
        assert len(page) < 1_000_000
        for tag, attrs in reader.tags:
            assert not any(a.startswith("on") or a == "style" for a in attrs), (name, tag, attrs)
            for attribute in ("src", "href"):
                value = attrs.get(attribute) or "#"
                local = (
                    "//" not in value
                    and ":" not in value
                    and (value.endswith("/report.html") or value in BESIDE)
                )
                assert value.startswith(("data:image/png", "#")) or local, (name, value)
        ids = [a["id"] for _, a in reader.tags if a.get("id")]
        assert len(ids) == len(set(ids)), name
        headings = [t for t, _ in reader.tags if re.fullmatch("h[1-6]", t)]
        assert headings[0] == "h1" and headings.count("h1") == 1
        assert all(a.get("alt") for t, a in reader.tags if t == "img")
        assert all(a.get("aria-label") for t, a in reader.tags if t == "svg")


def test_a_table_names_the_relation_that_binds(made: dict[str, str]) -> None:
    e = pages.table().examples
    assert e is not None
    stopped = [b for b in e.bound if any("opened <= total" in rules for rules in b.values())]
    for k, b in enumerate(e.bound):
        opened, total = e.adversarial[k][:2]
        grew = opened > e.clean[k][0]
        assert ("opened <= total" in b.get(0, [])) == bool(grew and opened == total)
    assert stopped
    assert "held by opened <= total" in made["table"].replace("&lt;", "<")
    assert "1 relation between features must hold" in Reader(made["table"]).text


def test_changes_are_measured_by_the_range_of_the_data() -> None:
    from durometer.core.records import Records
    from durometer.report.examples import gather

    data = du.Dataset(np.array([[0.0, 10.0], [4.0, 10.0], [2.0, 30.0]]), [0, 0, 0])
    adversarial = np.array([[1.0, 10.0], [1.0, 20.0], [2.0, 30.0]])
    won = np.array([True, True, False])
    records = Records.of(3, adversarial, id=data.ids, success=won, winner="X", distance=[2, 1, 0])
    e = gather(data, records)
    assert e is not None
    assert e.places.tolist() == [1, 0] and e.changed.tolist() == [2, 1]
    assert e.shift.tolist() == [(1 / 4 + 3 / 4) / 2, (0 + 10 / 20) / 2]


def test_binding_by_hand() -> None:
    from durometer.report.examples import binding

    schema = pages.table().examples and _schema()
    clean = np.array([[2.0, 6.0, 0.5], [2.0, 6.0, 0.5], [2.0, 6.0, 0.5]])
    moved = np.array([[6.0, 6.0, 0.5], [5.0, 6.0, 1.0], [2.0, 6.0, 0.5]])
    found = binding(schema, clean, moved)
    assert found == [{0: ["opened <= total"]}, {2: ["share <= 1"]}, {}]


def test_binding_is_what_pushing_each_feature_alone_says() -> None:
    from durometer.report.examples import binding

    names = "abcdef"
    features = [du.Feature(n, "integer" if n in "ab" else "real", 0, 4) for n in names]
    rules = ["a + b <= 5", "b <= c", "c + d + e <= 7", "if e > 3 then f > 1", "a <= a.original + 2"]
    schema = du.Schema(features, rules)
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 3, (60, 6)).astype(float)
    moved = np.minimum(clean + rng.integers(-1, 3, clean.shape), 4.0).clip(0)
    x0, x = torch.tensor(clean), torch.tensor(moved)
    held, expected = schema.program.holds(x, x0), [{} for _ in clean]
    for i in range(60):
        for j in np.flatnonzero(moved[i] != clean[i]):
            step = (moved - clean)[i, j]
            one = x[i : i + 1].clone()
            one[0, j] += np.sign(step) if j < 2 else 0.01 * step
            now = schema.program.holds(one, x0[i : i + 1])[0]
            said = [str(schema.relations[r]) for r in range(5) if held[i, r] and not now[r]]
            if not 0 <= float(one[0, j]) <= 4:
                said.append(f"{names[j]} {'<= 4' if step > 0 else '>= 0'}")
            if said:
                expected[i][int(j)] = said
    assert sum(map(len, expected)) > 40, "where nothing binds, nothing is compared"
    assert binding(schema, clean, moved) == expected


def _schema() -> du.Schema:
    from durometer.tables.feature import Feature

    return du.Schema(
        [
            Feature("opened", "integer", 0, 20),
            Feature("total", "integer", 0, 20),
            Feature("share", "real", 0, 1),
        ],
        ["opened <= total"],
    )


def test_what_each_page_says(made: dict[str, str]) -> None:
    text = {name: Reader(page).text for name, page in made.items()}
    assert "Which attack won" in text["images"] and "difference (red +" in text["images"]
    assert "What it cost" in text["images"]
    assert "Who passes for whom" in text["groups"]
    assert "Attempts until the quota is filled" in text["quota"]
    assert "bands of attackers" in text["quota"]
    assert "The least certain records" in text["nature"] and "Nobody attacks" in text["nature"]
    assert "Run by run" in text["moving"]
    rungs = ("static", "transfer", "GMSA", "public randomness")
    assert all(rung in text["ladder"] for rung in rungs)
    assert "Robust accuracy against eps" in text["sweep"]
    assert "McNemar" in text["compare"] and "Wilcoxon" in text["compare"]


def test_the_map_of_a_quota_is_the_records(made: dict[str, str]) -> None:
    report = pages.quota()
    t = report.table
    rows = t[(t["y"] == 0) & (t["target"] == 2) & (t["skipped"] == "")]
    share = 100 * rows["success"].mean()
    assert f"stop taken for go: {share:.0f} %" in made["quota"]


def test_the_price_curve_ends_at_robust_accuracy(made: dict[str, str]) -> None:
    report = pages.images()
    e = report.metric("robust")
    last = int(report.table["forwards"].max())
    assert f"robust, forward passes per row {last:g}: {e}" in made["images"]


def test_a_sweep_starts_at_clean_accuracy() -> None:
    lines = pages.sweep().lines("space.eps")
    (line,) = lines.values()
    assert [x for x, _ in line] == [0.0, 0.03, 0.04, 0.05]
    assert line[0][1] == pages.images(0).metric("clean")
    assert line[1][1] == pages.images(0).metric("robust")


def test_comparison_is_paired() -> None:
    from durometer.report.page.comparison import paired

    tests = {t[0]: t for t in paired(pages.images(0).compare(pages.images(2)))}
    _, a, b, d, p, test = tests["robust accuracy, at most"]
    assert d.value == pytest.approx(a.value - b.value)
    assert test == "McNemar" and 0 <= p < 0.5
    assert tests["clean accuracy"][4] == 1.0


def test_ladder_is_saved_with_its_rungs(tmp_path: Path) -> None:
    pages.moving().save(tmp_path)
    page = Reader((tmp_path / "report.html").read_text())
    links = [a["href"] for t, a in page.tags if t == "a" and "report.html" in (a["href"] or "")]
    assert len(links) == len(pages.moving().reports)
    assert all((tmp_path / str(link)).exists() for link in links)
