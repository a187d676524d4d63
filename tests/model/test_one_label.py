"""Several labels for a row: one of them is evaluated, whatever the model is made of; rankers."""

import itertools

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

import durometer as du

X, Y = make_multilabel_classification(200, 6, n_classes=3, random_state=0)
X = X / X.max()
MODELS = {
    "one versus rest": OneVsRestClassifier(LogisticRegression()),
    "several forests": MultiOutputClassifier(RandomForestClassifier(10, random_state=0)),
    "forest": RandomForestClassifier(10, random_state=0),
    "neighbours": KNeighborsClassifier(),
    "network": MLPClassifier(8, max_iter=50, random_state=0),
    "chain": ClassifierChain(LogisticRegression()),
}


@pytest.mark.parametrize("label", [0, 2])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_label_of_an_estimator_is_what_it_predicts(name, label):
    model = MODELS[name].fit(X, Y)
    wrapped = du.wrap(model, label=label)
    own = model.predict(X)[:, label].astype(int)
    report = du.evaluate(
        wrapped,
        du.Dataset(X[:20], own[:20]),
        space=du.Linf(0.05),
        attack=du.Square(60),
        progress=False,
    )
    assert report.metric("clean").value == 1
    won = report.table["success"].to_numpy()
    moved = model.predict(np.asarray(report.adversarial, dtype=float))[:, label]
    assert (moved[won] != own[:20][won]).all() and won.any()


def test_trees_of_one_label_are_read_and_frames_are_asked_by_name():
    forests = MODELS["several forests"].fit(X, Y)
    data = du.Dataset(X[:20], forests.predict(X[:20])[:, 1])
    report = du.evaluate(
        du.wrap(forests, label=1), data, space=du.Linf(0.02), attack=du.Exact(), progress=False
    )
    assert report.metric("open").value == 0
    frame = pd.DataFrame(X, columns=list("abcdef"))
    named = MultiOutputClassifier(LogisticRegression()).fit(frame, Y)
    turned = frame[list("fedcba")].head(20).assign(y=named.predict(frame)[:20, 2])
    report = du.evaluate(
        du.wrap(named, label=2), du.Dataset(turned, target="y"), space=du.Linf(0.02),
        attack=du.Square(10), progress=False,
    )  # fmt: skip
    assert report.metric("clean").value == 1


def test_one_output_of_a_network_is_proven_and_of_a_function_attacked():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    x = torch.tensor(X[:30]).float()
    y = (net(x)[:, 1] > 0).long()
    report = du.evaluate(
        du.wrap(net, "logits", label=1), du.Dataset(x, y), space=du.Linf(0.01), progress=False
    )
    assert report.metric("clean").value == 1
    assert report.counts("verdict").get("proven", 0) > 0

    def each(z):
        return net(torch.as_tensor(z).float()).detach().numpy()

    seen = du.evaluate(
        du.wrap(each, "logits", label=1, inputs="array"), du.Dataset(x, y), space=du.Linf(0.3),
        attack=du.Square(200), progress=False,
    )  # fmt: skip
    assert seen.metric("clean").value == 1


def test_any_label_is_each_in_turn():
    """A row is broken in some label where it is broken in one: the recipe of the guide."""
    model = MODELS["several forests"].fit(X, Y)
    own = model.predict(X[:12])
    verdicts = [
        du.evaluate(
            du.wrap(model, label=j), du.Dataset(X[:12], own[:, j]), space=du.L0(1),
            attack=du.Exact(), progress=False,
        ).table["verdict"] for j in range(3)
    ]  # fmt: skip
    broken = np.any([v == "broken" for v in verdicts], axis=0)
    values = np.linspace(0, 1, 201)
    for i in range(12):
        moved = np.tile(X[i], (6 * len(values), 1))
        for at, (f, v) in enumerate(itertools.product(range(6), values)):
            moved[at, f] = v
        if (model.predict(moved) != own[i]).any():
            assert broken[i]


def test_what_cannot_be_one_label_is_refused_by_name():
    one = LogisticRegression().fit(X, Y[:, 0])
    with pytest.raises(
        du.DurometerError, match="label=0: LogisticRegression gives one label a row"
    ):
        du.wrap(one, label=0)
    several = MODELS["one versus rest"].fit(X, Y)
    with pytest.raises(du.DurometerError, match="gives 3 labels a row"):
        du.wrap(several, label=3)
    with pytest.raises(du.DurometerError, match="expected the place of a label"):
        du.wrap(several, label="sport")
    with pytest.raises(du.Unsupported, match="predicts 3 labels for a row.*label=j"):
        du.evaluate(several, du.Dataset(X[:9], Y[:9, 0]), space=du.Linf(0.1))
    with pytest.raises(du.DurometerError, match="one is evaluated at a time"):
        du.evaluate(several, du.Dataset(X[:9], Y[:9]), space=du.Linf(0.1))
    wide = torch.nn.Linear(6, 2)
    with pytest.raises(du.DurometerError, match="label=4"):
        du.evaluate(
            du.wrap(wide, label=4),
            du.Dataset(X[:9].astype("float32"), Y[:9, 0]),
            space=du.Linf(0.1),
        )


# --- rankers ----------------------------------------------------------------------------------

RANKS = (4 * X[:, 0]).astype(int)


@pytest.mark.parametrize("model", [
    lightgbm.LGBMRanker(n_estimators=10, verbose=-1, n_jobs=1, min_child_samples=5),
    xgboost.XGBRanker(n_estimators=10, max_depth=3, n_jobs=1),
    xgboost.XGBRanker(n_estimators=10, max_depth=3, n_jobs=1, objective="rank:pairwise"),
])  # fmt: skip
def test_scores_that_rank_are_decided_exactly_by_a_tolerance_or_a_threshold(model):
    ids = np.repeat(np.arange(10), 20)
    by = {"group": [20] * 10} if isinstance(model, lightgbm.LGBMRanker) else {"qid": ids}
    model.fit(X, RANKS, **by)
    score = model.predict(X)
    with pytest.raises(du.DurometerError, match="gives a score .a ranker.*tolerance"):
        du.evaluate(model, du.Dataset(X[:9], RANKS[:9] > 1), space=du.Linf(0.1))
    cut = float(np.median(score))
    for rule, moved in (
        ({"threshold": cut}, lambda s, clean: (s >= cut) != (clean >= cut)),
        ({"tolerance": 0.2}, lambda s, clean: np.abs(s - clean) > 0.2),
    ):
        report = du.evaluate(
            du.wrap(model, **rule), du.Dataset(X[:12], (score[:12] >= cut).astype(int)),
            space=du.L0(1), attack=du.Exact(), progress=False,
        )  # fmt: skip
        for i, verdict in enumerate(report.table["verdict"]):
            tried = np.tile(X[i], (6 * 401, 1))
            for at, (f, v) in enumerate(itertools.product(range(6), np.linspace(0, 1, 401))):
                tried[at, f] = v
            if moved(model.predict(tried), score[i]).any():
                assert verdict == "broken"
            if verdict == "broken":
                won = np.asarray(report.adversarial[[i]], dtype=float)
                assert moved(model.predict(won), score[i]).all()
