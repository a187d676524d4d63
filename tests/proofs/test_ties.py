"""Rows whose only doubtful cells are ties are decided: the library itself is asked about each."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import durometer as du
from durometer.proofs.enumerate import Enumerate

NAMES = ["a", "b", "c"]
SCHEMA = du.Schema([du.Feature(name, "integer", 0, 6) for name in NAMES])
GRID = np.array(list(itertools.product(range(7), repeat=3)), dtype=float)
EPS = 0.17  # one step


def table():
    """Each row twice, some with both labels: leaves with as many of one as of the other."""
    rng = np.random.default_rng(3)
    x = np.repeat(rng.integers(0, 7, (150, 3)).astype(float), 2, axis=0)
    y = (x[:, 0] > 3).astype(int)
    y[1::2][rng.random(150) < 0.08] = 1
    return pd.DataFrame(x, columns=NAMES), y


MODELS = [DecisionTreeClassifier(random_state=0),
          RandomForestClassifier(2, bootstrap=False, random_state=0)]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("attack", [du.Exact(), Enumerate()])
def test_verdicts_are_those_of_asking_predict_about_every_point(model, attack):
    x, y = table()
    model.fit(x, y)
    answers = model.predict(pd.DataFrame(GRID, columns=NAMES))
    chance = model.predict_proba(pd.DataFrame(GRID, columns=NAMES))
    rows, labels = x[:60], y[:60]
    data = du.Dataset(rows, labels, schema=SCHEMA)
    report = du.evaluate(
        model, data, space=SCHEMA.space(EPS, p=math.inf), attack=attack, progress=False
    )
    right = model.predict(rows) == labels
    near = np.abs(GRID[None] - rows.to_numpy()[:, None]).max(2) <= 6 * EPS
    broken = (near & (answers[None] != labels[:, None])).any(1)
    tied = (near & (chance[:, 0] == 0.5)[None]).any(1) & ~broken & right
    assert tied.sum() > 0  # what this is about
    expected = np.where(broken, "broken", "proven")
    assert report.table["verdict"].to_numpy()[right].tolist() == expected[right].tolist()
