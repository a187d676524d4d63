"""What is printed from data holds no control characters, and fits a terminal that knows ASCII."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.core.printable import printable

EVIL = "a\x1b[2J\x1b]0;owned\x07\u202eb\x9b31m\rc\u2066d"
RAW = [c for c in EVIL if not c.isprintable()]


@pytest.fixture
def folder(tmp_path):
    """A run whose classes, model, data and ids are named by somebody else."""
    net, data = du.testing.toy()
    count = int(data.y.max()) + 1
    classes = [f"{EVIL}{k}" for k in range(count)]
    ids = np.array([f"{EVIL}{k}" for k in range(len(data))])
    named = du.Dataset(data.x, data.y, ids=ids, classes=classes, name=EVIL)
    report = du.evaluate(
        du.wrap(net, name=EVIL), named, space=du.Linf(0.1), attack=du.PGD(5), progress=False
    )
    report.save(tmp_path / "run")
    return tmp_path / "run"


def test_no_control_character_from_data_reaches_the_terminal(folder):
    spec = json.loads((folder / "spec.json").read_text())
    spec["flags"] = [{"id": "x", "text": f"text {EVIL}", "level": "warning"}]
    (folder / "spec.json").write_text(json.dumps(spec))
    commands = (
        ["show", folder], ["show", folder, "--by", "id"], ["show", folder, "--by", EVIL],
        ["verify", folder], ["compare", folder, folder, "--out", folder / "page.html"],
        ["gate", folder, "--criterion", "robust >= 0.1"],
        ["gate", folder, "--criterion", f"robust where y = {EVIL} >= 0.1"],
        ["repair", f"{folder}{EVIL}"], ["export", folder],
    )  # fmt: skip
    escaped = 0
    for words in commands:
        result = CliRunner().invoke(app, [str(w) for w in words])
        assert isinstance(result.exception, SystemExit | None), (words, result.exception)
        assert [c for c in RAW if c in result.output] == [], words
        escaped += "\\x1b" in result.output
    assert escaped >= 3  # or nothing was named


def test_a_terminal_of_ascii_and_twenty_columns_is_enough(folder):
    code = "import sys; from durometer.cli.app import app; app(sys.argv[1:])"
    known = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for words in (["show", folder], ["show", folder, "--by", "y"], ["verify", folder]):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words)],
            capture_output=True, timeout=200, env={**known, "COLUMNS": "20"},
        )  # fmt: skip
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert done.stdout and done.stdout.isascii()


def test_text_that_is_none_of_this_stays_as_it_is():
    for text in ("loans, 2 %", "Größe\tα\n漢字", "≥ 0.8 [0.7, 0.9]", "🙂"):
        assert printable(text) == text


def test_a_relation_of_thousands_of_factors_is_refused_in_a_sentence():
    features = [du.Feature(n, "real", 0, 1) for n in "ab"]
    with pytest.raises(du.DurometerError, match="a product of more than 100 factors"):
        du.Schema(features, [" * ".join(["a"] * 3000) + " <= 1"])
    made = du.F.a
    for _ in range(3000):
        made = made * du.F.b
    with pytest.raises(du.DurometerError, match="nested too deep"):
        du.Schema(features, [made <= 1])
    du.Schema(features, [" * ".join(["a"] * 100) + " <= 1"])
