"""What a model answers is typed: logits, probabilities or labels, found out or said."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import durometer as du
from durometer.core.errors import DurometerError, Unsupported
from durometer.model.answers import only_labels
from durometer.model.frames import align_columns
from durometer.model.probe import probe


def blobs(n=120, d=6, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = 0.5 + 0.12 * rng.standard_normal((n, d))
    x[np.arange(n), y] += 0.25
    return np.clip(x, 0, 1), y


X, Y = blobs()
DATA = du.Dataset(X, Y)
LINEAR = LogisticRegression(C=100).fit(X, Y)


class OnlyPredict:
    """An estimator without scores."""

    classes_ = np.arange(3)

    def predict(self, x):
        return LINEAR.predict(np.asarray(x))


def found(model, data=DATA):
    return probe(align_columns(du.wrap(model), data), data.x[:64]).answers


def one_hot(x):
    return np.eye(3)[LINEAR.predict(np.asarray(x))]


def test_an_estimator_with_predict_alone_answers_with_labels():
    assert found(OnlyPredict()) == "labels"
    assert found(LINEAR) == "probabilities"


def test_a_function_that_gives_one_hot_rows_or_labels_answers_with_labels():
    assert found(one_hot) == "labels"
    assert found(lambda x: LINEAR.predict(np.asarray(x))) == "labels"
    named = du.Dataset(X, [("a", "b", "c")[i] for i in Y])
    assert (
        found(lambda x: np.array(["a", "b", "c"])[LINEAR.predict(np.asarray(x))], named) == "labels"
    )


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_steep_scores_are_no_labels(scale):
    assert found(lambda x: LINEAR.decision_function(np.asarray(x)) * scale) == "logits"


def test_the_detector_tells_votes_from_scores():
    models = [
        (RandomForestClassifier(20, random_state=0), False),
        (DecisionTreeClassifier(max_depth=2, random_state=0), False),
        (DecisionTreeClassifier(random_state=0), True),
        (KNeighborsClassifier(1), True),
        (KNeighborsClassifier(5), False),
    ]
    noisy = blobs(seed=1)
    x = torch.from_numpy(noisy[0])
    for model, votes in models:
        model.fit(X + 0.2 * np.random.default_rng(2).standard_normal(X.shape), Y)
        assert (
            only_labels(lambda z, m=model: torch.from_numpy(m.predict_proba(z.numpy())), x) == votes
        )
        hot = lambda z, m=model: torch.eye(3)[torch.from_numpy(m.predict(z.numpy()))]  # noqa: E731
        assert only_labels(hot, x)


def test_a_small_forest_is_no_label():
    """Two trees that turn a hair's breadth apart: only there the forest is torn."""

    def forest(z):
        votes = ((z[:, 0] > 0.5).double() + (z[:, 0] > 0.5 + 1e-4).double()) / 2
        return torch.stack([1 - votes, votes], 1)

    x = torch.rand(40, 2, generator=torch.Generator().manual_seed(0)).double()
    assert not only_labels(forest, x)
    assert only_labels(lambda z: torch.eye(2)[forest(z).argmax(1)], x)


def test_saturated_scores_show_between_the_rows():
    """All rows are far from the boundary and say exactly 0 and 1; half-way there is a slope."""
    x = torch.cat([torch.zeros(20, 2), torch.ones(20, 2)]).double()
    steep = lambda z: torch.softmax(60 * torch.stack([1 - z.sum(1), z.sum(1) - 1], 1), 1)  # noqa: E731
    rows = (steep(x).float() == steep(x).float().round()).all()
    assert bool(rows)
    assert not only_labels(lambda z: steep(z).float(), x)


def test_its_owner_may_say_otherwise():
    assert (
        probe(align_columns(du.wrap(one_hot, answers="probabilities"), DATA), DATA.x).answers
        == "probabilities"
    )
    assert probe(align_columns(du.wrap(LINEAR, answers="labels"), DATA), DATA.x).answers == "labels"
    with pytest.raises(DurometerError, match="answers='probabilities'.*offers labels only"):
        probe(align_columns(du.wrap(OnlyPredict(), answers="probabilities"), DATA), DATA.x)
    with pytest.raises(
        DurometerError, match="answers='votes': expected 'logits', 'probabilities' or 'labels'"
    ):
        du.wrap(one_hot, answers="votes")


def test_an_unknown_label_is_named():
    with pytest.raises(DurometerError, match="answers 7, which is none of the classes 0, 1, 2"):
        du.evaluate(lambda x: np.full(len(x), 7), DATA, space=du.Linf(0.1))


@pytest.mark.parametrize("attack", [du.Square(20), du.MOEVA(generations=2), du.Graft(10)])
def test_a_search_by_scores_refuses_labels(attack):
    with pytest.raises(Unsupported, match="reads scores, and .* answers with labels only.*Ray"):
        du.evaluate(OnlyPredict(), DATA, space=du.Linf(0.1), attack=attack)
    with pytest.raises(Unsupported, match="reads scores"):
        du.evaluate(OnlyPredict(), DATA, space=du.Linf(0.1), attack=du.Then(du.Ray(20), attack))


