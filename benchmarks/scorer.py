"""`robust_scorer` inside scikit-learn: the figures of `evaluate`, and what a fit costs with it.

    python benchmarks/scorer.py [--smoke]

Three pipelines (trees decided exactly, a linear model decided exactly, a network attacked) go
through GridSearchCV(n_jobs=2). Every score of every fold and setting is compared with `evaluate`
called by hand on the same fitted model and the same rows; the price is CPU time of one process,
per fit, beside the same search with scoring="accuracy". permutation_importance and learning_curve
are played once each.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, learning_curve
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import durometer as du


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    warnings.simplefilter("ignore")  # networks that have not converged
    heart = du.datasets.heart()
    schema = heart.train.schema
    space = schema.space(eps=0.05)
    whole = ~heart.train.x.isnan().any(1).numpy()
    x, y = heart.train.x.numpy()[whole], heart.train.y.numpy()[whole]
    rows = 8 if smoke else 40
    settings = {
        "forest, at least": (
            make_pipeline(StandardScaler(), RandomForestClassifier(10, random_state=0)),
            {"randomforestclassifier__max_depth": [2, 5]},
            du.robust_scorer(space, side="at least", rows=rows),
        ),
        "linear, at least": (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)),
            {"logisticregression__C": [0.01, 1.0]},
            du.robust_scorer(space, side="at least", rows=rows),
        ),
        "network, at most": (
            make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=60, random_state=0)),
            {"mlpclassifier__alpha": [0.001, 1.0]},
            du.robust_scorer(space, attack=du.Graft(evaluations=300), rows=rows),
        ),
    }
    folds = StratifiedKFold(2 if smoke else 3)
    wrong = 0
    print(f"heart disease, {len(x)} rows, {rows} attacked per fold, Linf .05 of the ranges")
    print("| pipeline, side | fits | scores by setting | differ from evaluate | CPU-s a fit | with "
          "accuracy | a score costs |\n|---|--:|---|--:|--:|--:|--:|")  # fmt: skip
    for name, (pipeline, grid, scorer) in settings.items():
        search = GridSearchCV(pipeline, grid, scoring=scorer, cv=folds, n_jobs=2, refit=False)
        search.fit(x, y)
        found = np.array([search.cv_results_[f"split{k}_test_score"]
                          for k in range(folds.n_splits)])  # fmt: skip
        differ = 0
        for k, (fit, test) in enumerate(folds.split(x, y)):
            for s, params in enumerate(search.cv_results_["params"]):
                fitted = clone(pipeline).set_params(**params).fit(x[fit], y[fit])
                data = du.Dataset(x[test], y[test], schema=space.schema).sample(rows, 0)
                own = du.evaluate(
                    fitted, data, space=space, attack=scorer.attack, seed=0, progress=False
                )
                metric = "proven" if scorer.side == "at least" else "robust"
                differ += float(own.metric(metric)) != found[k, s]
        wrong += differ
        prices = []
        for scoring in (scorer, "accuracy"):
            began = time.process_time()
            GridSearchCV(pipeline, grid, scoring=scoring, cv=folds, refit=False).fit(x, y)
            prices.append((time.process_time() - began) / found.size)
        means = ", ".join(f"{m:.3f}" for m in found.mean(0))
        print(f"| {name} | {found.size} | {means} | {differ} | {prices[0]:.2f} | {prices[1]:.3f} | "
              f"{prices[0] - prices[1]:.2f} |", flush=True)  # fmt: skip
    pipeline, grid, scorer = settings["forest, at least"]
    fitted = pipeline.fit(x, y)
    began = time.process_time()
    ranked = permutation_importance(
        fitted, x[:100], y[:100], scoring=scorer, n_repeats=1, random_state=0
    )
    spent = time.process_time() - began
    top = schema.names[int(ranked.importances_mean.argmax())]
    print(f"permutation_importance: {x.shape[1] + 1} scores in {spent:.1f} CPU-s; most: {top}")
    began = time.process_time()
    _, _, curve = learning_curve(
        pipeline, x, y, scoring=scorer, cv=folds, train_sizes=[0.3, 1.0], shuffle=True,
        random_state=0,
    )  # fmt: skip
    spent = time.process_time() - began
    print(f"learning_curve, 30 and 100 % of the rows: {np.round(curve.mean(1), 3).tolist()} in "
          f"{spent:.1f} CPU-s")  # fmt: skip
    print(f"scores that differ from evaluate: {wrong}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
