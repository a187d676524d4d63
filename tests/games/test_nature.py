"""The game without an adversary: what a user sees."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import xgboost as xgb
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.config.config import parse
from durometer.config.config import read as read_config
from durometer.config.writing import to_toml
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.records import Records
from durometer.probability import boxes
from durometer.probability.estimated import quasi as correlated
from durometer.probability.factors import by_factors, factors
from durometer.probability.methods import distribution, probability
from durometer.report.figures import noise as probabilities
from durometer.report.text import notes, title
from durometer.trees import read
from durometer.trees.grid import Grid

X, Y = load_iris(return_X_y=True)
DATA = du.Dataset(X[::6], Y[::6], ids=[f"flower {i}" for i in range(25)])


@pytest.fixture(scope="module")
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(8, max_depth=3, random_state=0).fit(X, Y)


def test_report_of_a_forest(forest: RandomForestClassifier, tmp_path: object) -> None:
    report = du.evaluate(du.Nature(forest, du.Normal(sd=0.2)), DATA)
    t = report.table
    assert (t["probability_high"] - t["probability_low"] <= 1e-6 + 1e-10).all()
    assert set(t["winner"]) == {"certified"}
    middle = (t["probability_low"] + t["probability_high"]) / 2
    assert report.metric("robust").value == pytest.approx(middle.mean())
    assert "probability that the answer stays" in str(report)
    assert "Under noise" in report.html()
    again = du.Report.load(report.save(tmp_path))  # type: ignore[arg-type]
    assert again.metric("robust").value == report.metric("robust").value


def test_iris_table_one_in_kind() -> None:
    """Depth 4, covariance 0.1 I: all boxes and 99 % boxes against the leaves."""
    model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
    ensemble, noise = read(model), du.Normal(cov=0.1 * np.eye(4))
    rows = X[::10]
    label = ensemble.predict(rows)
    ours = probability(ensemble, noise, rows, label)
    every = boxes(ensemble)
    for i, row in enumerate(rows):
        assert ours.middle[i] == pytest.approx(every.robustness(noise, row, label[i]), abs=1e-9)
        assert ours.middle[i] == pytest.approx(
            boxes(ensemble, noise, row, 0.99).robustness(noise, row, label[i]), abs=1e-4
        )


def test_batches_and_order_change_nothing(forest: RandomForestClassifier) -> None:
    game = du.Nature(forest, du.Normal(sd=0.3), method="monte carlo", draws=4000)
    whole = du.evaluate(game, DATA).table.set_index("id")
    turned = du.evaluate(game, DATA.take(torch.arange(24, -1, -1)), batch=7).table.set_index("id")
    assert (whole["probability_low"] == turned.loc[whole.index, "probability_low"]).all()


def test_any_classifier_by_sampling() -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3).double()
    report = du.evaluate(du.Nature(net, du.Normal(sd=0.3), tolerance=0.02, draws=20_000), DATA)
    assert set(report.table["winner"]) == {"sampled"}
    assert "at most 20,000 draws a record, 0.99 confidence" in str(report)


def _wide(game: du.Nature) -> list[str]:
    report = du.evaluate(game, DATA.take(torch.arange(9, 14)), progress=False)
    return [f.text for f in report.flags if f.id == "bounds-wide"]


def test_wide_intervals_are_told_what_narrows_them() -> None:
    torch.manual_seed(0)
    forest = RandomForestClassifier(100, random_state=0).fit(X, Y)  # too many cells to list them
    net, noise = torch.nn.Linear(4, 3).double(), du.Normal(sd=0.5)
    for method in ("auto", "importance"):
        assert _wide(du.Nature(net, noise, method=method, draws=2000)) == []
        (text,) = _wide(du.Nature(net, noise, method=method, draws=2000, tolerance=1e-5))
        assert text.endswith("give Nature more draws=")
    (text,) = _wide(du.Nature(forest, noise, budget=1e-9))
    assert "certified" in text and "budget= or use method='combined'" in text
    (text,) = _wide(du.Nature(forest, noise, budget=1e-3, method="estimate"))
    assert "estimate" in text and text.endswith("more budget=")


def test_importance_sampling_of_any_classifier() -> None:
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3).double()
    noise = du.Normal(sd=0.3)
    plain = du.Nature(net, noise, method="monte carlo", draws=50_000, tolerance=1e-4)
    clever = du.Nature(net, noise, method="importance", draws=20_000)
    a, b = (du.evaluate(game, DATA).table.set_index("id") for game in (plain, clever))
    assert set(b["winner"]) == {"importance"}
    assert (a["probability_low"] <= b["probability_high"]).all()
    assert (b["probability_low"] <= a["probability_high"]).all()


def test_rare_changes_can_be_read_off_the_report() -> None:
    def line(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([0 * x[:, 0], x[:, 0]], 1)

    data = du.Dataset(np.array([[-4.0], [4.0]]), [0, 1])
    game = du.Nature(line, du.Normal(sd=1.0), method="importance", draws=20_000)
    report = du.evaluate(game, data, progress=False)
    least, most = (report.metric(f"changes_{end}") for end in ("least", "most"))
    assert 1e-5 < least.value < norm.sf(4) < most.value < 1e-3
    for text in (str(report), report.html()):
        assert "probability that the answer changes, at least" in text
        assert f"{least.value:.1e}" in text and f"{most.value:.1e}" in text
    often = du.evaluate(replace(game, noise=du.Normal(sd=4.0)), data, progress=False)
    assert "answer changes" not in str(often)


def test_goals(forest: RandomForestClassifier) -> None:
    noise = du.Normal(sd=0.4)
    low, high = du.Nature(forest, noise).distribution(DATA)
    np.testing.assert_allclose((low + high).sum(axis=1) / 2, 1, atol=1e-5)
    landed = du.evaluate(du.Nature(forest, noise), DATA, goal=du.Targeted(2)).table
    away = DATA.y.numpy() != 2
    np.testing.assert_allclose(
        1 - landed["probability_low"].to_numpy()[away], high[away, 2], atol=3e-6
    )
    grouped = du.evaluate(du.Nature(forest, noise), DATA, goal=du.Group({0: [1, 2]})).table
    setosa = DATA.y.numpy() == 0
    np.testing.assert_allclose(
        grouped["probability_low"].to_numpy()[setosa], low[setosa, 0], atol=3e-6
    )


def test_records_without_a_target_are_no_part_of_the_figures(
    forest: RandomForestClassifier,
) -> None:
    nature, goal = du.Nature(forest, du.Normal(sd=0.4)), du.Group({1: [2]})
    whole = du.evaluate(nature, DATA, goal=goal)
    alone = du.evaluate(nature, DATA.where(y=1), goal=goal)
    assert whole.metric("robust") == alone.metric("robust")
    assert whole.metric("sure") == alone.metric("sure")
    assert (whole.table["skipped"] == "no target").sum() == (DATA.y != 1).sum()
    assert "probability that the goal is not reached" in str(whole)
    assert "left out: no target" in str(whole) and "answer stays" not in whole.html()
    with pytest.raises(du.DurometerError, match="no row of this data has any class"):
        du.evaluate(nature, DATA.where(y=0), goal=goal)


def test_a_probability_by_class_is_a_probability(forest: RandomForestClassifier) -> None:
    nature = du.Nature(forest, du.Normal(sd=0.4))
    parts = du.evaluate(nature, DATA).metric("robust", by="y")
    for c, part in parts.items():
        assert part.value == du.evaluate(nature, DATA.where(y=c)).metric("robust").value


def test_expected_accuracy_and_importance(forest: RandomForestClassifier) -> None:
    nature = du.Nature(forest, du.Normal(sd=0.3))
    low, high = nature.expected_accuracy(DATA)
    drawn = du.Normal(sd=0.3).sample(X[::6], 4000, np.random.default_rng(0)).reshape(-1, 4)
    share = (forest.predict(drawn) == np.repeat(Y[::6], 4000)).mean()
    assert low <= high and (low + high) / 2 == pytest.approx(share, abs=0.01)
    gained = nature.importance(DATA)
    low, high = gained["low"], gained["high"]
    assert low.shape == high.shape == (25, 4) and low.mean().idxmax() in (2, 3)  # petals decide
    assert ((high - low) < 1e-5).all(axis=None) and (low <= high).all(axis=None)
    table = pd.DataFrame(DATA.x.numpy()[:3], columns=list("abcd"), index=[7, 8, 9])
    table.attrs["units"] = {"c": "cm"}
    named = nature.importance(table)
    assert list(named["low"].columns) == ["a", "b", "c [cm]", "d"]
    assert list(named.index) == [7, 8, 9]


def test_importance_shows_what_is_not_known() -> None:
    """Wide intervals before and after: the gain's interval is as wide as both."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 12))
    y = (x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] + x[:, 4] > 0).astype(int)
    model = RandomForestClassifier(60, max_depth=7, random_state=0).fit(x, y)
    nature = du.Nature(model, du.Normal(sd=1.0), budget=1e-3)
    gained = nature.importance(x[:1])
    exact = du.Nature(model, du.Normal(sd=1.0), method="estimate", tolerance=0.01).importance(x[:1])
    assert ((gained["high"] - gained["low"]).mean(axis=None)) > 0.2
    assert (gained["low"] <= exact["high"]).all(axis=None)
    assert (gained["high"] >= exact["low"]).all(axis=None)


