"""What a notebook shows: figures with intervals, nothing that runs, and a bar that moves."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import durometer as du
from durometer.core import notebook_html
from durometer.run.progress import Progress

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)


class Reader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def nouns() -> dict[str, Any]:
    report = pages.table()
    assert report.data is not None
    return {
        "report": report,
        "noise": pages.nature(),
        "comparison": pages.images(0).compare(pages.images(2)),
        "dataset": report.data,
        "schema": report.data.schema,
    }


@pytest.mark.parametrize("kind", ["report", "noise", "comparison", "dataset", "schema"])
def test_what_a_notebook_shows_is_inert_and_whole(kind: str) -> None:
    reader = Reader(nouns()[kind]._repr_html_())
    assert reader.open == [] and not {"script", "img"} & set(reader.tags)
    assert "table" in reader.tags
    if kind in ("report", "dataset", "schema"):
        assert pages.HOSTILE in reader.text


def test_a_report_shows_its_figures_with_intervals_and_its_bar() -> None:
    report = pages.images()
    text = Reader(report._repr_html_()).text
    e = report.metric("robust")
    assert f"{e.low:.3f} - {e.high:.3f}" in text and "rows broken" in text
    assert len(report._repr_html_()) < 20_000  # not the whole page


def test_a_comparison_shows_the_difference_with_its_interval() -> None:
    both = pages.images(0).compare(pages.images(2))
    text = Reader(both._repr_html_()).text
    assert f"{both.robust.value:+.3f}" in text and "McNemar" in text


def test_a_schema_shows_its_features_and_relations() -> None:
    text = Reader(nouns()["schema"]._repr_html_()).text
    assert "opened <= total" in text and "integer" in text


def test_a_data_set_without_names_shows_its_classes() -> None:
    data = du.Dataset(np.zeros((3, 2), np.float32), [0, 1, 1])
    assert "<td>1</td><td>2</td>" in data._repr_html_()


@pytest.fixture
def jupyter(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """A kernel's display, as IPython documents it: display(..., display_id=True).update(...)."""
    said: list[tuple[str, str]] = []

    class HTML:
        def __init__(self, data: str) -> None:
            self.data = data

    class Handle:
        def update(self, shown: HTML) -> None:
            said.append(("update", shown.data))

    def display(shown: HTML, display_id: bool = False) -> Handle:
        assert display_id
        said.append(("display", shown.data))
        return Handle()

    kernel = type("ZMQInteractiveShell", (), {})()
    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: kernel  # type: ignore[attr-defined]
    shown.HTML, shown.display = HTML, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return said


def test_progress_stands_below_the_cell_and_is_replaced_in_place(
    jupyter: list[tuple[str, str]],
) -> None:
    net, data = du.testing.toy()
    assert notebook_html.here()
    du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(3), batch=4)
    assert [kind for kind, _ in jupyter].count("display") == 1
    last = jupyter[-1]
    assert last[0] == "update" and 'value="16" max="16"' in last[1] and "16/16" in last[1]


def test_progress_is_quiet_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not notebook_html.here() and not Progress(3).show
