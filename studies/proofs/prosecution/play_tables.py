"""One case of a table: a drawn schema and space, a fitted model, a proof, and then every record."""

from __future__ import annotations

import random
import warnings

import numpy as np
import torch
from prosecution.judged import Count, verdicts
from prosecution.package import du
from prosecution.tables import drawn, rows
from prosecution.tree_models import KINDS, labels


def play(name: str, seed: int, count: int = 400, near: int = 200) -> Count:
    r = random.Random(f"{name} {seed}")
    make, can = KINDS[name]
    table = drawn(r, gaps="gaps" in can)
    classes = 2 if "two" in can else 3 if "three" in can else r.choice([2, 2, 3])
    frame, y = rows(table, count + 300, seed, classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(r, seed).fit(frame[count:], y[count:])
        x = frame[:count]
        answer = labels(model, x.to_numpy(), list(x.columns)).astype(int)
    linear, listed = "linear" in can, r.random() < 0.1
    seconds = {"seconds": 1.0}
    attack = du.Enumerate() if listed else du.Linear(**seconds) if linear else du.Exact(**seconds)
    schema = table.schema()
    space = schema.space(eps=table.eps, p=table.p)
    data = du.Dataset(x, answer, schema=schema)
    sure, why = verdicts(model, data, space=space, attack=attack)
    found = Count(rows=len(x), cases=1, refused=bool(why), said=why, proven=int(sure.sum()))
    held = x.to_numpy()[sure]
    found.gaps = int(np.isnan(held).any(1).sum())  # rows with a missing cell
    tried, of = [], []
    for k, row in enumerate(held):
        records = table.near(tuple(row), r, near)
        tried.append(records)
        of += [k] * len(records)
    if not of:
        return found
    points, whose = np.concatenate(tried), np.array(of)
    found.points = len(points)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hit = labels(model, points, list(x.columns)) != answer[sure][whose]
    region = space.around(torch.from_numpy(held))
    some = np.flatnonzero(hit)[:400].tolist() + r.sample(range(len(points)), min(20, len(points)))
    inside = region.take(torch.from_numpy(whose[some])).contains(torch.from_numpy(points[some]))
    found.disputed = int((~inside).sum())
    found.wrong = len({int(whose[k]) for k, ok in zip(some, inside.tolist(), strict=True)
                       if ok and hit[k]})  # fmt: skip
    if found.wrong:
        found.fallen = str(seed)
    return found
