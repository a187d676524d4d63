"""Hardening boosted trees and forests: accuracy against the proven share, on real tables.

    python studies/harden/run.py                       # URL: Linf .05, L2 .1, L2 .5; three seeds
    python studies/harden/run.py --cells linf xgb --seeds 0 --rounds 40
    python studies/harden/run.py --smoke

For each model and space: accuracy by class on the untouched test rows, proven, broken and open of
the test rows an attacker would start from (exact), before and after; the CPU time; and the line of
a model that may only see what nobody can move.
"""

import argparse
import math
import time

import numpy as np

import assay as ay
from assay.training.hardening import Hardened

SPACES = {"linf": (0.05, math.inf), "l2": (0.1, 2.0), "l2wide": (0.5, 2.0)}


def models(seed: int, small: bool):
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    size = 20 if small else 100
    return {
        "xgb": XGBClassifier(n_estimators=size, max_depth=4, n_jobs=1, random_state=seed),
        "lgbm": LGBMClassifier(
            n_estimators=size, num_leaves=15, n_jobs=1, verbose=-1, random_state=seed
        ),
        "forest": RandomForestClassifier(size // 2, max_depth=8, n_jobs=1, random_state=seed),
    }


def figures(model, test, space, goal, rows):
    """Accuracy by class on all test rows; verdicts on a sample of those attacked."""
    y = test.y.numpy()
    right = model.predict(test.x.numpy()) == y
    recall = [float(right[y == c].mean()) for c in np.unique(y)]
    attacked = test.where(y="phishing").sample(rows, seed=0)
    report = ay.evaluate(
        model, attacked, space=space, goal=goal, attack=ay.Exact(5.0), progress=False
    )
    shares = {name: report.metric(name) for name in ("proven", "broken", "open")}
    return float(right.mean()), recall, shares


def row(name, found):
    accuracy, recall, shares = found
    by = ", ".join(f"{r:.3f}" for r in recall)
    p = shares["proven"]
    return (
        f"| {name} | {accuracy:.3f} ({by}) | {p.value:.3f} [{p.low:.3f}, {p.high:.3f}] | "
        f"{shares['broken'].value:.3f} | {shares['open'].value:.3f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cells", nargs="*", default=None, help="of linf l2 l2wide xgb lgbm forest"
    )
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=400, help="test rows judged")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    small = asked.smoke
    seeds, rounds = ([0], 2) if small else (asked.seeds, asked.rounds)
    splits = ay.datasets.url()
    train, test = splits.train, splits.test
    if small:
        train, test = train.sample(600), test.sample(300)
    goal = ay.Group({"phishing": ["legitimate"]})
    wanted = set(asked.cells or [*SPACES, "xgb", "lgbm", "forest"])
    for place, (eps, p) in SPACES.items():
        if place not in wanted or (small and place != "linf"):
            continue
        space = train.schema.space(eps=eps, p=p)
        for seed in seeds:
            for name, model in models(seed, small).items():
                if name not in wanted or (small and name == "forest"):
                    continue
                model.fit(train.x.numpy(), train.y.numpy())
                began = time.process_time()
                curriculum = (0.25, 0.5, 0.75, 1.0) if place == "l2wide" else (1.0,)
                hardened: Hardened = ay.training.harden(
                    model, train, space, goal, rounds=rounds, curriculum=curriculum, seed=seed,
                    progress=False, max_loss=0.05 if place == "l2wide" else 0.015,
                )  # fmt: skip
                spent = time.process_time() - began
                rows = min(asked.rows, 60) if small else asked.rows
                print(f"\n{name}, {place} {eps}, seed {seed}: {spent:.0f} CPU-s, round "
                      f"{hardened.chosen} of {len(hardened.path) - 1}")  # fmt: skip
                print("| | accuracy (legitimate, phishing) | proven | broken | open |")
                print(row("before", figures(model, test, space, goal, rows)))
                print(row("after", figures(hardened.model, test, space, goal, rows)), flush=True)
                if hardened.unmovable is not None:
                    a, r = hardened.unmovable
                    print(f"only what nobody can move: accuracy {a:.3f}, proven {r:.3f} (held out)")


if __name__ == "__main__":
    main()
