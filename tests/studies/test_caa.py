"""The CAA study on its smallest size: it runs, and what is done is not done again."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

STUDIES = Path(__file__).parents[2] / "studies"


def load(name):
    spec = importlib.util.spec_from_file_location(name, STUDIES / "caa" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_a_table_and_its_figure_from_cells_that_are_kept(tmp_path):
    caa = load("run")
    caa.main(["--tiny", "--only", "table8", "--out", str(tmp_path)])
    text, page = ((tmp_path / f"caa.{kind}").read_text() for kind in ("md", "html"))
    for word in ("Table 8", "TabNet", "(10.8)", "(16.1)"):
        assert word in text
        assert word in page
    assert "<svg" in page
    assert (tmp_path / "figure5.svg").read_text().startswith("<svg xmlns")
    cells = {f: f.stat().st_mtime_ns for f in (tmp_path / "cells").iterdir()}
    assert len(cells) == 5 * 4
    caa.main(["--tiny", "--show", "--only", "table8", "--out", str(tmp_path)])
    assert (tmp_path / "caa.md").read_text() == text
    lost = sorted(cells)[0]
    lost.unlink()
    caa.main(["--tiny", "--only", "table8", "--out", str(tmp_path)])
    again = {f: f.stat().st_mtime_ns for f in (tmp_path / "cells").iterdir()}
    assert {f for f in cells if cells[f] != again[f]} == {lost}


def test_parts_of_a_venn_diagram_and_coverage():
    cells = load("cells")

    def outcome(robust):
        bits = np.array(robust, bool)
        return cells.Outcome(
            [1, 2, 3, 4], np.array([1, 1, 1, 0], bool), bits, bits, 0, 0.0, 0.0, ""
        )

    a, b = outcome([0, 0, 1, 0]), outcome([0, 1, 1, 0])  # row 4 was wrong from the start
    parts = cells.shared({"A": [a], "B": [b]})
    assert parts == {"A only": 1.0, "B only": 0.0, "A and B": 1.0}
    table = cells.coverage({"A": [[a]], "B": [[b]]})
    assert table.tolist() == [[1.0, 0.5], [1.0, 1.0]]
    assert cells.rate([a]).value == 0.25
    assert cells.rate([None]) is None
    assert cells.gap([b], [a]) >= 0 > cells.gap([None], [a])
