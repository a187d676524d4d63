"""Certified intervals contain the truth: brute force over all boxes, any noise, any setting of the
search."""

import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from durometer import noise as nz
from durometer.core.errors import DurometerError
from durometer.kernels.native import Kernel
from durometer.probability import boxes
from durometer.probability.certified.bounds import Draws, bounds
from durometer.probability.methods import distribution, inside, probability
from durometer.probability.sampling import generator, monte_carlo
from durometer.trees import read
from durometer.trees.ensemble import Ensemble
from durometer.trees.grid import Grid
from durometer.trees.gridded import Rounding

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


def small(seed: int, kind: str) -> tuple[Ensemble, np.ndarray]:
    rng = np.random.default_rng(seed)
    d, classes = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    x = np.round(rng.normal(size=(120, d)), 1)
    y = np.digitize(
        x[:, 0] + x[:, -1] * x[:, d // 2] + 0.3 * rng.normal(size=120), [-0.5, 0.5][: classes - 1]
    )
    y[:classes] = range(classes)
    trees, depth = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    model = {
        "tree": lambda: DecisionTreeClassifier(max_depth=depth, random_state=0),
        "forest": lambda: RandomForestClassifier(
            trees, max_depth=depth, max_features=1, random_state=0
        ),
        "xgboost": lambda: xgb.XGBClassifier(n_estimators=trees, max_depth=depth, n_jobs=1),
    }[kind]()
    return read(model.fit(x, y)), x[:4]


def some_noise(seed: int, d: int) -> nz.Independent:
    rng = np.random.default_rng(seed + 1)
    makers = (
        lambda: nz.normal(0, rng.uniform(0.01, 1)),
        lambda: nz.exponential(rng.uniform(0.05, 1)),
        lambda: nz.uniform(-rng.uniform(0.1, 1), rng.uniform(0.1, 1)),
        lambda: nz.no_noise(),
        lambda: nz.Marginal("norm", (0, 0.7), integer=True),
        lambda: nz.bounded(nz.normal(0, 0.6), -4, 4),
        lambda: nz.Marginal("laplace", (0.0, 0.3), low=-1, high=1, outside="clip"),
        lambda: nz.lognormal(0.3),
    )
    return nz.Independent(tuple(makers[rng.integers(len(makers))]() for _ in range(d)))


def brute_force(ensemble: Ensemble, noise: nz.Noise, x: np.ndarray) -> np.ndarray:
    every = boxes(ensemble)
    mass = noise.mass(x, every.low[None], every.high[None])
    return np.stack(
        [mass[:, every.label == c].sum(axis=1) for c in range(ensemble.n_classes)], axis=1
    )


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["tree", "forest", "xgboost"]),
    st.sampled_from([1e-1, 1e-3, 1e-6, 1e-9]),
    st.sampled_from([1e-6, 1.0]),
    st.sampled_from([4, 64, 256]),
    st.sampled_from([8, 512]),
    st.sampled_from([0, 30, 65_536]),
    st.sampled_from([1, 20, 32_768]),
)
def test_interval_contains_the_truth(
    seed: int,
    kind: str,
    tolerance: float,
    budget: float,
    widest: int,
    bins: int,
    listed: int,
    crossed: int,
) -> None:
    ensemble, x = small(seed, kind)
    grid = Grid.of(ensemble)
    if grid.boxes > 20_000:
        return
    noise = some_noise(seed, x.shape[1])
    x = np.clip(x, -3.5, 3.5)
    truth = brute_force(ensemble, noise, x)
    np.testing.assert_allclose(truth.sum(axis=1), 1, atol=1e-9)
    masses = grid.masses(noise, x)
    for c in range(ensemble.n_classes):
        low, high, _ = bounds(
            ensemble,
            grid,
            masses,
            x,
            np.full(len(x), c),
            tolerance=tolerance,
            budget=budget,
            widest=widest,
            bins=bins,
            listed=listed,
            crossed=crossed,
            workers=1,
        )
        assert (low <= truth[:, c] + 1e-13).all() and (high >= truth[:, c] - 1e-13).all()
        if budget == 1.0:
            assert (high - low <= tolerance + 1e-10).all()
    low, high, _ = distribution(ensemble, noise, x, tolerance=1e-6)
    assert (low <= truth + 1e-10).all() and (high >= truth - 1e-10).all()


