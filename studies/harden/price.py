"""Does hardening keep its price on rows that nothing saw? Five fresh splits of three tables.

    python studies/harden/price.py [--seeds 31,32,33,34,35] [--tables url,adult,bank] [--smoke]

Each table is split anew by the seed; XGBoost 60 x depth 5 (learning rate 0.2) is fitted, then
hardened with `max_loss`. On the test fifth, which no fit and no choice saw: accuracy of round 0
(the same estimator on the same rows) and of the chosen round, what was paid, with its standard
error, and the share of attacked rows proven before and after. The last line counts the runs that
paid at most what was asked. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from xgboost import XGBClassifier

import durometer as du

sys.path.insert(0, str(Path(__file__).parent))

from tables import Case, _coded, _parts, case

ASKED = {"url": 0.015, "adult": 0.03, "bank": 0.015}
ROWS = 300  # test rows that are proven or broken


def table(name: str, seed: int) -> Case:
    """By name, split by the seed."""
    if name == "url":
        return case("url-linf", seed)
    if name == "adult":
        return case("adult", seed)
    parts = _parts(du.datasets.bank(), seed)
    schema = parts[0].schema
    train, test = (_coded(part, schema) for part in parts)
    space = schema.space(eps=0.05, p=math.inf)
    return Case(train, test, space, du.Untargeted(), "", ASKED[name])


def right(model: Any, data: du.Dataset) -> np.ndarray:
    """(n,) is the model right?"""
    return np.asarray(np.ravel(model.predict(data.x.numpy())) == data.y.numpy())


def proven(model: Any, of: Case) -> float:
    """Of the attacked test rows."""
    part = of.test.where(y=of.attacked) if of.attacked else of.test
    part = part.sample(min(ROWS, len(part)), seed=0)
    report = du.evaluate(
        model, part, space=of.space, goal=of.goal, attack=du.Exact(0.5), progress=False
    )
    ok = right(model, part)
    return float(((report.table["verdict"] == "proven").to_numpy() & ok).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="31,32,33,34,35")
    parser.add_argument("--tables", default=",".join(ASKED))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    seeds = [31] if asked.smoke else [int(s) for s in asked.seeds.split(",")]
    kept = runs = 0
    for name in ["bank"] if asked.smoke else asked.tables.split(","):
        for seed in seeds:
            of, begin = table(name, seed), time.process_time()
            trees, rounds = (5, 2) if asked.smoke else (60, asked.rounds)
            model = XGBClassifier(
                n_estimators=trees, max_depth=5, learning_rate=0.2, n_jobs=1, random_state=seed
            ).fit(of.train.x.numpy(), of.train.y.numpy())
            hardened = du.training.harden(
                model, of.train, of.space, of.goal, max_loss=ASKED[name], rounds=rounds, seed=seed,
                progress=False,
            )  # fmt: skip
            spent = time.process_time() - begin
            before, after = (right(m, of.test) for m in (hardened.models[0], hardened.model))
            change = before.astype(float) - after
            paid, error = change.mean(), change.std() / math.sqrt(len(change))
            shares = [proven(m, of) for m in (model, hardened.model)]
            kept += paid <= ASKED[name]
            runs += 1
            print(
                f"{name}, split {seed}: round {hardened.chosen} of {len(hardened.path) - 1}; "
                f"proven {shares[0]:.3f} -> {shares[1]:.3f}; accuracy {before.mean():.4f} -> "
                f"{after.mean():.4f} (the given model {right(model, of.test).mean():.4f}); asked "
                f"{100 * ASKED[name]:.1f} points, paid {100 * paid:.2f} +- {100 * error:.2f}; "
                f"CPU {spent:.0f} s", flush=True,
            )  # fmt: skip
    print(f"paid at most what was asked: {kept} of {runs} runs")


if __name__ == "__main__":
    main()