def test_an_interval_that_holds_one_half_decides_nothing() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 12))
    y = (x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] + x[:, 4] > 0).astype(int)
    model = RandomForestClassifier(60, max_depth=7, random_state=0).fit(x, y)
    data = du.Dataset(x[:8], y[:8])
    t = du.evaluate(du.Nature(model, du.Normal(sd=1.5), budget=1e-3), data).table
    undecided = (t["probability_low"] < 0.5) & (t["probability_high"] >= 0.5)
    assert undecided.any()
    assert not t.loc[undecided, "success"].any()
    assert ((t["verdict"] == "open") == undecided).all()
    # a certificate that stays wide has an estimate beside it, inside of it
    wide = t["probability_high"] - t["probability_low"] > 0.01
    assert wide.any() and (t["estimate_low"].notna() == wide).all()
    assert (t["estimate_low"] >= t["probability_low"])[wide].all()
    assert (t["estimate_high"] - t["estimate_low"])[wide].max() < 0.2


def test_records_are_converted_batch_by_batch(forest: RandomForestClassifier, monkeypatch) -> None:
    """Not the whole data set for every batch of rows."""
    import durometer.games.nature as module

    seen = []
    before = module.rows_of
    monkeypatch.setattr(
        module, "rows_of", lambda data: seen.append(len(before(data))) or before(data)
    )
    data = du.Dataset(np.repeat(X, 2, axis=0), np.repeat(Y, 2))
    game = du.Nature(forest, du.Normal(sd=1e-6))
    du.evaluate(game, data, batch=32)
    assert sum(seen) <= 3 * len(data), seen


