"""Every Python block of every page is run, in order, in one namespace a page.

A page is written for a reader who has a model; what it takes for granted is given below, by page. A
block that cannot be run says why in a comment before it, `<!-- not run: ... -->`, and the reason is
printed.
"""

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- not run: (?P<why>[^>]*?) -->\n)?```python\n(?P<code>.*?)```", re.S)

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
    "groups": {
        0: "net = toy(43, 3072)",
        1: "net = toy(40, 64 * 64)",
        2: "burglars, floor = ['s1', 's2'], {'s3': 'ground', 's4': 'first'}",
        3: "net = toy(43, 3072)",
    },
    "index": {0: "net = toy(10, 784)"},
    "nature": {
        0: """
from sklearn.ensemble import RandomForestClassifier
x = rng.normal(100, 20, (40, 3)); y = (x[:, 0] > 100).astype(int)
forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, y); x, y = x[:6], y[:6]"""
    },
    "proofs": {
        0: """
import math
from sklearn.ensemble import RandomForestClassifier
booster = RandomForestClassifier(5, max_depth=4).fit(url.train.x.numpy(), url.train.y.numpy())
data = url.test.head(8); schema = data.schema; space = schema.space(eps=0.05, p=math.inf)"""
    },
    "runs": {
        0: """
from pathlib import Path
from sklearn.ensemble import RandomForestClassifier
schema = du.Schema([du.Feature(f"f{i}", "real", 0, 1) for i in range(3)])
frame = schema.frame(rng.random((40, 3))); model = RandomForestClassifier(3, max_depth=2)
model.fit(frame, frame["f0"] > 0.5); Path("loans").mkdir()
frame.assign(paid=(frame["f0"] > 0.5).astype(int)).to_parquet("loans/1.parquet")"""
    },
    "search": {
        0: """
from sklearn.ensemble import RandomForestClassifier
forest = RandomForestClassifier(5, max_depth=4).fit(url.train.x.numpy(), url.train.y.numpy())"""
    },
    "tables": {
        0: """
import pandas as pd
df = pd.DataFrame({"amount": [9000.0, 8000], "income": [30_000.0, 40_000], "ratio": [0.3, 0.2],
                   "term": [36, 60], "open": [3, 4], "total": [9, 9], "purpose": ["car", "house"]})
y, net = [0, 1], toy(2, 7, torch.float64)"""
    },
    "text": {
        0: """
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
pipeline.fit(["a good film", "a dull film"], ["nice", "poor"])"""
    },
    "transductive": {
        0: "net, images = toy(10, 784), du.datasets.mnist().test.head(8)",
        2: "net, images = toy(43, 3072), du.datasets.gtsrb().test.head(8); train = images",
    },
}


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(found["why"] or "", found["code"]) for found in BLOCK.finditer(page.read_text())]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {"__name__": page.stem}
    warnings.simplefilter("ignore")
    exec(TOY, space)
    for number, (why, code) in enumerate(blocks(page)):
        exec(GIVEN.get(page.stem, {}).get(number, ""), space)
        if why:
            print(f"{page.name}: not run: {why}")
        else:
            exec(compile(code, f"{page.name}, block {number}", "exec"), space)
