"""Operating rules against brute force: every valid point of a grid is asked of the model itself."""

from itertools import product

import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression

import durometer as du

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (500, 2))
Y = (X[:, 0] + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(500) > 0.75).astype(int)
T = 10 * X[:, 0] ** 2 - 5 * X[:, 1] + 0.3 * RNG.standard_normal(500)
EPS = 0.06

CLASSIFIERS = (
    RandomForestClassifier(7, max_depth=3, random_state=0),
    GradientBoostingClassifier(n_estimators=8, random_state=0),
    xgboost.XGBClassifier(n_estimators=8, max_depth=3),
    lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, min_child_samples=5),
)
REGRESSORS = (
    RandomForestRegressor(7, max_depth=3, random_state=0),
    ExtraTreesRegressor(5, max_depth=3, random_state=0),
    GradientBoostingRegressor(n_estimators=8, random_state=0),
    HistGradientBoostingRegressor(max_iter=8),
    xgboost.XGBRegressor(n_estimators=8, max_depth=3),
    lightgbm.LGBMRegressor(n_estimators=8, verbose=-1, min_child_samples=5),
)


def thresholds_of(model):
    """The thresholds of each feature, by the library's own dump."""
    if hasattr(model, "get_booster"):
        frame = model.get_booster().trees_to_dataframe()
        return [frame[frame.Feature == f"f{j}"].Split.to_numpy() for j in range(2)]
    if hasattr(model, "booster_"):
        frame = model.booster_.trees_to_dataframe()
        return [frame[frame.split_feature == f"Column_{j}"].threshold.to_numpy() for j in range(2)]
    if hasattr(model, "_predictors"):
        nodes = [
            n for stage in model._predictors for p in stage for n in p.nodes if not n["is_leaf"]
        ]
        return [
            np.array([n["num_threshold"] for n in nodes if n["feature_idx"] == j]) for j in range(2)
        ]
    trees = [t.tree_ for t in np.ravel(model.estimators_)]
    return [np.concatenate([t.threshold[t.feature == j] for t in trees]) for j in range(2)]


def scores_in_reach(model, score, row):
    """The score of one point of every cell of the trees within EPS, and of its corners."""
    sides = []
    for j in range(2):
        low, high = row[j] - EPS, row[j] + EPS
        cuts = np.asarray(thresholds_of(model)[j], dtype=float)
        inside = np.unique(cuts[(cuts > low) & (cuts < high)])
        edges = np.concatenate([[low], inside, [high]])
        sides.append(np.concatenate([[low, row[j], high], (edges[1:] + edges[:-1]) / 2]))
    return score(np.array(list(product(*sides))))


def oracle(model, score, wins, rows):
    return np.array(
        [wins(i, scores_in_reach(model, score, row)).any() for i, row in enumerate(rows)]
    )


def broken(report):
    assert report.metric("open").value == 0
    return np.asarray(report.table["verdict"]) == "broken"


