"""The compiled kernels of trees and noise against plain twins (tests/oracles/trees.py)."""

import numpy as np
import pytest
import xgboost as xgb
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.oracles import trees as twins

from durometer import noise as nz
from durometer.kernels.native import Kernel
from durometer.probability import leaves
from durometer.probability.estimated.quasi import LONGEST, directions, stretch
from durometer.probability.localise import OPEN, localise
from durometer.trees import read
from durometer.trees.grid import Grid
from durometer.trees.gridded import Gridded

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.4, 0.5])
tails = Kernel(
    "tails",
    entries="size",
    groups="size",
    table="float64[entries]",
    chance="float64[entries]",
    cells="int64[groups]",
    base="float64",
    step="float64",
    bins="int64",
    up="int64",
    open="size",
    out="out float64[open]",
)


@pytest.mark.parametrize(
    "model",
    [
        xgb.XGBClassifier(n_estimators=9, max_depth=4, n_jobs=1),
        RandomForestClassifier(7, max_depth=4, random_state=0),
    ],
)
def test_scores_are_summed_in_order_and_precision(model) -> None:
    ensemble = read(model.fit(X, Y))
    assert np.array_equal(ensemble.scores(X), twins.scores(ensemble, X))


def test_leaf_masses_are_products_of_intervals() -> None:
    ensemble = read(DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, Y))
    grid, x = Grid.of(ensemble), X[:6]
    masses = grid.masses(nz.Normal(sd=0.4), x)
    found = leaves.distribution(ensemble, grid, masses, x)
    np.testing.assert_allclose(found, twins.leaf_masses(ensemble, grid, masses), atol=1e-14)


def test_a_local_part_gives_the_margins_of_the_whole() -> None:
    """Every joint cell that the noise reaches, against the ensemble's own scores."""
    ensemble = read(RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y))
    grid = Grid.of(ensemble)
    for row in X[:4]:
        masses = grid.masses(nz.Normal(sd=0.05), row[None])
        label = int(ensemble.predict(row[None])[0])
        m = localise(Gridded.of(ensemble), masses[0], np.zeros(4, bool), label, 1e-9)
        if m.status != OPEN:
            continue
        edges, point = grid.representatives(), np.empty(4)
        for cell in np.ndindex(*np.diff(m.start)):
            point[:] = edges[grid.start[:-1] + m.first]
            point[m.original] = edges[m.seen[m.start[:-1] + np.array(cell)]]
            s = ensemble.scores(point[None])[0]
            np.testing.assert_allclose(
                twins.margins(m, cell), s[label] - s[m.rival], rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("sizes", [(3, 4, 5), (40, 30, 7, 12)])
def test_tails_hold_the_exact_sum(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    tables = [rng.normal(size=n) for n in sizes]
    chances = [rng.dirichlet(np.ones(n)) for n in sizes]
    exact = twins.tails(tables, chances, -0.3)
    low, high = np.empty(sizes[-1]), np.empty(sizes[-1])
    for up, out in ((0, low), (1, high)):
        flat = np.concatenate(tables), np.concatenate(chances)
        tails(*flat, np.array(sizes), -0.3, 1e-3, 2048, up, out)
    assert (low <= exact + 1e-12).all() and (exact <= high + 1e-12).all()
    assert (high - low).max() < 0.03


def test_points_are_those_of_sobol() -> None:
    ours = stretch(directions(5), np.zeros(5, np.int64), 0, 256)
    theirs = stats.qmc.Sobol(5, scramble=False, bits=30).random(256).T
    assert np.array_equal(ours - 0.5 / 2**30, theirs)
    later = stretch(directions(5), np.zeros(5, np.int64), 100, 156)
    assert np.array_equal(later, ours[:, 100:]) and LONGEST >= 20
