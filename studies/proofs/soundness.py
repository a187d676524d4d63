"""Can a proof of `Exact` be wrong? Judges that share no code with it, on many models.

    python studies/proofs/soundness.py [--smoke] [--seed 0]        # about three CPU-minutes

(a) small tables, every valid record tried: whole numbers, categories, one-hot groups, eight sets of
relations, four norms and a cost, boosted trees and forests, two and four classes; (b) URL in Linf
with all relations, HiGHS; (c) planted: a deep tree that is wrong in one tiny cell inside the region
of each row; (d) random valid points of proven rows, asked of the model: URL in Linf, loans (ratios
that define features) in L2. A contradiction is a proof of a row that can be broken, or a
counterexample that is none. `--seed` draws other tables, models, rows and points.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import durometer as du
from durometer.proofs.search.decide import decide
from durometer.trees import read

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.oracles.small_tables import INTEGERS, MIXED, RELATIONS, play
from tests.oracles.url import compare_with_highs

SPACES = [
    {"eps": 0.2, "p": math.inf}, {"eps": 0.35, "p": 2}, {"eps": 0.5, "p": 1}, {"eps": 2, "p": 0},
]  # fmt: skip
CODED = [
    {"eps": 1.5, "p": 2}, {"eps": 2.2, "p": 1}, {"eps": 1, "p": 0}, {"eps": 2, "p": 0},
    {"eps": 1.0, "p": math.inf}, {"cost": 3.0},
]  # fmt: skip


def enumeration(seeds: range) -> tuple[int, int, int, int]:
    """(rows, proven, open, contradictions)"""
    total = np.zeros(4, dtype=int)
    small = itertools.product(RELATIONS.values(), SPACES, ("xgboost", "forest"), seeds)
    cases = [
        (INTEGERS, r, space, kind, 10 + seed, 2 + 2 * (seed % 2)) for r, space, kind, seed in small
    ]
    rules = ["if k == 'u' then a <= 4", "if p == 1 then b > 0"]
    coded = itertools.product(CODED, ("xgboost", "forest"), seeds)
    cases += [(MIXED, rules, space, kind, 50 + seed, 2) for space, kind, seed in coded]
    for features, relations, space, kind, seed, classes in cases:
        found, truth = play(features, relations, space, kind, seed, rows=8, classes=classes)
        wrong = (found.proven & truth) | (found.broken & ~truth)
        total += len(truth), found.proven.sum(), found.open.sum(), wrong.sum()
    rows, proven, left, wrong = (int(v) for v in total)
    return rows, proven, left, wrong


def highs(rows: int, seed: int) -> tuple[int, int, int]:
    """(rows decided by both, of these proven, contradictions)"""
    splits = du.datasets.url()
    total = np.zeros(3, dtype=int)
    for trees, depth, eps in ((40, 4, 0.05), (60, 5, 0.03)):
        model = XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1)
        model.fit(splits.train.x.numpy(), splits.train.y.numpy())
        right = np.flatnonzero(model.predict(splits.test.x.numpy()) == splits.test.y.numpy())
        some = np.random.default_rng(seed).choice(right, rows, replace=False)
        data = splits.test.take(torch.from_numpy(np.sort(some)))
        allowed = np.eye(2, dtype=bool)[1 - data.y.numpy()]
        region = data.schema.space(eps=eps, p=math.inf).around(data.x)
        found = decide(read(model), region, allowed)
        both, wrong, _ = compare_with_highs(model, data, eps, found, rows)
        total += both, int(found.proven.sum()), wrong
    both, proven, wrong = (int(v) for v in total)
    return both, proven, wrong


def planted(rows: int, seed: int) -> tuple[int, int]:
    """(rows with a planted counterexample, how many of them were called proven)"""
    rng = np.random.default_rng(seed)
    schema = du.Schema(
        [du.Feature(f"f{i}", "real", 0.0, 1.0) for i in range(6)], ["f0 + f1 <= 1.5"]
    )
    x = rng.random((rows, 6)) * 0.7
    near = x + rng.uniform(-0.03, 0.03, x.shape)
    near = np.clip(near, 0, 0.74)
    crowd = np.concatenate([x + rng.uniform(-0.05, 0.05, x.shape) for _ in range(40)])
    tree = DecisionTreeClassifier(random_state=0)
    tree.fit(
        np.concatenate([x, crowd, near]),
        np.concatenate([np.ones(len(x) + len(crowd)), np.zeros(len(near))]),
    )
    region = schema.space(eps=0.04, p=math.inf).around(torch.from_numpy(x))
    inside = region.contains(torch.from_numpy(near)).numpy()
    inside &= (tree.predict(near) == 0) & (tree.predict(x) == 1)
    found = decide(read(tree), region, np.tile([True, False], (rows, 1)))
    return int(inside.sum()), int((found.proven & inside).sum())


def attacked(points: int, name: str, eps: float, p: float, seed: int) -> tuple[int, int, int]:
    """(proven rows, random valid points of them, how many of these succeed)"""
    data = du.datasets.url().test if name == "url" else du.datasets.lcld().test
    model = XGBClassifier(n_estimators=100, max_depth=4, n_jobs=1, random_state=seed)
    model.fit(data.x.numpy()[600:], data.y.numpy()[600:])
    right = np.flatnonzero(model.predict(data.x.numpy()[:600]) == data.y.numpy()[:600])[:300]
    data = data.take(torch.from_numpy(right))
    region = data.schema.space(eps=eps, p=p).around(data.x)
    found = decide(read(model), region, np.eye(2, dtype=bool)[1 - data.y.numpy()], 1.0)
    proven = np.flatnonzero(found.proven)
    rng = np.random.default_rng(seed + 1)
    asked = hits = 0
    while asked < points:
        rows = torch.from_numpy(rng.choice(proven, 5000))
        part = region.take(rows)
        share = torch.from_numpy(rng.choice([-1.0, 0.0, 1.0], part.origin.shape))
        size = torch.from_numpy(rng.random(part.origin.shape))
        x = part.decode(part.project(part.origin + eps * share * size))
        valid = part.contains(x).numpy()
        label = model.predict(x.numpy()[valid])
        asked += int(valid.sum())
        hits += int((label != data.y.numpy()[rows.numpy()[valid]]).sum())
    return len(proven), asked, hits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    smoke, seed = options.smoke, options.seed
    torch.set_num_threads(1)
    rows, proven, left, wrong = enumeration(range(2 * seed, 2 * seed + (1 if smoke else 2)))
    print(
        f"enumeration: {rows} rows, {proven} proven, {left} open, {wrong} contradictions",
        flush=True,
    )
    both, proven, wrong = highs(4 if smoke else 60, seed)
    print(
        f"HiGHS: {both} rows decided by both, {proven} proven, {wrong} contradictions", flush=True
    )
    count, wrong = planted(20 if smoke else 220, seed)
    print(f"planted: {count} rows with a counterexample, {wrong} called proven", flush=True)
    for name, eps, p in (("url", 0.05, math.inf), ("lcld", 0.02, 2.0)):
        proven, asked, hits = attacked(1000 if smoke else 50_000, name, eps, p, seed)
        print(f"attacked: {name}, {asked} valid points of {proven} proven rows, {hits} succeed")


if __name__ == "__main__":
    main()
