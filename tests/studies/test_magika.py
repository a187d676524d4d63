"""The example with magika: its own pre-processing, its own answers, files that only grow.

The package comes with requirements/heavy.txt; .ci/run calls this file by name.
"""

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.model.agreement import agree

pytestmark = pytest.mark.heavy
FILE = Path(__file__).parents[2] / "examples" / "file_types.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("file_types", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_wrapped_graph_answers_as_the_package_does(example, tmp_path):
    contents = example.programs(3, appended=64)
    data, model = example.rows(contents), example.model()
    assert agree(model, data) == 3
    by_path = []
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        by_path.append(example.said(example.identify.identify_path(tmp_path / name).prediction))
    said = [data.classes[i] for i in model.logits(data.x).argmax(1)]
    assert said == by_path == ["elf"] * 3
    noise = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, 2048)).astype(float))
    answers = [data.classes[i] for i in model.logits(noise).argmax(1)]
    assert answers == example.own_answers(noise.numpy())


def test_what_is_written_is_the_program_and_bytes_behind_it(example, tmp_path):
    program = Path("/usr/bin/true").resolve().read_bytes()
    data = example.rows({"true": program + b"#" * 32})
    report = du.evaluate(
        example.model(), data, space=du.Symbols(most=32, last=32, without=example.BLANKS),
        goal=example.goal(), attack=du.APGD(2), progress=False,
    )  # fmt: skip
    row = report.adversarial[0].copy()
    row[-1] = 7.0
    path = example.written(program + b"#" * 32, row, tmp_path, "true")
    assert path.read_bytes()[: len(program)] == program
    assert example.features(path.read_bytes()) == row.astype(int).tolist()
    path.chmod(0o755)
    assert subprocess.run([path], check=False).returncode == 0


def test_the_run_file_asks_what_the_python_asks(example, tmp_path):
    few = FILE.read_text().replace("def programs(count=12", "def programs(count=3")
    (tmp_path / "file_types.py").write_text(few)
    text = FILE.with_suffix(".toml").read_text()
    assert "steps = 30" in text
    (tmp_path / "run.toml").write_text(text.replace("steps = 30", "steps = 2"))
    command = ["run", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out"), "-q"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    run = du.Report.load(tmp_path / "out")
    goal = du.Group({"elf": run.spec.goal["relation"]["elf"]})
    own = du.evaluate(
        example.model(), example.rows(example.programs(3)), goal=goal, attack=du.APGD(2),
        space=du.Symbols(most=64, last=256, without=example.BLANKS), progress=False,
    )  # fmt: skip
    same = ["id", "clean", "final", "success", "backwards", "margin"]
    pd.testing.assert_frame_equal(run.table[same], own.table[same], rtol=1e-6)
