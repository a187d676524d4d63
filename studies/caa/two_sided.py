"""The searches' figures on trees, from both sides: what Graft leaves, and what is true.

A search's robust accuracy is an upper bound. Here the same models, rows and spaces are decided by
`Exact` (branch and bound, all 14 relations, whole numbers), so that each figure stands beside the
share that is proven and the share that stays open.

    OMP_NUM_THREADS=1 python studies/caa/two_sided.py [--smoke] [--rows 100] [--seconds 2]
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import durometer as du

SPACES = (("L2 .5", 0.5, 2.0), ("L2 .1", 0.1, 2.0), ("Linf .05", 0.05, math.inf))


def models(train: du.Dataset, smoke: bool) -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import XGBClassifier

    count = 10 if smoke else 100
    x, y = train.x.numpy(), train.y.numpy()
    return {
        "url/forest": RandomForestClassifier(count, random_state=0, n_jobs=1).fit(x, y),
        "url/xgboost": XGBClassifier(n_estimators=count, random_state=0, n_jobs=1).fit(x, y),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    splits = du.datasets.url()
    phishing = splits.test.where(y=1)
    print("| pair, space | Graft alone, CPU s | at least (proven) | at most | open | CPU s |")
    print("|---|---|---|---|---|---|")
    for name, model in models(splits.train, options.smoke).items():
        right = model.predict(phishing.x.numpy()) == 1
        data = phishing.take(right.nonzero()[0][: 8 if options.smoke else options.rows])
        for title, eps, p in SPACES:
            space = phishing.schema.space(eps=eps, p=p)
            began = time.process_time()
            alone = du.evaluate(model, data, space=space, attack=du.Graft(), progress=False)
            middle = time.process_time()
            exact = du.Then(du.Exact(options.seconds), du.Graft())
            both = du.evaluate(model, data, space=space, attack=exact, progress=False)
            ended = time.process_time()
            print(f"| {name}, {title} | {alone.metric('robust').value:.3f}, {middle - began:.1f} | "
                  f"{both.metric('proven').value:.3f} | {both.metric('robust').value:.3f} | "
                  f"{both.metric('open').value:.3f} | {ended - middle:.1f} |",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