def probability(model):
    return lambda x: model.predict_proba(x)[:, 1]


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_a_threshold_is_attacked_and_proven_as_brute_force_says(model):
    n, t = (500 if isinstance(model, RandomForestClassifier) else 60), 0.7
    model.fit(X, Y)
    report = du.evaluate(
        du.wrap(model, threshold=t), du.Dataset(X[:n], Y[:n]), space=du.Linf(EPS), progress=False
    )
    want = oracle(model, probability(model), lambda i, s: (s >= t) != Y[i], X[:n])
    np.testing.assert_array_equal(broken(report), want)
    assert 0 < want.sum() < n
    assert report.metric("clean").value == ((probability(model)(X[:n]) >= t) == Y[:n]).mean()
    assert "from 0.7" in report.spec.model_kind


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_bands(model):
    model.fit(X, Y)
    band = np.searchsorted([0.3, 0.7], probability(model)(X[:80]), side="right")
    assert set(band) == {0, 1, 2}
    wrapped = du.wrap(model, bands=[0.3, 0.7])
    report = du.evaluate(wrapped, du.Dataset(X[:80], band), space=du.Linf(EPS), progress=False)
    assert report.metric("clean").value == 1

    def wins(i, s):
        return np.searchsorted([0.3, 0.7], s, side="right") != band[i]

    np.testing.assert_array_equal(broken(report), oracle(model, probability(model), wins, X[:80]))
    review = du.Targeted("0.3 to 0.7")
    report = du.evaluate(
        wrapped, du.Dataset(X[:80], band), space=du.Linf(EPS), goal=review, progress=False
    )
    middle = oracle(model, probability(model), lambda i, s: (s >= 0.3) & (s < 0.7), X[:80])
    played = band != 1
    assert ((np.asarray(report.table["verdict"]) == "broken") == middle)[played].all()


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("how", ["both", "up", "share"])
def test_a_regressor_moves_by_more_than_the_tolerance(model, how):
    n = 500 if isinstance(model, RandomForestRegressor) and how == "both" else 40
    model.fit(X, T)
    clean = np.asarray(model.predict(X[:n]), dtype=float)
    share = how == "share"
    wrapped = du.wrap(model, tolerance=0.4 if share else 1.0, relative=share)
    goal = du.Targeted("rose") if how == "up" else du.Untargeted()
    report = du.evaluate(
        wrapped, du.Dataset(X[:n], np.zeros(n, int)), space=du.Linf(EPS), goal=goal, progress=False
    )
    far = 0.4 * np.abs(clean) if share else np.ones(n)

    def wins(i, s):
        s = np.asarray(s, dtype=float)
        return s > clean[i] + far[i] if how == "up" else np.abs(s - clean[i]) > far[i]

    want = oracle(model, model.predict, wins, X[:n])
    np.testing.assert_array_equal(broken(report), want)
    assert 0 < want.sum() < n
    moved = model.predict(np.asarray(report.adversarial)[want])
    assert all(wins(i, s) for i, s in zip(np.flatnonzero(want), moved, strict=True))


def test_a_regressor_with_a_threshold():
    model = REGRESSORS[0].fit(X, T)
    y = (model.predict(X[:60]) >= 2.0).astype(int)
    report = du.evaluate(
        du.wrap(model, threshold=2.0), du.Dataset(X[:60], y), space=du.Linf(EPS), progress=False
    )
    want = oracle(model, model.predict, lambda i, s: (s >= 2.0) != y[i], X[:60])
    np.testing.assert_array_equal(broken(report), want)


def test_an_anomaly_detector_is_attacked_by_its_score():
    model = IsolationForest(n_estimators=20, random_state=0).fit(X)
    y = model.predict(X[:30])
    data = du.Dataset(X[:30], [str(v) for v in y])
    report = du.evaluate(model, data, space=du.Linf(0.2), attack=du.Square(300), progress=False)
    assert report.metric("clean").value == 1
    hit = np.asarray(report.table["verdict"]) == "broken"
    assert 0 < hit.sum() < 30
    assert (model.predict(np.asarray(report.adversarial)[hit]) != y[hit]).all()
    assert not (np.asarray(report.table["verdict"]) == "proven").any()


@pytest.mark.parametrize("answers, cut", [("logits", 0.7), ("probabilities", 0.7), ("score", 0.25)])
def test_a_network_is_attacked_and_bounded_under_its_rule(answers, cut):
    torch.manual_seed(0)
    last = {"logits": [], "probabilities": [torch.nn.Sigmoid()], "score": []}[answers]
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1), *last)
    x = torch.from_numpy(X[:60]).float()

    def score(x):
        with torch.no_grad():
            out = net(torch.as_tensor(x).float())[:, 0].double()
        return (out.sigmoid() if answers == "logits" else out).numpy()

    cut = float(np.quantile(score(x), 0.5))
    y = (score(x) >= cut).astype(int)
    wrapped = du.wrap(net, answers, threshold=cut)
    report = du.evaluate(wrapped, du.Dataset(x, y), space=du.Linf(0.03), progress=False)
    verdict = np.asarray(report.table["verdict"])
    assert {"proven", "broken"} <= set(verdict)
    steps = 0.03 * np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2), -1).reshape(-1, 2)
    for i in range(60):
        found = ((score(X[i] + steps) >= cut) != y[i]).any()
        assert not (found and verdict[i] == "proven")
        assert found or verdict[i] != "broken" or abs(score(x[i : i + 1])[0] - cut) < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cut", [0.5, 0.7, 1000.1, -3.3, 0.0])
