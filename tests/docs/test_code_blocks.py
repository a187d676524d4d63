"""Every block of every page is run, in order, in one namespace a page, and its output compared.

Python blocks are executed, `$ durometer ...` lines of console blocks go to the command line. A text
block that follows a Python block is what it must print (`...` stands for anything, blanks count
once), and so is what follows a `$` line. A page without an entry below takes nothing for granted.
A block that cannot be run says why in a comment before it, `<!-- not run: ... -->`.
"""

import contextlib
import doctest
import io
import re
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "docs" / "archive"
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted((ROOT / "docs").rglob("*.md")) if ARCHIVE not in p.parents),
]
FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]*?) -->\n)?```(?P<kind>python|console)\n(?P<code>.*?)```\n"
    r"(?:\n*```text\n(?P<out>.*?)```)?",
    re.S,
)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

TOY = """
import durometer as du, numpy as np, torch
from dataclasses import dataclass
from durometer.extend import Needs
torch.manual_seed(0)
rng = np.random.default_rng(0)

def toy(classes, size, kind=torch.float32):
    layers = torch.nn.Flatten(), torch.nn.BatchNorm1d(size), torch.nn.Linear(size, classes)
    return torch.nn.Sequential(*layers).to(kind).eval()

url = du.datasets.url()
"""

# What a page takes for granted, before its first block or, by number, before a later one.
GIVEN = {
    "cli": {
        0: """
import joblib
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
frame = du.datasets.german().train.table.drop(columns="row")
frame.to_csv("loans.csv", index=False)
text = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
columns = make_column_transformer(text, remainder="passthrough")
pipe = make_pipeline(columns, RandomForestClassifier(30, max_depth=8, random_state=0))
joblib.dump(pipe.fit(frame.drop(columns="risk"), frame["risk"]), "model.joblib")"""
    },
    "configuration": {
        0: """
x = rng.random((8, 4)); np.savez("data.npz", x=x, y=(x[:, 0] > 0.5).astype(int))
open("answers.py", "w").write("import torch\\nanswer = torch.nn.Linear(4, 2)\\n")
open("first.toml", "w").write(
    '[data]\\npath = "data.npz"\\n[model]\\npython = "answers.py:answer"\\n'
    '[space]\\ntype = "Linf"\\neps = 0.1\\n[attack]\\ntype = "FGSM"\\n')"""
    },
    "datasets": {
        0: """
import pandas as pd
frame = pd.DataFrame({"amount": [1.0, 2.0], "label": ["charged off", "fully paid"]})
open("loans.toml", "w").write(du.Schema([du.Feature("amount", "real", 0, 9)]).toml())"""
    },
    "scale": {
        0: """
from pathlib import Path
from sklearn.ensemble import RandomForestClassifier
schema = du.Schema([du.Feature(f"f{i}", "real", 0, 1) for i in range(3)])
frame = schema.frame(rng.random((40, 3))); model = RandomForestClassifier(3, max_depth=2)
model.fit(frame, frame["f0"] > 0.5); Path("loans").mkdir()
frame.assign(paid=(frame["f0"] > 0.5).astype(int)).to_parquet("loans/1.parquet")"""
    },
}


@dataclass(frozen=True)
class Block:
    """A block of a page: why it is not run, its kind, its text, and what it must print."""

    why: str
    kind: str
    code: str
    out: str | None


def blocks(page: Path) -> list[Block]:
    return [
        Block(f["why"] or "", f["kind"], f["code"], f["out"])
        for f in FENCE.finditer(page.read_text(encoding="utf-8"))
    ]


def printed(block: Block, name: str, space: dict) -> list[tuple[str, str]]:
    """What the block printed and what it should have, as often as it says so."""
    if block.kind == "console":
        return [pair for line in session(block.code) for pair in [(line[1], commanded(line[0]))]]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block.code, name, "exec"), space)
    return [] if block.out is None else [(block.out, out.getvalue())]


def session(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output below it."""
    parts = re.split(r"^\$ ", text, flags=re.M)[1:]
    return [(line, out) for line, _, out in (part.partition("\n") for part in parts)]


def commanded(line: str) -> str:
    """What a command line prints; `$ durometer` only, other programs are not called."""
    from typer.testing import CliRunner

    from durometer.cli.app import app

    program, *words = shlex.split(line, comments=True)
    assert program == "durometer", line
    result = CliRunner().invoke(app, words)
    assert result.exit_code < 2, result.output
    return result.output


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {"__name__": page.stem}
    warnings.simplefilter("ignore")
    if page.stem in GIVEN:
        exec(TOY, space)
    for number, block in enumerate(blocks(page)):
        exec(GIVEN.get(page.stem, {}).get(number, ""), space)
        if block.why:
            print(f"{page.name}: not run: {block.why}")
            continue
        for wanted, got in printed(block, f"{page.name}, block {number}", space):
            same = doctest.OutputChecker().check_output(wanted, got, SAME)
            assert same, f"{page.name}, block {number} printed\n{got}\nnot\n{wanted}"


def test_a_block_that_prints_something_else_is_seen():
    (block,) = (Block("", "python", "print(2)\nprint(3.14)", "2\n3...\n"),)
    assert printed(block, "toy", {}) == [("2\n3...\n", "2\n3.14\n")]
    check = doctest.OutputChecker().check_output
    assert check("2\n3...\n", "2\n3.14\n", SAME) and not check("2\n4\n", "2\n3.14\n", SAME)
