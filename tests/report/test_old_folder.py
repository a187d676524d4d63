"""A folder that version 0.2 saved is read as it was meant; one of 0.1 is refused in a sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import durometer as du

OLD = Path(__file__).parents[1] / "data" / "run_0_2"


def test_a_folder_of_0_2_gives_the_figures_that_0_2_printed() -> None:
    report = du.Report.load(OLD)
    printed = {"clean": (11, 12), "robust": (6, 12), "success": (5, 11)}
    for name, (hits, n) in printed.items():
        e = report.metric(name)
        assert (round(e.value * e.n), e.n) == (hits, n)
    assert report.metric("forwards").value == pytest.approx(8.2, abs=0.05)
    assert report.spec.attacks == ("PGD",) and report.spec.text("space") == "Linf(0.15)"
    assert report.spec.classes == ("no", "yes")
    assert [f.id for f in report.flags] == ["training-mode"]


def test_its_inputs_are_the_ones_that_won() -> None:
    report = du.Report.load(OLD)
    weight, bias = np.array([[-1.0, 0, 1], [1, 0, -1]]), np.array([0.1, -0.1])  # the model of then
    answers = (report.adversarial @ weight.T + bias).argmax(1)
    won = report.table["success"].to_numpy()
    np.testing.assert_array_equal(answers[won], report.table["final"].to_numpy()[won])
    assert (answers[won] != report.table["y"].to_numpy()[won]).all()


def test_it_is_shown_compared_and_saved_again(tmp_path: Path) -> None:
    report = du.Report.load(OLD)
    assert "Look at this first" in report.html() and "old rows" in report.html()
    assert report.examples is not None and len(report.examples.places) == 5
    again = du.Report.load(report.save(tmp_path / "again"))
    assert again.compare(report).p_value == 1.0
    assert again.spec == report.spec


def test_a_changed_byte_is_noticed_there_too(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OLD, tmp_path / "old"))
    held = bytearray((folder / "adversarial.npz").read_bytes())
    held[len(held) // 2] ^= 1
    (folder / "adversarial.npz").write_bytes(held)
    with pytest.raises(du.DurometerError, match="not as it was saved"):
        du.Report.load(folder)


def test_a_folder_of_0_1_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(OLD, tmp_path / "older"))
    spec = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps(spec | {"game": "Static"}))  # a name, no table
    with pytest.raises(du.DurometerError, match="version 0.1, which is no longer read"):
        du.Report.load(folder)
