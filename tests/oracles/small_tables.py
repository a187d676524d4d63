"""Small tables of whole numbers, categories and one-hot groups: every valid record can be tried."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from tests.oracles.worst_case import enumerate_all
from xgboost import XGBClassifier

import durometer as du
from durometer.proofs.search.decide import decide
from durometer.trees import read

INTEGERS = [du.Feature(c, "integer", 0, 6, cost=1.0) for c in "abcd"]
MIXED = [
    *INTEGERS[:2],
    du.Feature("k", "category", values=("u", "v", "w"), cost=2.0),
    du.Feature("p", "boolean", group="g", cost=1.0),
    du.Feature("q", "boolean", group="g", cost=1.0),
    du.Feature("r", "boolean", group="g", cost=1.0),
]
RELATIONS = {
    "none": [],
    "linear": ["a + b <= c + 3", "a - 2 * d <= 4"],
    "sum": ["a + b == c + d"],
    "if then": ["if a > 2 then b > 1", "if c > 0 and d > 3 then a <= 4"],
    "original": ["a + b >= a.original + b.original - 1", "c <= c.original + 2 or d == 0"],
    "counts": ["count(a > 2, b > 2, c > 2) <= 2", "count(a == 0, d == 0) == 1 or b > 0"],
    "sets": ["a in {0, 2, 5}", "b != 3"],
    "mixed or": ["if a > 2 then b + c <= 6"],
}


def table(features, rows, seed):
    rng = np.random.default_rng(seed)
    columns = []
    groups = {}
    for f in features:
        if f.group:
            pick = groups.setdefault(f.group, rng.integers(0, 3, rows))
            columns.append((pick == "pqr".index(f.name)).astype(float))
        else:
            columns.append(rng.integers(0, len(f.values) or f.high + 1, rows).astype(float))
    x = np.stack(columns, axis=1)
    weights = rng.normal(size=x.shape[1])
    score = (x - x.mean(0)) @ weights + 2 * (x[:, 0] > 2) * (x[:, 1] < 3) - (x[:, 2] > 1)
    return x, (score + rng.normal(size=rows) > np.median(score)).astype(int)


def play(features, relations, space, kind, seed, rows=10, classes=2):
    """What the search finds and what enumeration says, on some rows of a random model."""
    schema = du.Schema(features, relations)
    x, y = table(features, 400, seed)
    if classes > 2:
        y = y + 2 * (x[:, 1] > 3)
    if kind == "forest":
        model = RandomForestClassifier(12, max_depth=5, random_state=seed).fit(x, y)
    else:
        model = XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1).fit(x, y)
    valid = schema.program.valid(torch.from_numpy(x), torch.from_numpy(x)).numpy()
    x = x[valid][:rows]
    label = model.predict(x)
    allowed = np.ones((len(x), int(y.max()) + 1), dtype=bool)
    allowed[np.arange(len(x)), label] = False
    region = schema.space(**space).around(torch.from_numpy(x))
    found = decide(read(model), region, allowed)
    values = [
        sorted(f.codes) if f.values else range(int(f.low or 0), int(f.high or 1) + 1)
        for f in features
    ]
    truth = enumerate_all(region, [values] * len(x), model.predict, allowed)
    if found.broken.any():
        points = found.point[found.broken]
        where = torch.from_numpy(np.flatnonzero(found.broken))
        assert region.take(where).contains(torch.from_numpy(points)).all()
        assert allowed[found.broken, model.predict(points)].all()
    return found, truth