def test_the_score_of_a_network_that_equals_the_cut_is_above(dtype, cut):
    class Shows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = torch.nn.Parameter(torch.ones(1, dtype=dtype))

        def forward(self, x):
            return x * self.one

    near = torch.tensor([[cut]], dtype=dtype)
    up, down = (torch.nextafter(near, torch.full_like(near, s * torch.inf)) for s in (1, -1))
    for score in (near, up, torch.minimum(down, near - 1e-30)):
        want = int(float(score) >= cut)
        model = du.wrap(Shows(), "score", threshold=cut)
        assert model.logits(score).argmax(1).item() == want
        assert du.wrap(lambda x: x, "score", threshold=cut).logits(score).argmax(1).item() == want


def test_a_network_that_regresses_is_attacked_and_not_proven():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    x = torch.from_numpy(X[:40]).float()
    wrapped = du.wrap(net, "score", tolerance=0.02)
    report = du.evaluate(wrapped, du.Dataset(x, [0] * 40), space=du.Linf(0.1), progress=False)
    hit = np.asarray(report.table["verdict"]) == "broken"
    assert hit.any() and not (np.asarray(report.table["verdict"]) == "proven").any()
    with torch.no_grad():
        moved = (
            net(torch.as_tensor(report.adversarial[hit])) - net(x[torch.from_numpy(hit)])
        ).abs()
    assert bool((moved > 0.02).all())
    with pytest.raises(du.Unsupported):
        du.evaluate(
            wrapped, du.Dataset(x, [0] * 40), space=du.Linf(0.1), attack=du.Bounds(), progress=False
        )


def test_other_estimators_are_searched():
    linear = du.wrap(LinearRegression().fit(X, T), tolerance=0.5)
    report = du.evaluate(linear, du.Dataset(X[:20], [0] * 20), space=du.Linf(0.1), progress=False)
    assert (np.asarray(report.table["verdict"]) == "broken").all()  # it moves by 1.5
    logistic = LogisticRegression().fit(X, Y)
    model = du.wrap(logistic, threshold=0.7)
    want = logistic.predict_proba(X)[:, 1] >= 0.7
    np.testing.assert_array_equal(model.logits(torch.from_numpy(X)).argmax(1).numpy(), want)


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda m: type(m).__name__)
def test_cuts_take_no_doubt_from_the_sum(model):
    """The library adds to a base of 1000, however near to 0 the base less the cut is."""
    from durometer.trees.readers import relative_to, scores_of

    source = du.wrap(model.fit(X, T + 1000), tolerance=1.0).source
    trees = scores_of(source, None)
    made = relative_to(source, None, trees, float(model.predict(X[:1])[0]))
    assert made.slack() >= trees.slack()
    assert made.slack() < 1000 * trees.slack()


def test_a_score_at_the_cut_is_above_and_a_move_by_the_tolerance_is_none():
    from durometer.model.rules import Rule

    score = np.array([0.3, 0.7, np.nextafter(0.7, 0)])
    assert Rule((0.3, 0.7)).bands(score, score).tolist() == [1, 2, 1]
    assert Rule((0.3, 0.7)).logits(score, score, True).argmax(1).tolist() == [1, 2, 1]
    moved = np.array([5.0, 6.0, np.nextafter(6.0, 7), 4.0, np.nextafter(4.0, 3)])
    assert Rule(None, 1.0).bands(moved, np.full(5, 5.0)).tolist() == [1, 1, 2, 1, 0]
    assert Rule(None, 1.0).logits(moved, np.full(5, 5.0), False).argmax(1).tolist() == [
        1,
        1,
        2,
        1,
        0,
    ]