@pytest.fixture(scope="module", params=[2, 3])
def middling(request: pytest.FixtureRequest) -> tuple[Ensemble, np.ndarray, nz.Normal, np.ndarray]:
    """Five features of ten and five values: too many for lists of sums, few enough to count."""
    rng = np.random.default_rng(4)
    x = np.clip(np.round(2 * rng.normal(size=(400, 5))), -5, 4)
    x[:, 4] = np.clip(x[:, 4], -2, 2)
    score = x[:, 0] * x[:, 1] + 3 * x[:, 2] + x[:, 3] * x[:, 4] + rng.normal(size=400)
    y = np.digitize(score, [-2.5, 2.5][: request.param - 1])
    model = xgb.XGBClassifier(n_estimators=60, max_depth=3, n_jobs=1).fit(x, y)
    ensemble, noise = read(model), nz.Normal(sd=1.2)
    return ensemble, x[:6], noise, brute_force(ensemble, noise, x[:6])


@pytest.mark.parametrize(
    ("widest", "bins", "listed", "crossed"),
    [(4, 8, 0, 1), (4, 2048, 0, 1), (256, 512, 0, 1), (4, 8, 0, 32_768), (64, 64, 50, 200)],
)
@pytest.mark.parametrize("budget", [1e-6, 0.01, 0.1])
def test_convolved_and_halved_boxes_contain_the_truth(
    middling: tuple[Ensemble, np.ndarray, nz.Normal, np.ndarray],
    widest: int,
    bins: int,
    listed: int,
    crossed: int,
    budget: float,
) -> None:
    ensemble, x, noise, truth = middling
    grid = Grid.of(ensemble)
    masses = grid.masses(noise, x)
    for c in range(ensemble.n_classes):
        low, high, _ = bounds(
            ensemble, grid, masses, x, np.full(len(x), c), budget=budget, widest=widest, bins=bins,
            listed=listed, crossed=crossed, workers=1,
        )  # fmt: skip
        assert (low <= truth[:, c] + 1e-13).all() and (high >= truth[:, c] - 1e-13).all()


@pytest.mark.parametrize("middling", [2], indirect=True)  # halves are for a single rival
def test_halves_close_what_splitting_does_not(
    middling: tuple[Ensemble, np.ndarray, nz.Normal, np.ndarray],
) -> None:
    ensemble, x, noise, _ = middling
    grid = Grid.of(ensemble)
    masses, label = grid.masses(noise, x), np.zeros(len(x), int)
    split, halved = (
        bounds(
            ensemble, grid, masses, x, label, budget=0.003, listed=0, crossed=n, widest=4, bins=8
        )
        for n in (1, 32_768)
    )
    assert np.median(halved[1] - halved[0]) < 1e-6 < 1e-3 < np.median(split[1] - split[0])


@pytest.mark.parametrize("up", [0, 1])
def test_sums_just_beside_a_step_are_rounded_outwards(up: int) -> None:
    # one open cell, and 600 of which every second is a step but for a hair, and the last is three
    beside = 1 + 1e-10 if up else 1 - 1e-10
    table = np.array([0.0, beside] * 299 + [0.0, 3.0] + [0.0])
    chance = np.array([1 / 600] * 600 + [1.0])
    out = np.empty(1)
    base = -(1 + 5e-11) if up else -(1 - 5e-11)
    tails(table, chance, np.array([600, 1]), base, 1.0, 2048, up, out)
    assert out[0] >= 0.5 - 1e-12 if up else out[0] <= 1 / 600 + 1e-12


@pytest.fixture(scope="module")
def larger() -> tuple[Ensemble, np.ndarray, nz.Normal]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 8))
    y = (x[:, 0] * x[:, 1] + x[:, 2] - x[:, 3] * x[:, 4] + 0.5 * x[:, 5] > 0).astype(int)
    return (
        read(xgb.XGBClassifier(n_estimators=40, max_depth=3, n_jobs=1).fit(x, y)),
        x[:6],
        nz.Normal(sd=0.15),
    )


def test_larger_ensembles_agree_with_sampling(
    larger: tuple[Ensemble, np.ndarray, nz.Normal],
) -> None:
    ensemble, x, noise = larger
    label = ensemble.predict(x)
    found = probability(ensemble, noise, x, label, tolerance=1e-3, budget=0.3)
    assert found.kind == "certified"
    draws = 400_000
    hits = np.array(
        [
            (
                ensemble.predict(noise.sample(x[i : i + 1], draws, np.random.default_rng(i))[0])
                == label[i]
            ).mean()
            for i in range(len(x))
        ]
    )
    error = 5 * np.sqrt(hits * (1 - hits) / draws) + 1e-5
    assert (found.low <= hits + error).all() and (found.high >= hits - error).all()


