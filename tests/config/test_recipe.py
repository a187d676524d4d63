"""docs/how-to/extend.md to the letter: its package is installed and used in every way it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
FILE = re.compile(
    r"`([\w/]+\.(?:py|toml))`[^`]*(?:`durometer\.\w+`[^`]*)*:\n\n```\w+\n(.*?)```", re.S
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the page's files, its package installed beside them."""
    folder = tmp_path_factory.mktemp("recipe")
    files = dict(FILE.findall(PAGE))
    assert sorted(files) == [
        *("model.py", "mypackage/corners.py", "mypackage/grades.py", "mypackage/harm.py"),
        *("pyproject.toml", "run.toml"),
    ]
    for name, text in files.items():
        at = folder / ("." if name in ("model.py", "run.toml") else "source") / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text, encoding="utf-8")
    (folder / "source" / "mypackage" / "__init__.py").touch()
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target")
    where = str(folder / "installed"), str(folder / "source")
    made = played(folder, "-m", "pip", "install", *options, *where)
    assert made.returncode == 0, made.stderr
    return folder


def played(folder, *arguments):
    path = os.pathsep.join([str(folder / "installed"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path.rstrip(os.pathsep), "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )


def test_the_command_line_lists_each_part_with_its_origin(desk):
    for room, name in (("attacks", "Corner"), ("goals", "OneUp"), ("datasets", "grades")):
        done = played(desk, "-m", "durometer", "list", room)
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stdout.splitlines() if re.search(rf"\b{name}\b", line)]
        assert "mypackage" in line


def test_a_run_file_and_python_give_the_same_figures(desk):
    done = played(desk, "-m", "durometer", "run", "run.toml", "--out", "runs/file")
    assert done.returncode == 0, done.stderr
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (used,) = [block for block in blocks if "du.evaluate" in block and "mypackage" in block]
    asked = "print(report.table['success'].tolist())\nimport durometer as du\n"
    asked += "print(du.Report.load('runs/file').table['success'].tolist())\n"
    done = played(desk, "-c", "from model import net\n" + used + asked)
    assert done.returncode == 0, done.stderr
    mine, theirs = done.stdout.splitlines()[-2:]
    assert mine == theirs
    assert "True" in mine
    assert "False" in mine


@pytest.mark.parametrize("named", ["mypackage.corners:Corner", "corners.py:Corner"])
def test_a_part_that_is_not_registered_is_named_in_full(desk, named):
    (desk / "corners.py").write_bytes((desk / "source/mypackage/corners.py").read_bytes())
    text = (desk / "run.toml").read_text(encoding="utf-8")
    (desk / "full.toml").write_text(text.replace('"Corner"', f'"{named}"'), encoding="utf-8")
    done = played(desk, "-m", "durometer", "run", "full.toml", "--force")
    assert done.returncode == 0, done.stderr
    assert "Corner" in done.stdout
