"""What asking by name costs: an XGBoost model through its frame adapter against its plain array.

    python benchmarks/frames.py [--smoke]

The same model, rows and batch sizes; CPU seconds of one thread; the two take turns, so that both
meet the same neighbours, and the ratio is the median of the rounds' own. The
array path is `predict_proba` on a float64 array in the model's own order: what a model that knew no
names would be asked. The frame path is the wrapped model on rows in another order, with categories.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
import torch

import durometer as du
from durometer.model.classifier import wrap
from durometer.model.frames import align_columns

TARGET = 1.3


def table(n: int, categories: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"n{i}": rng.normal(size=n) for i in range(16)})
    for i in range(categories):
        frame[f"c{i}"] = pd.Categorical(rng.choice(list("abcdef"), n), categories=list("abcdef"))
    y = (frame["n0"] + frame["n1"] * frame["n2"] > 0).astype(int).to_numpy()
    return frame, y


def seconds(call, batches) -> float:
    began = time.process_time()
    for batch in batches:
        call(batch)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a tenth of the queries, one round")
    smoke = parser.parse_args().smoke
    import xgboost

    queries, rounds = (10_000, 1) if smoke else (100_000, 5)
    print(
        f"{queries:,} queries, median of {rounds} rounds, CPU s: array, frame, ratio (<= {TARGET})"
    )
    for categories in (0, 4):
        frame, y = table(4000, categories)
        model = xgboost.XGBClassifier(
            n_estimators=100, max_depth=6, n_jobs=1, enable_categorical=True
        ).fit(frame, y)
        own = list(frame.columns)
        data = du.Dataset(frame[own[::-1]], y)
        asked = align_columns(wrap(model), data)
        codes = np.stack([
            frame[c].cat.codes if c.startswith("c") else frame[c] for c in own
        ], axis=1).astype(float)  # fmt: skip
        for batch in (256, 2048):
            times = queries // batch
            pick = [np.random.default_rng(k).integers(0, len(y), batch) for k in range(times)]
            arrays = [np.ascontiguousarray(codes[p]) for p in pick]
            rows = [data.x[p] for p in pick]
            assert torch.equal(
                asked.logits(rows[0]).argmax(1),
                torch.from_numpy(np.asarray(model.predict(frame.iloc[pick[0]])).astype(np.int64)),
            )
            took = [
                (seconds(model.predict_proba, arrays), seconds(asked.logits, rows))
                for _ in range(rounds)
            ]
            a, b = np.median(took, axis=0)
            ratio = np.median([frame / array for array, frame in took])
            print(f"{categories} categories, batches of {batch}: {a:.2f} {b:.2f} {ratio:.2f}")


if __name__ == "__main__":
    main()