@pytest.mark.parametrize("space", [du.Linf(0.1), du.L2(0.2)])
def test_the_default_on_labels_sees_what_gradients_see(space):
    """A linear rule: its robust share has a closed form, which labels alone nearly reach."""
    w, b = LINEAR.coef_, LINEAR.intercept_
    score = X @ w.T + b
    right = score.argmax(1) == Y
    dual = 1 if space.p == np.inf else 2
    apart = np.linalg.norm(w[:, None] - w[None], dual, axis=2) + np.eye(3)
    gap = score[np.arange(len(Y)), Y][:, None] - score
    gap[np.arange(len(Y)), Y] = np.inf
    robust = right & (gap / apart[Y] > space.eps).all(1)
    report = du.evaluate(OnlyPredict(), DATA, space=space, progress=False)
    assert robust.mean() - 1e-9 <= report.metric("robust").value <= robust.mean() + 0.04
    assert report.spec.answers == "labels"
    flag = next(f for f in report.flags if f.id == "labels-only")
    assert "labels only" in flag.text and "upper bound" in flag.text
    assert "Square" not in str(report)
    assert "labels" in str(report)


def test_what_has_no_search_by_labels_is_refused():
    ids = np.random.default_rng(0).integers(0, 9, (40, 30))
    wide = du.Dataset(ids.astype(float), np.arange(40) % 2)

    def by_mean(x):
        return (np.asarray(x)[:, :15].mean(1) > 4).astype(int)

    with pytest.raises(Unsupported, match="labels only: no search for .* yet; give scores"):
        du.evaluate(by_mean, wide, space=du.Symbols(most=30, alphabet=9), progress=False)


@pytest.mark.parametrize("form", ["whole numbers", "zeros and ones", "one-hot"])
def test_labels_of_texts_are_not_searched_as_scores(form):
    """A function of sentences that gives labels was climbed as if it gave scores: all rows open,
    and no word of it."""
    good = " ".join(["good", "film", "nice", "story", "fine", "big"] * 4)
    texts = [f"{good} part {i}" for i in range(10)] + [f"bad dull slow plot {i}" for i in range(10)]

    def label(sentences):
        found = np.array([int(s.split().count("good") >= 1) for s in sentences])
        if form == "one-hot":
            return np.eye(2)[found]
        return found.astype(float) if form == "zeros and ones" else found

    data = du.Dataset(texts, label(texts).reshape(20, -1)[:, -1].astype(int))
    model = du.wrap(label, inputs="text")
    with pytest.raises(Unsupported, match="labels only: no search for sequences"):
        du.evaluate(model, data, space=du.Text(most=0.5), progress=False)
    with pytest.raises(Unsupported, match="reads scores, and .* answers with labels only"):
        du.evaluate(model, data, space=du.Text(most=0.5), attack=du.Greedy(), progress=False)


def test_trees_are_read_whatever_they_answer():
    """A tree of full depth answers with 0 and 1; what it does is read, not searched."""
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    report = du.evaluate(tree, DATA, space=du.Linf(0.05), progress=False)
    assert report.spec.answers == "labels"
    assert report.metric("open").value == 0
    assert not [f for f in report.flags if f.id == "labels-only"]


# --- several outputs --------------------------------------------------------------------------


class Both(nn.Module):
    """(features, logits), or the same by name."""

    def __init__(self, kind, width=32):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.kind = nn.Linear(6, width), kind
        self.head = nn.Linear(6, 3)
        self.head.weight.data = torch.from_numpy(LINEAR.coef_).float()
        self.head.bias.data = torch.from_numpy(LINEAR.intercept_).float()

    def forward(self, x):
        features, logits = self.body(x).relu(), self.head(x)
        parts = {"features": features, "decision": logits}
        return parts if self.kind == "dict" else tuple(parts.values())


@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_the_part_that_fits_the_labels_is_taken(kind):
    report = du.evaluate(Both(kind), DATA, space=du.Linf(0.02), attack=du.PGD(2), progress=False)
    assert report.metric("clean").value == LINEAR.score(X, Y)
    assert report.spec.answers_part == ("part 2 of 2" if kind == "tuple" else "'decision'")


@pytest.mark.parametrize("shape", ["tuple", "dict"])
def test_a_network_with_several_outputs_has_the_bounds_of_the_one_that_counts(shape):
    net, data = du.testing.toy()

    class Several(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            z = self.net(x)
            return (x, z) if shape == "tuple" else {"features": 5 * x, "logits": z}

    space = du.Linf(0.05)
    own, whole = (
        du.evaluate(m, data, space=space, attack=du.Bounds(), progress=False)
        for m in (net, Several())
    )
    assert own.counts("verdict") == whole.counts("verdict") and own.metric("proven").value > 0


def test_features_are_never_taken_for_scores():
    """Nothing has as many columns as there are classes."""
    net = Both("tuple")
    net.head = nn.Linear(6, 7)
    data = du.Dataset(X, Y, classes=("a", "b", "c"))
    with pytest.raises(DurometerError, match=r"gives 2 parts, \(64, 32\) and \(64, 7\).*3 classes"):
        du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(2))
    with pytest.raises(DurometerError, match=r"gives 2 parts"):
        du.wrap(Both("tuple")).logits(DATA.x)