def test_correlated_noise_three_ways() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    model = xgb.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1).fit(
        x, (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)
    )
    r = np.array([[1, 0.3, 0.2], [0.3, 1, 0.4], [0.2, 0.4, 1]])
    noise, rows, ensemble = du.Normal(cov=0.2 * r), x[:4], read(model)
    label = ensemble.predict(rows)
    load = factors(r)
    assert load is not None
    ends = by_factors(
        ensemble, Grid.of(ensemble), noise, rows, label, load, tolerance=1e-5, budget=5
    )
    assert ends is not None
    low, high = ends
    assert (high - low < 1e-4).all()
    mean, _, _ = correlated.estimate(ensemble, Grid.of(ensemble), noise, rows, tolerance=1e-3)
    np.testing.assert_allclose(mean[np.arange(4), label], (low + high) / 2, atol=1e-3)
    drawn = noise.sample(rows, 100_000, rng)
    hits = (ensemble.predict(drawn.reshape(-1, 3)).reshape(4, -1) == label[:, None]).mean(axis=1)
    np.testing.assert_allclose(hits, (low + high) / 2, atol=0.008)
    found = probability(ensemble, noise, rows, label, tolerance=1e-5)
    assert found.kind == "certified"
    tree = read(DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, model.predict(x)))
    a, b, kind = distribution(tree, noise, rows)
    assert kind == "certified"
    hits = (tree.predict(drawn.reshape(-1, 3)).reshape(4, -1) == 1).mean(axis=1)
    np.testing.assert_allclose((a[:, 1] + b[:, 1]) / 2, hits, atol=0.008)