FOREST = RandomForestClassifier(3, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    "model, given, says",
    [
        (FOREST, {"threshold": 1.5}, "probabilities"),
        (FOREST, {"threshold": 0.5, "bands": [0.3]}, "one of them"),
        (FOREST, {"bands": [0.7, 0.3]}, "rise"),
        (FOREST, {"tolerance": 0.0}, "above 0"),
        (FOREST, {"relative": True}, "tolerance"),
        (FOREST, {"answers": "score"}, "needs threshold"),
        (lambda x: x, {"threshold": 0.7}, "which score"),
        (lambda x: x, {"threshold": 3.0, "answers": "logits"}, "no probability"),
        ("model.onnx", {"threshold": 0.7, "answers": "score"}, "not put on"),
        (RandomForestClassifier(2).fit(X, np.arange(500) % 3), {"threshold": 0.7}, "3 classes"),
    ],
)
def test_what_is_refused_is_named(model, given, says):
    with pytest.raises(du.DurometerError, match=says):
        du.wrap(model, **given)


def test_bands_do_not_take_two_classes_for_bands():
    data = du.Dataset(X[:20], Y[:20])
    with pytest.raises(du.DurometerError, match="the classes are the bands"):
        du.evaluate(du.wrap(FOREST, bands=[0.3, 0.7]), data, space=du.Linf(0.1), progress=False)


def test_several_labels_are_refused_and_one_of_them_is_served():
    from sklearn.multioutput import MultiOutputClassifier

    both = np.stack([Y, (X[:, 1] > 0.5).astype(int)], 1)
    for model in (MultiOutputClassifier(RandomForestClassifier(3)), RandomForestClassifier(3)):
        model.fit(X, both)
        with pytest.raises(du.Unsupported, match="predicts 2 labels for a row"):
            du.evaluate(model, du.Dataset(X[:9], Y[:9]), space=du.Linf(0.1), progress=False)
    with pytest.raises(du.DurometerError, match="one class per row"):
        du.Dataset(X[:9], both[:9])

    def second(x):
        return model.predict_proba(x)[1][:, 1]

    served = du.wrap(second, "probabilities", threshold=0.6, inputs="array")
    y = (second(X[:20]) >= 0.6).astype(int)
    report = du.evaluate(served, du.Dataset(X[:20], y), space=du.Linf(0.1), progress=False)
    hit = np.asarray(report.table["verdict"]) == "broken"
    assert report.metric("clean").value == 1 and hit.any()
    assert ((second(np.asarray(report.adversarial)[hit]) >= 0.6) != y[hit]).all()


@pytest.mark.parametrize("name", ["OneClassSVM", "LocalOutlierFactor", "EllipticEnvelope"])
def test_other_anomaly_detectors_are_asked_as_they_decide(name):
    from sklearn.covariance import EllipticEnvelope
    from sklearn.neighbors import LocalOutlierFactor
    from sklearn.svm import OneClassSVM

    made = {
        "OneClassSVM": OneClassSVM(nu=0.2),
        "LocalOutlierFactor": LocalOutlierFactor(novelty=True, contamination=0.2),
        "EllipticEnvelope": EllipticEnvelope(random_state=0),
    }[name].fit(X)
    labels = du.wrap(made).logits(torch.from_numpy(X)).argmax(1).numpy()
    np.testing.assert_array_equal(np.array([-1, 1])[labels], made.predict(X))
    cut = float(np.quantile(made.score_samples(X), 0.3))
    strict = du.wrap(made, threshold=cut).logits(torch.from_numpy(X)).argmax(1).numpy()
    np.testing.assert_array_equal(strict, made.score_samples(X) >= cut)


NOISE = du.Normal(sd=0.1)


def shares(score, wins, rows, draws=20_000):
    """How often the rule is met, by draws of our own."""
    rng = np.random.default_rng(99)
    return np.array(
        [
            wins(i, np.asarray(score(row + 0.1 * rng.standard_normal((draws, 2))), float)).mean()
            for i, row in enumerate(rows)
        ]
    )


def holds(report, want, draws=20_000):
    """The interval of P(stays) holds the drawn share, up to what draws can be off by."""
    off = 4.5 * np.sqrt(np.maximum(want * (1 - want), 1 / draws) / draws)
    low = np.asarray(report.table["probability_low"], float)
    high = np.asarray(report.table["probability_high"], float)
    assert (low <= want + off).all() and (want - off <= high).all()
    assert (high - low < 0.06).all()