def test_the_same_call_gives_the_same_bounds_with_any_number_of_threads(
    larger: tuple[Ensemble, np.ndarray, nz.Normal],
) -> None:
    ensemble, x, noise = larger
    label = ensemble.predict(x)
    one, two = (probability(ensemble, noise, x, label, budget=0.02, workers=w) for w in (1, 3))
    assert (one.low == two.low).all() and (one.high == two.high).all()


def test_more_budget_never_widens(larger: tuple[Ensemble, np.ndarray, nz.Normal]) -> None:
    ensemble, x, noise = larger
    label = ensemble.predict(x)
    little, more = (probability(ensemble, noise, x, label, budget=b) for b in (0.01, 0.1))
    assert (more.width <= little.width + 1e-9).all()


def test_sampling_what_is_left_narrows_and_covers(
    larger: tuple[Ensemble, np.ndarray, nz.Normal],
) -> None:
    ensemble, x, _ = larger
    noise = nz.Normal(sd=0.6)
    label = ensemble.predict(x)
    allowed = np.eye(2, dtype=bool)[label]
    bare = inside(ensemble, noise, x, allowed, budget=0.001)
    assert bare.width.min() > 0.01
    draws = Draws(20_000, 0.999, [generator(0, i) for i in range(len(x))])
    narrowed = inside(ensemble, noise, x, allowed, budget=0.001, draws=draws)
    assert narrowed.kind == "certified+sampled"
    assert narrowed.width.mean() < 0.5 * bare.width.mean()
    truth = probability(ensemble, noise, x, label, tolerance=1e-3, estimate=True)
    assert (narrowed.low <= truth.high).all() and (narrowed.high >= truth.low).all()


def test_float32_border_matters_at_the_scale_of_rounding() -> None:
    # XGBoost's test float32(x) < 1001 already fails from 1001 - 3.05e-5 on: visible at sd 1e-4
    x = np.array([[999.0], [1001.0]] * 20)
    y = (x[:, 0] > 1000).astype(int)
    model = xgb.XGBClassifier(n_estimators=2, max_depth=1, n_jobs=1, min_child_weight=0).fit(x, y)
    ensemble = read(model)
    border = float(ensemble.threshold[ensemble.feature >= 0][0])
    raw = float(np.round(border))
    assert border == pytest.approx(raw - 2.0**-15, abs=1e-9)
    noise, record = nz.Normal(sd=1e-4), np.array([[raw]])
    exact = norm.sf((border - raw) / 1e-4)
    assert probability(ensemble, noise, record, np.array([1])).middle[0] == pytest.approx(
        exact, abs=1e-9
    )
    drawn = model.predict(noise.sample(record, 200_000, np.random.default_rng(0))[0]).mean()
    assert abs(drawn - exact) < 0.006 < exact - 0.5  # the naive border would say one half


def test_tied_votes_of_pure_leaves_are_settled_without_single_cells() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 6))
    y = (x[:, 0] + x[:, 1] + x[:, 2] > 0).astype(int)
    model = RandomForestClassifier(2, max_depth=None, random_state=0).fit(x, y)
    ensemble, noise, rows = read(model), nz.Normal(sd=0.3), x[:4]
    assert (Rounding.of(ensemble).rough == 0).all()  # grown to the end: every leaf is a vote
    drawn = noise.sample(rows, 100_000, rng)
    tied = np.diff(ensemble.scores(drawn.reshape(-1, 6)), axis=1).reshape(4, -1) == 0
    assert (tied.mean(axis=1) > 0.02).any()
    label = ensemble.predict(rows)
    found = probability(ensemble, noise, rows, label, tolerance=1e-4)
    assert (found.width < 1e-4).all()
    hits = (model.predict(drawn.reshape(-1, 6)).reshape(4, -1) == label[:, None]).mean(axis=1)
    np.testing.assert_allclose(found.middle, hits, atol=0.008)


def test_zero_noise_stays_with_certainty() -> None:
    ensemble, x = small(3, "xgboost")
    found = probability(ensemble, nz.Normal(sd=0.0), x, ensemble.predict(x))
    np.testing.assert_allclose(found.low, 1, atol=1e-9)


def test_missing_values_have_no_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    holes = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    ensemble = read(
        xgb.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(
            holes, (x[:, 0] + x[:, 1] > 0).astype(int)
        )
    )
    rows = holes[:5].copy()
    rows[:, 0] = np.nan
    label = ensemble.predict(rows)
    noise = nz.Normal(sd=0.4)
    found = probability(ensemble, noise, rows, label)
    drawn = np.array(
        [
            (ensemble.predict(noise.sample(rows[i : i + 1], 100_000, rng)[0]) == label[i]).mean()
            for i in range(5)
        ]
    )
    np.testing.assert_allclose(found.middle, drawn, atol=0.01)