def test_two_blocks_of_correlated_features_are_two_factors() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 5))
    model = xgb.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1).fit(
        x, (x[:, 0] * x[:, 1] + x[:, 2] - x[:, 3] > 0).astype(int)
    )
    r = np.eye(5)
    r[0, 1] = r[1, 0] = 0.7
    r[2, 3] = r[3, 2] = -0.6
    noise, rows, ensemble = du.Normal(cov=0.2 * r), x[:3], read(model)
    load = factors(r)
    assert load is not None and load.load.shape == (5, 2)
    found = probability(ensemble, noise, rows, ensemble.predict(rows), tolerance=1e-4, budget=4)
    assert found.kind == "certified" and (found.width < 1e-3).all()
    drawn = ensemble.predict(noise.sample(rows, 200_000, rng).reshape(-1, 5)).reshape(3, -1)
    hits = (drawn == ensemble.predict(rows)[:, None]).mean(axis=1)
    np.testing.assert_allclose(hits, found.middle, atol=0.006)
    chain = np.eye(5) + 0.4 * (np.eye(5, k=1) + np.eye(5, k=-1))
    assert factors(chain) is None  # one block that needs more than one factor


def test_refusals(forest: RandomForestClassifier) -> None:
    with pytest.raises(Unsupported, match="plays no attack"):
        du.evaluate(
            du.Nature(forest, du.Normal(sd=0.1)), DATA, space=du.Linf(0.1, high=9), attack=du.PGD(2)
        )
    with pytest.raises(Unsupported, match="name the class"):  # it would be read off no scores
        du.evaluate(du.Nature(forest, du.Normal(sd=0.1)), DATA, goal=du.LeastLikely())
    with pytest.raises(DurometerError, match="features"):
        du.evaluate(du.Nature(forest, du.Normal(sd=[0.1, 0.2])), DATA)
    with pytest.raises(DurometerError, match="tolerance"):
        du.Nature(forest, du.Normal(sd=0.1), tolerance=2)
    with pytest.raises(DurometerError, match="method"):
        du.Nature(forest, du.Normal(sd=0.1), method="magic")
    with pytest.raises(DurometerError, match="draws=0"):
        du.Nature(forest, du.Normal(sd=0.1), draws=0)
    with pytest.raises(DurometerError, match="confidence=99"):
        du.Nature(forest, du.Normal(sd=0.1), confidence=99)
    with pytest.raises(Unsupported, match="reads trees"):
        du.evaluate(
            du.Nature(torch.nn.Linear(4, 3).double(), du.Normal(sd=0.1), method="estimate"), DATA
        )
    with pytest.raises(DurometerError, match="not fitted"):
        du.evaluate(du.Nature(RandomForestClassifier(), du.Normal(sd=0.1)), DATA)


def test_regions_are_drawn_from_the_trees(forest: RandomForestClassifier) -> None:
    from xml.etree import ElementTree

    from durometer.report.page.regions import regions

    svg = regions(forest, du.Normal(sd=0.3), X[70], features=(2, 3), names=["a", "b", "<c>", "d"])
    root = ElementTree.fromstring(svg)
    boxes = [e for e in root if e.tag.endswith("rect")]
    assert len(boxes) > 4 and "&lt;c&gt;" in svg
    shown = {box[0].text for box in boxes}
    assert shown <= {"0", "1", "2"} and len(shown) > 1
    (legend,) = [e for e in root if e.tag.endswith("}g")]
    colours = {e.text: box.get("fill") for box, e in zip(legend[::2], legend[1::2], strict=True)}
    assert {box[0].text: box.get("fill") for box in boxes}.items() <= colours.items()
    with pytest.raises(DurometerError, match="two of"):
        regions(forest, du.Normal(sd=0.3), X[70], features=(1, 9))
    with pytest.raises(DurometerError, match="1 names"):
        regions(forest, du.Normal(sd=0.3), X[70], names=["a"])


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (du.Normal(sd=0.2), "normal noise of sd 0.2"),
        (du.Normal(sd=[0.1, 0.2, 0, 0.3]), "normal noise of sd 0 to 0.3"),
        (du.Normal(cov=0.04 * np.eye(4) + 0.01 / 3), "correlated normal noise of sd 0.208"),
        (
            du.Independent(
                (
                    du.noise.normal(0, 1 / 3),
                    du.noise.no_noise(),
                    du.noise.normal(0, 1),
                    du.noise.exponential(1),
                )
            ),
            "independent noise (norm 2, still 1, expon 1)",
        ),
        (du.Copula((du.noise.normal(0, 1),) * 4, np.eye(4)), "correlated noise (norm 4)"),
    ],
)
def test_the_head_of_a_report_names_the_noise(
    noise: du.noise.Noise, words: str, forest: RandomForestClassifier
) -> None:
    report = du.evaluate(du.Nature(forest, noise, tolerance=0.1), DATA.take(torch.arange(2)))
    assert title(report) == f"sklearn RandomForestClassifier on data under {words}"
    line = next(line for line in notes(report) if line.startswith("noise: "))
    assert len(line) < 190 and "0.33333" not in line
    assert words in report.html()


