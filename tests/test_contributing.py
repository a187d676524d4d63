"""CONTRIBUTING.md, followed to the letter: its paths exist, and its recipe for an attack works."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import durometer as du

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_file_it_names_is_there():
    named = set(
        re.findall(
            r"[`\"(]((?:src/durometer|tests|studies|benchmarks|docs|requirements)/[\w./-]+)", TEXT
        )
    )
    assert len(named) > 8
    missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
    assert not missing


def test_every_make_target_it_names_is_there():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"\bmake ([\w-]+)", TEXT)) <= targets


@pytest.fixture
def checkout(tmp_path):
    """The package's files without their data and compiled parts, to be changed at will."""
    left_out = shutil.ignore_patterns(
        "__pycache__", "samples", "*.so", "*.npz", "*.parquet", "*.gz"
    )
    shutil.copytree(Path(du.__file__).parent, tmp_path / "src" / "durometer", ignore=left_out)
    return tmp_path


def test_its_recipe_for_an_attack_makes_a_public_name_that_passes_its_check(checkout):
    """One file, one line in the stub: the attack that docs/how-to/extend.md prints, moved in."""
    said = (ROOT / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
    source = re.search(r"```python\n(from dataclasses.*?class Corner.*?)```", said, re.S)[1]
    package = checkout / "src" / "durometer"
    (package / "attacks" / "Corner.py").write_text('"""The corners of the region."""\n\n' + source)
    line = re.search(r"`(from durometer\.attacks\.NAME import NAME as NAME)`", TEXT)[1]
    with (package / "__init__.pyi").open("a", encoding="utf-8") as stub:
        stub.write(line.replace("NAME", "Corner") + "\n")
    program = "import durometer as du; du.testing.check_attack(du.Corner()); print(du.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == str(package / "__init__.py")
