"""The price of a model whose decisions sex never flips, proven: Adult, five fresh splits.

    python studies/harden/fair.py [--seeds 41,42,43,44,45] [--smoke]

Each split is drawn by the seed; the model is fitted, then refitted by `without_flips(of=["sex"])`.
On the test fifth, which no fit saw: accuracy of the refit "as it was" (same rows) and of the model
that is proven, and whether swapping the sex of any test row changes an answer.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from xgboost import XGBClassifier

import durometer as du
from durometer.training.hardening.refit import refit

sys.path.insert(0, str(Path(__file__).parent))

from tables import _coded, _parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="41,42,43,44,45")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    seeds, n = ([41], 10) if asked.smoke else ([int(s) for s in asked.seeds.split(",")], 100)
    for seed in seeds:
        parts = _parts(du.datasets.adult(), seed)
        train, test = (_coded(part, parts[0].schema) for part in parts)
        place = train.schema.names.index("sex")
        models: list[Any] = [
            XGBClassifier(n_estimators=n, max_depth=5, learning_rate=0.2, n_jobs=1),
            LGBMClassifier(n_estimators=n, num_leaves=20, verbose=-1, n_jobs=1),
        ]
        for model in models:
            begin = time.process_time()
            model.fit(train.x.numpy(), train.y.numpy())
            made = du.training.without_flips(model, train, ["sex"], seconds=5, seed=seed)
            spent = time.process_time() - begin
            rest, _ = du.training.holdout(train, 0.2, seed)
            plain = refit(model, rest)
            x, y = test.x.numpy(), test.y.numpy()
            before, after = (
                float((np.ravel(m.predict(x)) == y).mean()) for m in (plain, made.model)
            )
            swapped = x.copy()
            swapped[:, place] = 1 - swapped[:, place]
            flipped = [int((m.predict(x) != m.predict(swapped)).sum()) for m in (plain, made.model)]
            said = ", ".join(f"{p}: {a.status}" for p, a in made.answers.items())
            print(
                f"adult, split {seed}, {type(model).__name__}: {said}; accuracy {before:.4f} -> "
                f"{after:.4f} on {len(y)} test rows; flipped by sex {flipped[0]} -> {flipped[1]}; "
                f"CPU {spent:.1f} s", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