def test_intervals_of_means_hold_what_the_bounds_leave_open() -> None:
    low, high = np.array([0.0, 0.2]), np.array([1.0, 0.995])
    records = Records.of(2, id=np.arange(2), probability_low=low, probability_high=high)
    found = probabilities.figures(du.Report(du.Spec(), records))
    robust, sure = found["robust"][1], found["sure"][1]
    assert robust.value == pytest.approx(0.54875)
    assert robust.low <= 0.1 and robust.high >= 0.9975
    assert sure.value == 0 and sure.high == 1


@pytest.mark.filterwarnings("ignore:2 sin")
def test_correlations_that_had_to_be_moved_are_flagged(forest: RandomForestClassifier) -> None:
    parts = (du.noise.normal(0, 0.1),) * 4
    rows = DATA.take(torch.arange(3))
    for rho, moved in ((-0.9, True), (0.4, False)):
        noise = du.Copula(parts, rho + (1 - rho) * np.eye(4))
        report = du.evaluate(du.Nature(forest, noise, tolerance=0.01), rows, progress=False)
        texts = [f.text for f in report.flags if f.id == "noise-moved"]
        assert len(texts) == moved
        assert not moved or f"{noise.moved:.2g}" in texts[0]


TOML = """
[data]
name = "pima"
rows = 6
[model]
python = "women.py:model"
[noise]
type = "Independent"
parts = [
  {type = "no_noise"}, {type = "normal", mean = 0, sd = 9},
  {type = "normal", mean = 0, sd = 5}, {type = "no_noise"},
  {type = "exponential", scale = 20}, {type = "normal", mean = 0, sd = 2},
  {type = "normal", mean = 0, sd = 1}, {type = "Marginal", params = [0, 2], integer = true},
]
[nature]
tolerance = 1e-3
"""


def test_noise_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "women.py").write_text(
        "import xgboost as xgb\nfrom durometer import datasets\nd = datasets.pima()\n"
        "model = xgb.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1)\n"
        "model.fit(d.train.x.numpy(), d.train.y.numpy())\n"
    )
    file = tmp_path / "run.toml"
    file.write_text(TOML)
    config = read_config(file)
    assert parse(to_toml(config), file) == config
    report = config.play()
    assert set(report.table["winner"]) == {"certified"} and len(report.table) == 6
    for wrong, text in (
        (TOML.replace("tolerance", "tolerence"), "did you mean 'tolerance'"),
        (TOML + '[space]\ntype = "L2"\neps = 1\n', "nobody attacks"),
        (TOML.replace('"exponential"', '"exponentail"'), "exponential"),
        (TOML.split("[noise]")[0], "noise"),
    ):
        with pytest.raises(DurometerError, match=text):
            parse(wrong, file)


