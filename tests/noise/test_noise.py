"""Noise: closed forms, agreement of mass and sampling, refusals that name the value."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from durometer import noise as nz
from durometer.core.errors import DurometerError, Unsupported
from durometer.noise.copula import nearest_correlation
from durometer.noise.normal_boxes import normal_boxes
from durometer.noise.scaled import without_noise
from durometer.probability.importance import importance
from durometer.probability.sampling import clopper_pearson, generator, monte_carlo

PARTS = {
    "normal": nz.normal(0.1, 0.7),
    "exponential": nz.exponential(0.5),
    "multiply": nz.lognormal(0.4),
    "replace": nz.Marginal("gamma", (2.0,), how="replace"),
    "truncated": nz.bounded(nz.normal(0, 1), -1.5, 2.0),
    "clipped": nz.bounded(nz.normal(0, 1), -1.5, 2.0, "clip"),
    "integer": nz.Marginal("norm", (0.0, 1.3), integer=True),
    "bounded integer": nz.Marginal("norm", (0.0, 1.3), integer=True, low=-2, high=3),
    "still": nz.no_noise(),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0])
def test_sampling_and_probability_agree(name: str, x: float) -> None:
    part = PARTS[name]
    drawn = part.quantile(np.full(40_000, x), (np.arange(40_000) + 0.5) / 40_000)
    for t in (-2.0, -1.0, -0.3, 0.0, 0.5, 1.0, 2.5):
        below, above = part.below(x, t), part.above(x, t)
        assert below + above == pytest.approx(1, abs=1e-12)
        assert float((drawn <= t).mean()) == pytest.approx(float(below), abs=1e-3)


def test_the_upper_tail_keeps_its_digits() -> None:
    assert float(nz.normal(0, 1).above(0.0, 12.0)) == pytest.approx(stats.norm.sf(12), rel=1e-9)


def test_normal_errors_are_centred_unless_told() -> None:
    assert nz.normal(sd=3) == nz.normal(0, 3)


def test_one_sided_noise_starts_at_the_record() -> None:
    assert float(nz.exponential(3).below(5.0, 4.999)) == 0.0


def test_confusion_matrix() -> None:
    part = nz.Confusion(((0.9, 0.1, 0.0), (0.2, 0.7, 0.1), (0.0, 0.5, 0.5)))
    np.testing.assert_allclose(part.below(1.0, np.array([-0.5, 0.5, 1.0, 2.0])), [0, 0.2, 0.9, 1])
    u = np.random.default_rng(0).random(50_000)
    assert np.bincount(part.quantile(np.ones(50_000), u).astype(int)) / 50_000 == pytest.approx(
        [0.2, 0.7, 0.1], abs=0.01
    )
    with pytest.raises(DurometerError, match="codes"):
        part.below(0.5, 1.0)
    with pytest.raises(DurometerError, match="sum to 1"):
        nz.Confusion(((0.9, 0.2), (0.5, 0.5)))


def test_copula_keeps_marginals_and_ranks() -> None:
    rho = np.array([[1, 0.5, -0.2], [0.5, 1, 0.1], [-0.2, 0.1, 1]])
    noise = nz.Copula((nz.normal(0, 12), nz.exponential(3), nz.uniform(-1, 1)), rho)
    drawn = noise.sample([[100.0, 5.0, 0.0]], 200_000, np.random.default_rng(0))[0]
    np.testing.assert_allclose(stats.spearmanr(drawn).statistic, rho, atol=0.01)
    assert drawn[:, 1].min() >= 5 and drawn[:, 1].mean() == pytest.approx(8, abs=0.05)
    high = np.array([[[95.0, 8.0, 0.3]]])
    mass = noise.mass([[100.0, 5.0, 0.0]], np.full((1, 1, 3), -np.inf), high)[0, 0]
    assert float((drawn <= high[0, 0]).all(axis=1).mean()) == pytest.approx(mass, abs=0.004)


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_normal_boxes_against_scipy(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(d, d + 2))
    cov = a @ a.T
    r = cov / np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
    low = rng.normal(size=(3, d)) - 1
    high = low + rng.exponential(2, size=(3, d))
    low[0, 0], high[1, -1] = -np.inf, np.inf
    value, error = normal_boxes(low, high, r)
    law = stats.multivariate_normal(np.zeros(d), r, allow_singular=True, seed=0)
    for i in range(3):
        assert value[i] == pytest.approx(
            law.cdf(high[i], lower_limit=low[i]), abs=3e-5 + 3 * error[i]
        )


def test_nearest_correlation_is_one() -> None:
    bad = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    good = nearest_correlation(bad)
    assert np.linalg.eigvalsh(good).min() > 0 and np.allclose(np.diag(good), 1)
    with pytest.warns(UserWarning, match="nearest correlation matrix"):
        assert nz.Copula((nz.normal(0, 1),) * 3, bad).moved > 0.1


def test_from_data_divides_the_variance() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(5000, 2)) * [2.0, 5.0]
    noise = nz.from_data(data, ratio=10, kinds={1: "exponential"})
    assert noise.parts[0].params[1] == pytest.approx(2 / np.sqrt(10), rel=0.05)
    assert noise.parts[1].name == "expon" and noise.parts[1].params[1] == pytest.approx(
        5 / np.sqrt(10), rel=0.05
    )
    with pytest.raises(DurometerError, match="no feature 7"):
        nz.from_data(data, kinds={7: "normal"})


def test_fit_finds_the_family() -> None:
    rng = np.random.default_rng(0)
    errors = np.stack([rng.laplace(0, 2, 3000), rng.normal(1, 3, 3000), np.zeros(3000)], axis=1)
    noise = nz.fit(errors)
    assert [getattr(p, "name", "") for p in noise.parts] == ["laplace", "norm", "none"]
    assert noise.parts[1].params == pytest.approx((1, 3), abs=0.2)


def test_switching_a_feature_off() -> None:
    noise = without_noise(nz.Normal(cov=[[1, 0.5], [0.5, 1]]), 0, 2)
    assert noise.marginals(2)[0].no_noise and noise.correlation(2) is None


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nz.Normal(), "exactly one"),
        (lambda: nz.Normal(sd=-1.0), "negative"),
        (lambda: nz.Normal(cov=[[1, 0.5], [0.4, 1]]), "not symmetric"),
        (lambda: nz.Normal(cov=[[1, 2], [2, 1]]), "semi-definite"),
        (lambda: nz.Copula((nz.normal(0, 1),) * 2, [[1, 1.5], [1.5, 1]]), r"\[-1, 1\]"),
        (lambda: nz.Copula((nz.normal(0, 1),) * 2, np.eye(3)), "shape"),
        (lambda: nz.Marginal("nrom", (0, 1)), "norm"),
        (lambda: nz.normal(0, -2), "sd >= 0"),
        (lambda: nz.normal(12), r"sd is missing; write normal\(sd=12\)"),
        (lambda: nz.Normal(sd=[1.0, 2.0]).marginals(3), "features"),
        (lambda: nz.bounded(nz.normal(0, 1), 0, 1).below(100.0, 0.5), "no mass"),
        (lambda: nz.Normal(sd="big"), "expected numbers"),
        (lambda: nz.Normal(sd=1.0, integer=("age",)), "places of features"),
        (lambda: nz.Normal(sd=1.0, integer=True), "places of features"),
        (lambda: nz.Normal(sd=1.0, immutable=(3,)).marginals(3), "there are 3 features"),
        (lambda: nz.Independent(nz.normal(0, 1)), "one marginal per feature"),
        (lambda: nz.Independent([1.0, 2.0]), "parts: 1.0"),
        (lambda: nz.from_data(np.ones((4, 2)), ratio=0), "positive"),
        (lambda: nz.from_data(np.ones((1, 2))), "at least 2"),
        (lambda: nz.from_data(np.array([["a", "b"]])), "numbers only"),
        (lambda: nz.fit(np.full((9, 2), np.nan)), "feature 0 has 0 residuals"),
        (lambda: nz.fit(np.ones((9, 2)), families=["nope"]), "nope"),
    ],
)
def test_bad_input_is_named(make: object, text: str) -> None:
    with pytest.raises(DurometerError, match=text):
        make()  # type: ignore[operator]


def test_categories_have_no_ranks() -> None:
    with pytest.raises(Unsupported, match="no ranks"):
        nz.Copula((nz.normal(0, 1), nz.Confusion(((1.0, 0.0), (0.0, 1.0)))), [[1, 0.3], [0.3, 1]])


def test_clopper_pearson_covers() -> None:
    rng = np.random.default_rng(0)
    for p in (0.001, 0.3, 0.99):
        low, high = clopper_pearson(rng.binomial(500, p, size=2000), np.full(2000, 500), 0.95)
        assert ((low <= p) & (p <= high)).mean() >= 0.94


def test_monte_carlo_does_not_depend_on_company() -> None:
    noise, x = nz.Normal(sd=1.0), np.zeros((3, 2))
    predict = lambda rows: (rows[:, 0] > 0.5).astype(np.int64)  # noqa: E731
    every = monte_carlo(predict, noise, x, 2, ["a", "b", "c"], width=0.05)
    alone = monte_carlo(predict, noise, x[1:2], 2, ["b"], width=0.05)
    assert (every.seen[1] == alone.seen[0]).all()
    low, high = every.interval(np.array([[False, True]] * 3))
    assert (
        (low <= stats.norm.sf(0.5)).all()
        and (high >= stats.norm.sf(0.5)).all()
        and (high - low <= 0.05).all()
    )
    assert generator(0, 5).random() == generator(0, np.int64(5)).random()


@pytest.mark.parametrize("distance", [1.0, 2.33, 3.09, 4.26])
def test_importance_sampling_covers_a_closed_form(distance: float) -> None:
    w = np.array([3.0, -2.0, 1.0, 0.5, 0.0]) / np.sqrt(14.25)
    x = np.tile(distance * w, (60, 1))
    allowed = np.tile([False, True], (60, 1))
    low, high = importance(
        lambda z: (z @ w > 0).astype(np.int64),
        nz.Normal(sd=1.0),
        x,
        allowed,
        list(range(60)),
        draws=10_000,
    )
    truth = 1 - special.ndtr(-distance)
    assert ((low > truth) | (high < truth)).sum() <= 3  # 99 % intervals, 60 of them
    changed = special.ndtr(-distance)
    # fewer than one of 10,000 plain draws would change at 1e-5; here the rate is known to a third
    assert np.median(1 - high) > 0.66 * changed
    assert np.median(high - low) < 6 * np.sqrt(changed / 10_000) + 1e-3


def test_importance_sampling_admits_what_it_has_not_seen() -> None:
    x, allowed = np.zeros((1, 3)), np.array([[True, False]])
    low, high = importance(
        lambda z: np.zeros(len(z), np.int64), nz.Normal(sd=1.0), x, allowed, [0], draws=10_000
    )
    assert high[0] == 1.0 and 1e-4 < 1 - low[0] < 2e-3


def test_families_called_accurate_are() -> None:
    """Against mpmath, both tails; the others carry an error into the interval."""
    import mpmath as mp

    mp.mp.dps = 40
    cases = {
        ("norm", (0.1, 0.7)): lambda e: mp.ncdf((e - mp.mpf(0.1)) / mp.mpf(0.7)),
        ("expon", (0.0, 0.3)): lambda e: 1 - mp.exp(-e / mp.mpf(0.3)) if e > 0 else mp.mpf(0),
        ("gamma", (2.5, 0.0, 0.4)): lambda e: (
            mp.gammainc(mp.mpf(2.5), 0, e / mp.mpf(0.4), regularized=True) if e > 0 else mp.mpf(0)
        ),
        ("t", (3.0,)): lambda e: mp.mpf(1) / 2
        + e * mp.gamma(2) / (mp.sqrt(3 * mp.pi) * mp.gamma(mp.mpf(1.5)))
        * mp.hyp2f1(mp.mpf(1) / 2, 2, mp.mpf(3) / 2, -e * e / 3),
        ("lognorm", (0.6,)): lambda e: (
            mp.ncdf(mp.log(e) / mp.mpf(0.6)) if e > 0 else mp.mpf(0)
        ),
        ("gumbel_r", (0.0, 0.5)): lambda e: mp.exp(-mp.exp(-e / mp.mpf(0.5))),
        ("laplace", (0.0, 0.3)): lambda e: (
            mp.exp(e / mp.mpf(0.3)) / 2 if e < 0 else 1 - mp.exp(-e / mp.mpf(0.3)) / 2
        ),
        ("beta", (2.0, 3.5)): lambda e: (
            mp.betainc(2, mp.mpf(3.5), 0, e, regularized=True) if 0 < e < 1 else mp.mpf(e >= 1)
        ),
    }  # fmt: skip
    for (name, params), truth in cases.items():
        part = nz.Marginal(name, params)
        assert part.error == 0.0
        for e in (-2.5, -0.4, 0.03, 0.2, 0.9, 1.7, 4.0):
            want = truth(mp.mpf(e))
            below, above = (
                float(side(np.zeros(1), np.array([e]))[0]) for side in (part.below, part.above)
            )
            assert abs(below - float(want)) < 1e-13, (name, e)
            assert abs(above - float(1 - want)) < 1e-13, (name, e)
    assert nz.Marginal("skewnorm", (4.0,)).error > 2e-8


def test_a_family_without_an_accurate_cdf_is_not_called_exact() -> None:
    from sklearn.tree import DecisionTreeClassifier

    from durometer.probability.methods import probability
    from durometer.trees import read

    x = np.linspace(-2, 2, 40)[:, None]
    tree = read(DecisionTreeClassifier(max_depth=2).fit(x, (np.abs(x[:, 0]) > 1).astype(int)))
    rows = np.array([[0.2], [0.9]])
    for name, params, kind in (("norm", (0.0, 0.5), "exact"), ("skewnorm", (4.0,), "numerical")):
        noise = nz.Independent([nz.Marginal(name, params)])
        found = probability(tree, noise, rows, tree.predict(rows))
        assert found.kind == kind
        assert (found.width > 2e-8).all() == (kind == "numerical")


# --- by name


def test_parameters_by_name_are_matched_by_name():
    x = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "b", "c"])
    sd = pd.Series({"c": 3.0, "a": 1.0, "b": 2.0})
    same = [nz.Normal(sd=sd), nz.Normal(sd=sd.to_dict()), nz.Normal(sd=sd[["b", "a", "c"]])]
    for noise in same:
        placed = noise.arranged(list(x.columns))
        assert placed.sd == (1.0, 2.0, 3.0) and placed.names is None
    cov = pd.DataFrame(np.diag([9.0, 1.0, 4.0]), index=list("cab"), columns=list("cab"))
    assert np.allclose(np.diag(nz.Normal(cov=cov).arranged(list("abc")).cov), [1, 4, 9])
    mixed = nz.Normal(sd=sd, low={"a": 0, "b": -1, "c": -2}, immutable=("b",)).arranged(list("abc"))
    assert tuple(mixed.low) == (0, -1, -2) and mixed.immutable == (1,)
    parts = nz.Independent(
        {"c": nz.normal(0, 3), "a": nz.normal(0, 1), "b": nz.no_noise()}
    ).arranged(list("abc"))
    assert parts.parts == (nz.normal(0, 1), nz.no_noise(), nz.normal(0, 3))
    rho = pd.DataFrame([[1, 0.5], [0.5, 1]], index=["b", "a"], columns=["b", "a"])
    tied = nz.Copula({"a": nz.normal(0, 1), "b": nz.normal(0, 2)}, rho).arranged(["b", "a"])
    assert tied.parts == (nz.normal(0, 2), nz.normal(0, 1))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nz.Normal(sd={"a": 1}).arranged(["a", "b"]), "feature 'b' is not in the noise"),
        (
            lambda: nz.Normal(sd={"a": 1, "x": 2}).arranged(["a"]),
            "feature 'x' is not in the records",
        ),
        (lambda: nz.Normal(sd={"a": 1}).arranged(None), "records have no columns"),
        (lambda: nz.Normal(sd={"a": 1, "b": 1}, low=[0, 0]), "low has no names where others have"),
    ],
)
def test_names_that_do_not_fit_are_refused(make, said):
    with pytest.raises(DurometerError, match=said):
        make()
