"""Screening at scale: which of 100,000 records keep their decision with 99 %, and what it costs.

    python studies/nature/screening.py --out runs/screening [--records 100000] [--most 250]
    python studies/nature/screening.py --smoke

XGBoost 100 x 6 on breast cancer (30 features), noise of 0.03 of each feature's range. There are no
100,000 patients: records are drawn from the 569, each feature moved by a normal error of 0.05 of
its range, so that no two are alike and many lie near the border. They are screened in parts of
10,000, each kept in a file, so a run goes on where it was; CPU seconds per part show whether the
cost is linear in records. A few hundred records of each part are asked again by 20,000 draws
through the library's own predict: a record called "yes" must not be seen clearly below 99 %.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import xgboost as xgb
from scipy.stats import binom
from sklearn.datasets import load_breast_cancer

import durometer as du

SHARE, PART = 0.99, 10_000


def setting() -> tuple[xgb.XGBClassifier, np.ndarray, np.ndarray]:
    x, y = load_breast_cancer(return_X_y=True)
    model = xgb.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1).fit(x[::2], y[::2])
    return model, x, np.ptp(x, axis=0)


def records(x: np.ndarray, span: np.ndarray, part: int, count: int) -> np.ndarray:
    rng = np.random.default_rng([7, part])
    return x[rng.integers(0, len(x), count)] + 0.05 * span * rng.normal(size=(count, x.shape[1]))


def screened(part: int, count: int, checked: int) -> dict[str, float]:
    model, x, span = setting()
    rows = records(x, span, part, count)
    nature = du.Nature(model, du.Normal(sd=tuple(0.03 * span)))
    nature.rank_by_stability(rows[:1], SHARE)  # what is made once: the reading of the trees
    began = time.process_time()
    table = nature.rank_by_stability(rows, SHARE)
    took = time.process_time() - began
    said = table["stays"].value_counts()
    rng = np.random.default_rng([8, part])
    against = drawn = 0
    for i in rng.choice(count, min(checked, count), replace=False):
        known = table.loc[i, "stays"]
        if known == "open":
            continue
        copies = rows[i] + 0.03 * span * rng.normal(size=(20_000, x.shape[1]))
        same = int((model.predict(copies) == model.predict(rows[i : i + 1])[0]).sum())
        below, above = binom.cdf(same, 20_000, SHARE), binom.sf(same - 1, 20_000, SHARE)
        against += (below if known == "yes" else above) < 1e-6
        drawn += 1
    return {
        "records": count, "seconds": took, "against": int(against), "drawn": drawn,
        **{k: int(said.get(k, 0)) for k in ("yes", "no", "open")},
    }  # fmt: skip


def show(parts: list[dict[str, float]]) -> None:
    total = {k: sum(p[k] for p in parts) for k in parts[0]}
    n = total["records"]
    each = [1000 * p["seconds"] / p["records"] for p in parts]
    print(f"{n:,.0f} records: {(total['yes'] + total['no']) / n:.4f} decided at {SHARE} "
          f"({total['yes'] / n:.4f} stay, {total['no'] / n:.4f} do not, {total['open']:.0f} open), "
          f"{total['seconds']:.0f} CPU-s, {1000 * total['seconds'] / n:.2f} ms a record "
          f"(parts {min(each):.2f} to {max(each):.2f}); draws speak against "
          f"{total['against']:.0f} of {total['drawn']:.0f}", flush=True)  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--out", type=Path)
    options.add_argument("--records", type=int, default=100_000)
    options.add_argument("--checked", type=int, default=40, help="records of a part drawn again")
    options.add_argument("--most", type=float, default=1e9, help="CPU-s after which it stops")
    options.add_argument("--smoke", action="store_true")
    given = options.parse_args()
    size = 200 if given.smoke else min(PART, given.records)
    count = 1 if given.smoke else given.records // size
    parts: list[dict[str, float]] = []
    for part in range(count):
        file = given.out and given.out / f"{part}.json"
        if file and file.exists():
            parts.append(json.loads(file.read_text()))
            continue
        if time.process_time() > given.most:
            break
        parts.append(screened(part, size, 2 if given.smoke else given.checked))
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(parts[-1]))
        show(parts)
    show(parts)


if __name__ == "__main__":
    main()