def test_the_shipped_file_runs(tmp_path: Path) -> None:
    file = Path(__file__).parents[2] / "examples" / "noise.toml"
    done = CliRunner().invoke(app, ["run", str(file), "--rows", "5", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    table = du.Report.load(tmp_path).table
    assert set(table["winner"]) == {"certified"}
    assert (table["probability_high"] - table["probability_low"] <= 1.01e-3).all()


def test_a_model_that_is_no_tree_is_asked_for_what_it_predicts():
    class Careful:
        """Says yes from 20 % on."""

        classes_ = np.array([0, 1])

        def predict_proba(self, x):
            yes = 1 / (1 + np.exp(-20 * (x[:, 0] - 0.5)))
            return np.stack([1 - yes, yes], 1)

        def predict(self, x):
            return (self.predict_proba(x)[:, 1] > 0.2).astype(int)

    def of_arrays(x):
        return np.stack([0.5 - x[:, 0].astype(float), x[:, 0] - 0.5], 1)  # tensors have no astype

    data = du.Dataset(np.array([[0.0], [0.45], [1.0]]), [0, 1, 1])
    for model, clean in ((Careful(), [0, 1, 1]), (of_arrays, [0, 0, 1])):
        game = du.Nature(model, du.Normal(sd=0.01))
        assert du.evaluate(game, data, progress=False).table["clean"].tolist() == clean


def test_columns_in_another_order_than_the_models_are_matched_by_name() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, Y)
    nature = du.Nature(tree, du.Normal(sd=0.1))
    data = du.Dataset(frame[:5], Y[:5])
    assert data.take([1, 2]).columns.names == ("a", "b", "c", "d")
    ends = ["probability_low", "probability_high", "clean"]
    want = du.evaluate(nature, data).table[ends]
    frame["more"] = 3.0  # a column the model does not know
    for order in (list("abdc"), list("dcba"), [*"bdca", "more"]):
        other = frame[order][:5]
        assert du.evaluate(nature, du.Dataset(other, Y[:5])).table[ends].equals(want)
        assert np.array_equal(nature.distribution(other)[0], nature.distribution(frame[:5])[0])
        gains = nature.importance(other)["low"]
        assert gains[list("abcd")].equals(nature.importance(frame[list("abcd")][:5])["low"])
    noise = du.Normal(sd={"a": 0.01, "b": 0.1, "c": 1.0, "d": 0.3})
    named = [
        du.evaluate(du.Nature(tree, noise), du.Dataset(frame[list(o)][:5], Y[:5])).table[ends]
        for o in ("abcd", "cdab")
    ]
    assert named[0].equals(named[1]) and not named[0].equals(want)
    frame = frame[list("abcd")]
    with pytest.raises(DurometerError, match="which the data do not have"):
        du.evaluate(nature, du.Dataset(frame[:5].rename(columns=str.upper), Y[:5]))  # other names


def test_parameters_of_a_noise_follow_their_names() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(frame, Y)
    data = du.Dataset(frame[:20], Y[:20])
    sd = pd.Series({"a": 0.01, "b": 0.1, "c": 1.0, "d": 0.3})
    want = du.evaluate(du.Nature(tree, du.Normal(sd=sd.to_list())), data).table
    for given in (sd, sd[::-1], sd[["c", "a", "d", "b"]].to_dict()):
        nature = du.Nature(tree, du.Normal(sd=given))
        found = du.evaluate(nature, data).table
        assert np.array_equal(found["probability_low"], want["probability_low"])
        assert nature.expected_accuracy(data) == du.Nature(
            tree, du.Normal(sd=sd.to_list())
        ).expected_accuracy(data)
    with pytest.raises(DurometerError, match="records have no columns"):
        du.evaluate(du.Nature(tree, du.Normal(sd=sd)), du.Dataset(X[:5], Y[:5]))


def test_small_batches_and_what_is_no_goal_or_no_rows(forest: RandomForestClassifier) -> None:
    nature = du.Nature(forest, du.Normal(sd=0.1))
    assert du.evaluate(nature, DATA).spec.batch == 32  # so that the bar moves
    with pytest.raises(DurometerError, match="this is no goal"):
        du.evaluate(nature, DATA, goal=du.Confident(du.PGD(3)))
    with pytest.raises(DurometerError, match=r"shape \(4,\): expected"):
        nature.distribution(X[0])


def test_a_model_whose_trees_are_not_read_can_be_sampled() -> None:
    line = xgb.XGBClassifier(booster="gblinear", n_estimators=3).fit(X[:100], Y[:100])
    data = du.Dataset(X[:2], Y[:2])
    with pytest.raises(Unsupported, match="gblinear.*method='monte carlo'"):
        du.evaluate(du.Nature(line, du.Normal(sd=0.3)), data)
    report = du.evaluate(du.Nature(line, du.Normal(sd=0.3), method="monte carlo", draws=500), data)
    assert set(report.table["winner"]) == {"sampled"}
