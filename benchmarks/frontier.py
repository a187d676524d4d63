"""Where certificates end: nine models at noise of 0.01, 0.03 and 0.1 of each feature's range,
against Monte Carlo through the library's own predict in the same CPU time.

    python benchmarks/frontier.py [--rows 3] [--budget 1.0] [--model synth32] [--why] [--smoke]

Per model and level: the certified width and CPU seconds of the median record, the width of the
estimate that `auto` puts beside a wide certificate, the 99 % Clopper-Pearson width of as many draws
as fit into the certificate's CPU time, and on how many records the certificate is the narrower one.

`--why`: which inequality is loose? Moments of the margins are taken from draws, as if they were
known without error, and each inequality is asked what it would leave open on the whole space:
Cantelli (two moments, what the package uses, box by box), the fourth moment, and the exponential
one, which no certificate here can compute.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier

from durometer.noise import Normal
from durometer.probability.methods import probability
from durometer.probability.sampling import clopper_pearson
from durometer.trees import read

LEVELS = (0.01, 0.03, 0.1)
PROBE = 20_000  # draws that tell what one costs


def boosted(trees: int, depth: int) -> Any:
    return xgb.XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1)


def forest(trees: int, depth: int | None) -> Any:
    return RandomForestClassifier(trees, max_depth=depth, random_state=0)


def tables(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name.startswith("synth"):
        d = int(name[5:])
        return make_classification(  # type: ignore[no-any-return]
            2000, d, n_informative=max(d // 2, 4), n_redundant=0, n_clusters_per_class=3,
            random_state=0,
        )  # fmt: skip
    load = {"cancer": load_breast_cancer, "wine": load_wine}.get(
        name.rstrip("0123456789"), load_digits
    )
    x, y = load(return_X_y=True)
    if name == "digits 4/9":
        keep = (y == 4) | (y == 9)
        return x[keep], (y[keep] == 9).astype(int)
    return x, y


MODELS: tuple[tuple[str, str, Any], ...] = (
    ("cancer30, XGBoost 100 x 6", "cancer", boosted(100, 6)),
    ("cancer30, forest 100", "cancer", forest(100, None)),
    ("wine13, forest 100 x 8", "wine", forest(100, 8)),
    ("digits64 4/9, XGBoost 100 x 6", "digits 4/9", boosted(100, 6)),
    ("digits64 10 classes, XGBoost 100 x 4", "digits", boosted(100, 4)),
    ("synth8, XGBoost 300 x 6", "synth8", boosted(300, 6)),
    ("synth32, XGBoost 100 x 4", "synth32", boosted(100, 4)),
    ("synth32, XGBoost 1000 x 4", "synth32", boosted(1000, 4)),
    ("synth32, forest 100 x 8", "synth32", forest(100, 8)),
)


def line(
    name: str, model: Any, x: np.ndarray, rows: np.ndarray, level: float, budget: float
) -> None:
    ensemble = read(model)
    noise = Normal(sd=tuple(np.maximum(level * np.ptp(x, axis=0), 1e-9).tolist()))
    width, took, drawn, beside = [], [], [], []
    for row in rows:
        label = ensemble.decide(row[None])
        began = time.process_time()
        found = probability(ensemble, noise, row[None], label, budget=budget, workers=1)
        took.append(time.process_time() - began)
        width.append(float(found.width[0]))
        began = time.process_time()
        same = model.predict(noise.sample(row[None], PROBE, np.random.default_rng(0))[0])
        cost = (time.process_time() - began) / PROBE
        hits, n = (same == ensemble.classes[label[0]]).mean(), max(int(took[-1] / cost), 1)
        low, high = clopper_pearson(np.array([round(hits * n)]), np.array([n]), 0.99)
        drawn.append(float(high[0] - low[0]))
        if width[-1] > 0.01:
            guess = probability(
                ensemble, noise, row[None], label, tolerance=1e-3, budget=budget, estimate=True,
                workers=1,
            )  # fmt: skip
            beside.append(float(guess.width[0]))
    won = int((np.array(width) <= np.array(drawn)).sum())
    estimate = f"{np.median(beside):.1e}" if beside else "-"
    print(
        f"| {name} | {level} | {np.median(width):.1e} | {np.median(took):.2f} | {estimate} | "
        f"{np.median(drawn):.1e} | {won}/{len(rows)} |",
        flush=True,
    )


def margins(model: Any, rows: np.ndarray, label: int) -> np.ndarray:
    """(rivals, draws): by how much the label leads each other class."""
    if isinstance(model, RandomForestClassifier):
        scores = model.predict_proba(rows)
    else:
        scores = model.predict(rows, output_margin=True)
        scores = np.stack([0 * scores, scores], 1) if scores.ndim == 1 else scores
    return np.delete(scores[:, [label]] - scores, label, axis=1).T  # type: ignore[no-any-return]


def why(name: str, model: Any, x: np.ndarray, rows: np.ndarray, level: float) -> None:
    ensemble, found = read(model), []
    noise = Normal(sd=tuple(np.maximum(level * np.ptp(x, axis=0), 1e-9).tolist()))
    for row in rows:
        label = int(ensemble.decide(row[None])[0])
        drawn = noise.sample(row[None], PROBE, np.random.default_rng(0))[0]
        lead = margins(model, drawn, label).astype(np.float64)
        mean, off = lead.mean(1), lead - lead.mean(1, keepdims=True)
        z = mean / np.maximum(off.std(1), 1e-12)
        second = np.where(z > 0, 1 / (1 + z**2), 1).sum()
        fourth = np.where(z > 0, (off**4).mean(1) / np.maximum(mean, 1e-12) ** 4, 1).sum()
        tilts = np.geomspace(0.05, 50, 40) / np.maximum(off.std(1), 1e-12)[:, None]
        power = np.array([[np.exp(-t * m).mean() for t in own]
                          for own, m in zip(tilts, lead, strict=True)])  # fmt: skip
        tail = power.min(1).sum()
        found.append([(lead.min(0) < 0).mean(), *np.minimum([second, fourth, tail], 1), z.min()])
    share, *left, z = np.median(found, axis=0)
    print(f"| {name} | {level} | {z:.1f} | {share:.1e} | " + " | ".join(f"{v:.1e}" for v in left)
          + " |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3, help="records per model")
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--model", default="", help="only models whose name holds this")
    parser.add_argument("--why", action="store_true", help="what each inequality would leave open")
    parser.add_argument("--smoke", action="store_true", help="to see that it runs: one small model")
    given = parser.parse_args()
    if given.why:
        print("| model | sd / range | mean / sd | changes | Cantelli | fourth | exponential |")
    else:
        print("| model | sd / range | certified width | CPU s | estimate | draws | narrower |")
    print("|---|---|---|---|---|---|---|")
    for name, source, model in MODELS[2:3] if given.smoke else MODELS:
        if given.model not in name:
            continue
        x, y = tables(source)
        order = np.random.default_rng(0).permutation(len(x))
        cut = int(0.7 * len(x))
        model.fit(x[order[:cut]], y[order[:cut]])
        rows = x[order[cut : cut + (1 if given.smoke else given.rows)]]
        for level in LEVELS[:1] if given.smoke else LEVELS:
            if given.why:
                why(name, model, x, rows, level)
            else:
                line(name, model, x, rows, level, given.budget)


if __name__ == "__main__":
    main()