def test_near_boxes_lose_little_and_only_downwards() -> None:
    ensemble, x = small(11, "tree")
    noise = nz.Normal(sd=0.3)
    every = boxes(ensemble)
    for row, label in zip(x, ensemble.predict(x), strict=True):
        whole, near = (
            every.robustness(noise, row, label),
            boxes(ensemble, noise, row, 0.99).robustness(noise, row, label),
        )
        assert near <= whole + 1e-12 and whole - near <= 0.01


def test_bad_requests() -> None:
    ensemble, x = small(5, "forest")
    label = ensemble.predict(x)
    with pytest.raises(DurometerError, match="tolerance"):
        probability(ensemble, nz.Normal(sd=1.0), x, label, tolerance=0)
    with pytest.raises(DurometerError, match="rows of shape"):
        probability(ensemble, nz.Normal(sd=1.0), np.ones((2, 17)), label[:2])
    with pytest.raises(DurometerError, match="features"):
        probability(ensemble, nz.Independent((nz.normal(0, 1),) * 9), x, label)


def test_bounds_and_draws_together_are_no_wider_than_draws_alone() -> None:
    """On records that no bounds close, with as many draws."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 12))
    y = (x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] + x[:, 4] > 0).astype(int)
    ensemble = read(xgb.XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1).fit(x, y))
    noise, rows = nz.Normal(sd=0.8), x[:4]
    label = ensemble.predict(rows)
    grid = Grid.of(ensemble)
    draws = Draws(20_000, 0.99, [generator(0, i) for i in range(4)])
    low, high, _ = bounds(
        ensemble, grid, grid.masses(noise, rows), rows, label, budget=0.2, draws=draws
    )
    alone = monte_carlo(
        ensemble.predict, noise, rows, 2, range(4), first=20_000, most=20_000
    ).interval(np.eye(2, dtype=bool)[label])
    assert (high - low <= 1.02 * (alone[1] - alone[0])).all()
    assert (low <= alone[1]).all() and (alone[0] <= high).all()


def test_moments_bound_what_tables_cannot() -> None:
    """Many deep trees under wide noise: Cantelli's inequality holds, and says more than nothing."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(800, 16))
    y = (x[:, 0] * x[:, 1] + x[:, 2] - x[:, 3] * x[:, 4] + x[:, 5:9].sum(axis=1) > 0).astype(int)
    for model in (
        RandomForestClassifier(60, max_depth=8, random_state=0),
        xgb.XGBClassifier(n_estimators=80, max_depth=4, n_jobs=1),
    ):
        ensemble = read(model.fit(x, y))
        rows = x[:12]
        label = ensemble.decide(rows)
        noise = nz.Normal(sd=0.25)
        found = probability(ensemble, noise, rows, label, budget=0.05)
        drawn = np.array(
            [
                (ensemble.predict(noise.sample(rows[i : i + 1], 20_000, rng)[0]) == label[i]).mean()
                for i in range(12)
            ]
        )
        error = 5 * np.sqrt(np.maximum(drawn * (1 - drawn), 1e-4) / 20_000)
        assert (found.low <= drawn + error).all() and (drawn - error <= found.high).all()
        sure = drawn > 0.999
        assert sure.any() and np.median(found.low[sure]) > 0.8


def test_moments_are_those_of_all_boxes() -> None:
    """One look at the whole box with useless tables: what is left is Cantelli's inequality with the
    mean and variance that an enumeration of all boxes gives."""
    used = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = np.round(rng.normal(size=(150, 3)), 1)
        y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(int)
        ensemble = read(RandomForestClassifier(9, max_depth=3, random_state=0).fit(x, y))
        grid, noise, rows = Grid.of(ensemble), nz.Normal(sd=0.5), x[:4]
        every, label = boxes(ensemble), ensemble.decide(rows)
        mass = noise.mass(rows, every.low[None], every.high[None])
        scores = ensemble.scores(np.where(np.isfinite(every.high), every.high, 1e6))
        how = {"budget": 1e-9, "listed": 0, "crossed": 1, "widest": 2, "bins": 2}
        low, high, _ = bounds(ensemble, grid, grid.masses(noise, rows), rows, label, **how)
        for i, c in enumerate(label):
            margin = scores[:, c] - scores[:, 1 - c]
            mean = mass[i] @ margin
            variance = mass[i] @ (margin - mean) ** 2
            tail = variance / (variance + mean**2)
            if mean > 0:
                assert low[i] >= 1 - tail - 1e-5
                used += abs(low[i] - (1 - tail)) < 1e-5
            else:
                assert high[i] <= tail + 1e-5
    assert used >= 3  # in the others the tables say more
