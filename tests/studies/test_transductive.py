"""The transductive study on toy sizes: it runs, and what is done is not done again."""

import importlib
import json
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDIES / "transductive"))
    for name in ("run", "games", "rejection"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("run")


def test_tables_and_figures_from_files_that_are_kept(study, tmp_path):
    how = ["tadv", "urejectron", "--quick", "--seeds", "0", "--out", str(tmp_path)]
    study.main(how)
    text = (tmp_path / "transductive.md").read_text()
    for word in ("| GMSA-AVG | ", "| public randomness | ", "error among accepted", "| 0.77 |"):
        assert word in text
    for name in ("pgd", "cw", "pgd-brightened", "pgd-brightened-equalised"):
        assert (tmp_path / f"urejectron-{name}.svg").read_text().startswith("<svg xmlns")
    files = {f: f.stat().st_mtime_ns for f in tmp_path.glob("*.json")}
    assert len(files) == 6 + 6
    lost, other = tmp_path / "tadv-0-fpa.json", tmp_path / "urejectron-0-cw.json"
    lost.unlink()
    other.write_text(json.dumps(json.loads(other.read_text()) | {"settings": "of another day"}))
    study.main(how)
    again = {f: f.stat().st_mtime_ns for f in tmp_path.glob("*.json")}
    assert {f for f in files if files[f] != again[f]} == {lost, other}
    assert (tmp_path / "transductive.md").read_text().splitlines()[0] == text.splitlines()[0]


def test_the_quick_size_covers_every_study(study):
    for name, lines in study.STUDIES.items():
        quick, full = lines(0, True), lines(0, False)
        assert list(quick) == list(full), name