def test_two_parts_that_both_fit_are_refused():
    with pytest.raises(DurometerError, match="2 of its parts have 3 columns"):
        du.evaluate(Both("tuple", 3), DATA, space=du.Linf(0.1), attack=du.PGD(2))


# --- what is no classifier ---------------------------------------------------------------------


def test_regressors_and_detectors_are_told_what_to_do():
    from sklearn.ensemble import IsolationForest
    from sklearn.linear_model import LinearRegression
    from sklearn.multioutput import MultiOutputClassifier

    with pytest.raises(Unsupported, match="is a regressor.*tolerance=10.*threshold=100"):
        du.wrap(LinearRegression().fit(X, Y))
    assert du.wrap(IsolationForest(n_estimators=5).fit(X)).names == ("-1", "1")
    both = MultiOutputClassifier(LogisticRegression()).fit(X, np.stack([Y > 0, Y > 1], 1))
    with pytest.raises(Unsupported, match="predicts 2 labels for a row"):
        du.wrap(both)
    with pytest.raises(DurometerError, match="it is not fitted"):
        du.wrap(LogisticRegression())


# --- probabilities that round to 0 and 1 --------------------------------------------------------


class Saturated(nn.Module):
    """softmax(k z): in float32 most rows are exactly 0 and 1."""

    def __init__(self, k, last=True):
        super().__init__()
        self.net, self.k, self.last = du.testing.Toy(8, 3, scale=4.0).float(), k, last

    def forward(self, x):
        z = self.k * self.net(x)
        return torch.softmax(z, 1) if self.last else z


def test_a_module_that_ends_in_a_softmax_is_asked_for_what_went_in():
    net, k = Saturated(300.0), torch.rand(6, 8)
    told = du.wrap(net, answers="probabilities")
    z = net.k * net.net(k)
    torch.testing.assert_close(told.logits(k), torch.log_softmax(z, 1))
    assert (net(k) == 0).any()
    data = du.Dataset(torch.rand(60, 8), net(torch.rand(60, 8)).argmax(1))
    x = torch.rand(60, 8, generator=torch.Generator().manual_seed(1))
    data = du.Dataset(x, net(x).argmax(1))
    asked = {"space": du.Linf(0.05), "attack": du.APGD(30), "progress": False}
    mine = du.evaluate(told, data, **asked).metric("robust").value
    bare = du.evaluate(Saturated(300.0, last=False), data, **asked).metric("robust").value
    assert abs(mine - bare) <= 0.03


def test_what_cannot_be_undone_is_called_unusable():
    net = Saturated(2000.0)
    x = torch.rand(60, 8, generator=torch.Generator().manual_seed(1))
    data = du.Dataset(x, net(x).argmax(1))

    def behind(z):
        with torch.no_grad():
            return net(torch.as_tensor(z).float()).numpy()

    asked = {"space": du.Linf(0.01), "attack": du.Square(20), "progress": False}
    report = du.evaluate(du.wrap(behind, answers="probabilities"), data, **asked)
    assert "unusable" in next(f.text for f in report.flags if f.id == "saturated")
    fine = du.evaluate(du.wrap(net, answers="probabilities"), data, **asked)
    assert not [f for f in fine.flags if f.id == "saturated"]


def test_a_sigmoid_at_the_end():
    class One(nn.Module):
        def forward(self, x):
            return torch.sigmoid(500 * (x[:, :1] - 0.5))

    x = torch.tensor([[0.1], [0.9]])
    logits = du.wrap(One(), answers="probabilities").logits(x)
    torch.testing.assert_close(logits[:, 1] - logits[:, 0], 500 * (x[:, 0] - 0.5))


def test_half_precision_is_flagged():
    net, data = du.testing.toy()
    report = du.evaluate(net.half(), data, space=du.Linf(0.1), attack=du.FGSM(), progress=False)
    assert "half-precision" in [f.id for f in report.flags]
    whole = du.evaluate(net.float(), data, space=du.Linf(0.1), attack=du.FGSM(), progress=False)
    assert "half-precision" not in [f.id for f in whole.flags]


def test_one_class_alone_is_not_below_chance():
    x, y = torch.rand(60, 2), torch.ones(60, dtype=torch.long)
    data = du.Dataset(x, y, classes=("a", "b"))
    always = lambda z: torch.stack([0 * z[:, 0] + 1 + z[:, 0], 0 * z[:, 0]], 1)  # noqa: E731
    report = du.evaluate(always, data, space=du.Linf(0.1), attack=du.FGSM(), progress=False)
    assert "below-chance" not in [f.id for f in report.flags]


def test_l0_has_a_default():
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.L0(2), progress=False)
    alone = du.evaluate(net, data, space=du.L0(2), attack=du.APGD(100), progress=False)
    assert report.metric("robust").value <= alone.metric("robust").value
    black = du.evaluate(
        lambda x: net(torch.as_tensor(x)).detach().numpy(), data, space=du.L0(2), progress=False
    )
    assert black.metric("robust").value < 1
