"""Text columns: a library that codes them in its own order is not read by the data's codes."""

import math

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier

import durometer as du

RNG = np.random.default_rng(3)
NAMES = ["d", "a", "c", "b", "e"]  # the schema's order; LightGBM sorts


def table() -> pd.DataFrame:
    frame = pd.DataFrame({"kind": RNG.choice(NAMES, 600), "size": RNG.random(600).round(3)})
    frame["y"] = ((frame["kind"] == "a") & (frame["size"] > 0.7)).astype(int)
    return frame


def asked(order: list[str]) -> du.Report:
    frame = table()
    x = frame[["kind", "size"]].astype({"kind": pd.CategoricalDtype(order)})
    model = LGBMClassifier(n_estimators=10, min_child_samples=5, n_jobs=1, verbose=-1)
    model.fit(x, frame["y"])
    schema = du.Schema(
        [du.Feature("kind", "category", values=NAMES), du.Feature("size", "real", 0, 1)]
    )
    data = du.Dataset(frame, target="y", schema=schema)
    # Large ones of kind b: both readings call them 0, and the corners of their boxes as well.
    few = data[((frame["kind"] == "b") & (frame["size"] > 0.75)).to_numpy()].head(40)
    return du.evaluate(
        model, few, space=schema.space(eps=1.0, p=math.inf), attack=du.Exact(), progress=False
    )


def test_other_codes_are_refused_though_every_clean_label_agrees():
    with pytest.raises(du.Unsupported, match="categories in other codes"):
        asked(sorted(NAMES))


def test_the_same_codes_are_read():
    assert asked(NAMES).metric("broken").value == 1  # each becomes one of kind a
