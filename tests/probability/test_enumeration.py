"""probability.boxes: the paper's "all boxes" and "99 % boxes", beside loops over sklearn's tree."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import chi2, norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import durometer as du

SD = np.array([0.4, 0.1, 0.7])


def a_forest(trees=1):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 3)).round(1)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int) + (x[:, 2] > 1)
    if trees == 1:
        return DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, y), x
    return RandomForestClassifier(trees, max_depth=2, random_state=0).fit(x, y), x


def edges_of(model, f):
    trees = [model] if isinstance(model, DecisionTreeClassifier) else model.estimators_
    cuts = np.concatenate([t.tree_.threshold[t.tree_.feature == f] for t in trees])
    return np.concatenate([[-np.inf], np.unique(cuts), [np.inf]])


def by_hand(model, row, near=None):
    """{label: mass} and the number of boxes, cell by cell, by scipy and `predict` alone."""
    mass, count = np.zeros(len(model.classes_)), 0
    cells = []
    for f in range(3):
        edges = edges_of(model, f)
        pairs = list(pairwise(edges))
        if near is not None:
            reach = np.sqrt(chi2.ppf(near, 3)) * SD[f]
            pairs = [(a, b) for a, b in pairs if a < row[f] + reach and b >= row[f] - reach]
        cells.append([(a, b, f) for a, b in pairs])
    for cell in product(*cells):
        inside = [
            (a + b) / 2 if np.isfinite([a, b]).all() else (b - 1 if np.isfinite(b) else a + 1)
            for a, b, _ in cell
        ]
        size = np.prod([np.diff(norm.cdf([(a - row[f]) / SD[f], (b - row[f]) / SD[f]]))[0]
                        for a, b, f in cell])  # fmt: skip
        mass[int(model.predict([inside])[0])] += size
        count += 1
    return mass, count


@pytest.mark.parametrize("trees", [1, 3])
@pytest.mark.parametrize("share", [None, 0.99, 0.5])
def test_boxes_and_their_mass_are_those_of_plain_loops(trees, share):
    model, x = a_forest(trees)
    noise = du.Normal(sd=SD.tolist())
    for row in x[:3]:
        near = () if share is None else (noise, row, share)
        found = du.probability.boxes(model, *near)
        mass, count = by_hand(model, row, share)
        assert len(found.label) == count
        mine = [found.robustness(noise, row, c) for c in range(3)]
        np.testing.assert_allclose(mine, mass, atol=1e-7)  # thresholds are single numbers


def test_all_boxes_are_what_nature_says():
    model, x = a_forest(3)
    noise = du.Normal(sd=SD.tolist())
    labels = model.predict(x[:6]).astype(int)
    report = du.evaluate(du.Nature(model, noise), du.Dataset(x[:6], labels))
    found = du.probability.boxes(model)
    for row, label, low, high in zip(
        x[:6], labels, report.table["probability_low"], report.table["probability_high"],
        strict=True,
    ):  # fmt: skip
        assert low - 1e-9 <= found.robustness(noise, row, label) <= high + 1e-9


def test_what_cannot_be_asked_is_refused():
    model, x = a_forest()
    noise = du.Normal(sd=1.0)
    with pytest.raises(du.DurometerError, match="needs noise"):
        du.probability.boxes(model, share=0.99)
    with pytest.raises(du.DurometerError, match="without share"):
        du.probability.boxes(model, noise, x[0])
    with pytest.raises(du.DurometerError, match="between 0 and 1"):
        du.probability.boxes(model, noise, x[0], 99)
    with pytest.raises(du.DurometerError, match="none of them missing"):
        du.probability.boxes(model, noise, [1.0, np.nan, 0.0], 0.99)
    skewed = du.Independent([du.noise.exponential(1.0)] * 3)
    with pytest.raises(du.DurometerError, match="normal noise"):
        du.probability.boxes(model, skewed, x[0], 0.99)
    wide = np.random.default_rng(0).normal(size=(400, 12))
    many = RandomForestClassifier(20, max_depth=6, random_state=0).fit(wide, wide[:, 0] > 0)
    with pytest.raises(du.DurometerError, match="exponential in the features"):
        du.probability.boxes(many)