def test_noise_on_a_threshold_and_on_bands():
    model = CLASSIFIERS[0].fit(X, Y)
    for rule, cuts in (({"threshold": 0.7}, [0.7]), ({"bands": [0.3, 0.7]}, [0.3, 0.7])):
        band = np.searchsorted(cuts, probability(model)(X[:30]), side="right")
        report = du.evaluate(
            du.Nature(du.wrap(model, **rule), NOISE), du.Dataset(X[:30], band), progress=False
        )

        def stays(i, s, cuts=cuts, band=band):
            return np.searchsorted(cuts, s, side="right") == band[i]

        holds(report, shares(probability(model), stays, X[:30]))
        assert set(report.table["winner"]) <= {"exact", "certified"}


@pytest.mark.parametrize("how", ["both", "up", "share"])
@pytest.mark.parametrize("model", [REGRESSORS[0], REGRESSORS[4]], ids=lambda m: type(m).__name__)
def test_noise_moves_a_regressor(model, how):
    model.fit(X, T)
    clean = np.asarray(model.predict(X[:12]), float)
    share = how == "share"
    far = 0.4 * np.abs(clean) if share else np.ones(12)
    game = du.Nature(du.wrap(model, tolerance=0.4 if share else 1.0, relative=share), NOISE)
    goal = du.Targeted("rose") if how == "up" else du.Untargeted()
    report = du.evaluate(game, du.Dataset(X[:12], [0] * 12), goal=goal, progress=False)

    def stays(i, s):
        return s <= clean[i] + far[i] if how == "up" else np.abs(s - clean[i]) <= far[i]

    holds(report, shares(model.predict, stays, X[:12]))
    assert set(report.table["winner"]) <= {"exact", "certified"}


def test_noise_moves_a_network_that_regresses():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def score(x):
        with torch.no_grad():
            return net(torch.as_tensor(x).float())[:, 0].double().numpy()

    clean = score(X[:8])
    game = du.Nature(du.wrap(net, "score", tolerance=0.02), NOISE)
    data = du.Dataset(torch.from_numpy(X[:8]).float(), [0] * 8)
    report = du.evaluate(game, data, progress=False)
    want = shares(score, lambda i, s: np.abs(s - clean[i]) <= 0.02, X[:8])
    assert (want < 0.9).any()
    holds(report, want)
    assert set(report.table["winner"]) == {"sampled"}
    with pytest.raises(du.Unsupported, match="moves with it"):
        game.certified_radius(X[:3])
    with pytest.raises(du.Unsupported, match="moves with it"):
        du.evaluate(game, data, space=du.L2(0.1), progress=False)


def test_columns_are_matched_by_name_behind_a_rule():
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b"])
    other = frame[["b", "a"]][:15].assign(y=Y[:15])
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(frame, Y)
    report = du.evaluate(
        du.Nature(du.wrap(model, threshold=0.7), NOISE),
        du.Dataset(other, target="y"),
        progress=False,
    )
    stays = model.predict_proba(frame[:15])[:, 1] >= 0.7
    holds(report, shares(lambda x: model.predict_proba(pd.DataFrame(x, columns=["a", "b"]))[:, 1],
                         lambda i, s: (s >= 0.7) == stays[i], X[:15]))  # fmt: skip
    prices = RandomForestRegressor(5, max_depth=3, random_state=0).fit(frame, T)
    wrapped = du.wrap(prices, tolerance=1.0)
    report = du.evaluate(du.Nature(wrapped, NOISE), du.Dataset(other, target="y"), progress=False)
    clean = prices.predict(frame[:15])
    holds(report, shares(lambda x: prices.predict(pd.DataFrame(x, columns=["a", "b"])),
                         lambda i, s: np.abs(s - clean[i]) <= 1, X[:15]))  # fmt: skip
    report = du.evaluate(wrapped, du.Dataset(other, target="y"), space=du.Linf(EPS), progress=False)
    want = oracle(
        prices, lambda x: prices.predict(pd.DataFrame(x, columns=["a", "b"])),
        lambda i, s: np.abs(s - clean[i]) > 1, X[:15],
    )  # fmt: skip
    np.testing.assert_array_equal(broken(report), want)
