"""Correlated noise: intervals against an integral that shares no code with them.

The oracle conditions on the first feature (not on a common factor), integrates it by Gauss-Legendre
on panels of 0.05 between the thresholds, and asks the library's own predict for each cell."""

import numpy as np
import pytest
from scipy import special
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import durometer as du
from durometer.noise.normal_boxes import SHIFTS, estimates
from durometer.probability.factors import factors, rule
from durometer.probability.methods import probability
from durometer.trees import read
from durometer.trees.grid import Grid

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


def oracle(model: object, edges: list[np.ndarray], x: np.ndarray, sd: float, r: float) -> float:
    """P(the library's label of x stays), two features with correlation r."""
    inside = [np.concatenate([[t[0] - 1], (t[1:] + t[:-1]) / 2, [t[-1] + 1]]) for t in edges]
    rows = np.stack(np.meshgrid(*inside, indexing="ij"), axis=-1).reshape(-1, 2)
    same = (model.predict(rows) == model.predict(x[None])).reshape(len(inside[0]), -1)  # type: ignore[attr-defined]
    one, two = (np.concatenate([[-9], (t - v) / sd, [9]]) for t, v in zip(edges, x, strict=True))
    total, s = 0.0, np.sqrt(1 - r * r)
    for i in range(len(one) - 1):
        a, b = np.clip(one[i : i + 2], -9, 9)
        panels = np.linspace(a, b, max(int((b - a) / 0.05), 1) + 1)
        half = np.diff(panels)[:, None] / 2
        z = (panels[:-1, None] + half * (1 + NODES)).ravel()
        weight = (half * WEIGHTS).ravel() * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        below = special.ndtr((two[None] - r * z[:, None]) / s)
        below[:, 0], below[:, -1] = 0.0, 1.0
        total += float(weight @ (np.diff(below, axis=1) @ same[i]))
    return total


@pytest.mark.parametrize("kind", ["tree", "forest"])
@pytest.mark.parametrize("r", [0.4, -0.8, 0.958, 0.995])
def test_two_correlated_features_are_certified(kind: str, r: float) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 2))
    y = (x[:, 0] * x[:, 1] + 0.2 * rng.normal(size=300) > 0).astype(int)
    model = (
        DecisionTreeClassifier(max_depth=4, random_state=0)
        if kind == "tree"
        else RandomForestClassifier(5, max_depth=4, random_state=0)
    ).fit(x, y)
    ensemble, rows = read(model), x[:4]
    noise = du.Normal(cov=0.16 * np.array([[1, r], [r, 1]]))
    found = probability(ensemble, noise, rows, ensemble.decide(rows), tolerance=1e-6, budget=5)
    assert found.kind == "certified"
    assert (found.width < 3e-6).all()
    for i, row in enumerate(rows):
        truth = oracle(model, list(Grid.of(ensemble).thresholds), row, 0.4, r)
        assert found.low[i] - 1e-9 <= truth <= found.high[i] + 1e-9


def test_a_rule_for_a_factor_errs_by_less_than_it_says() -> None:
    """Against 200,000 points, for sets of cells with jagged borders."""
    t = np.linspace(-9, 9, 200_001)
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.pi) * (t[1] - t[0])
    for seed in range(6):
        rng = np.random.default_rng(seed)
        load = rng.uniform(0.2, 0.97, 2)
        cuts, inside = np.sort(rng.normal(size=7)), rng.random((8, 8)) < 0.5

        def given(t: np.ndarray, load=load, cuts=cuts, inside=inside) -> np.ndarray:
            m = [
                np.diff(
                    special.ndtr((cuts - one * t[:, None]) / np.sqrt(1 - one * one)),
                    axis=1, prepend=0, append=1,
                )
                for one in load
            ]  # fmt: skip
            return np.asarray(np.einsum("ni,nj,ij->n", *m, inside))

        truth = sum(
            float(density[a : a + 100_000] @ given(t[a : a + 100_000]))
            for a in range(0, len(t), 100_000)
        )
        for tolerance in (1e-2, 1e-5):
            found = rule(load, tolerance)
            assert found is not None and found.error <= tolerance
            ours = float(found.weight @ given(found.at))
            assert ours - found.error / 2 - 1e-9 <= truth <= ours + found.error + 1e-9


def test_a_rule_that_takes_too_many_values_is_not_used() -> None:
    assert rule(np.array([0.99999, 0.99999]), 1e-6) is None
    assert factors(np.array([[1, 0.99999], [0.99999, 1]])) is None


def test_errors_of_leaves_that_share_a_lattice_add_up() -> None:
    """One tree, three tied features that no single factor explains: 99.9 % intervals."""
    missed = total = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        a = rng.normal(size=(4, 4))
        cov = a @ a.T / 4 + 0.05 * np.eye(4)
        x = rng.normal(size=(200, 4))
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        ensemble = read(tree.fit(x, (x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] > 0).astype(int)))
        noise = du.Normal(cov=0.3 * cov)
        rows = x[:3]
        label = ensemble.decide(rows)
        found = probability(ensemble, noise, rows, label, tolerance=1e-3)
        assert found.kind == "numerical"
        truth = probability(ensemble, noise, rows, label, tolerance=1e-9)  # 16 times the points
        missed += int(((truth.middle < found.low) | (truth.middle > found.high)).sum())
        total += 3
    assert missed <= 1, f"{missed} of {total}"


def test_shifts_are_kept_apart() -> None:
    rng = np.random.default_rng(0)
    low, high = np.full((5, 3), -np.inf), rng.normal(size=(5, 3))
    r = np.array([[1, 0.5, 0.3], [0.5, 1, 0.6], [0.3, 0.6, 1]])
    found, _ = estimates(low, high, r)
    assert found.shape == (SHIFTS, 5)
    assert (found.std(axis=0) > 0).all()
