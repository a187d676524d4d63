"""Mirror: search by labels in tables, through copies fitted to the labels."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier

import durometer as du
from durometer.attacks.decision.mirror import _first, _keys, _rounds
from durometer.core.errors import DurometerError

RNG = np.random.default_rng(0)
FEATURES = [du.Feature(n, "real", 0, 1) for n in "abcd"]
SCHEMA = du.Schema(
    [*FEATURES, du.Feature("k", "category", values=("u", "v", "w"))], ["a <= b"], name="small"
)


def rows(n):
    x = RNG.uniform(size=(n, 5))
    x[:, :2].sort(1)
    x[:, 4] = RNG.integers(0, 3, n)
    return x


X = rows(900)
Y = ((X[:, 1] + 0.5 * X[:, 2] + 0.3 * (X[:, 4] == 1)) > 0.9).astype(int)
VICTIM = GradientBoostingClassifier(n_estimators=40, max_depth=3, random_state=0).fit(X, Y)


class OnlyPredict:
    classes_ = np.arange(2)

    def predict(self, x):
        return VICTIM.predict(np.asarray(x))


DATA = du.Dataset(X[700:780], Y[700:780], schema=SCHEMA)


@pytest.mark.parametrize(("eps", "p"), [(0.1, np.inf), (0.15, 2), (1, 0)])
def test_labels_alone_find_nearly_what_is_there(eps, p):
    """The truth is the exact one, of the trees behind the labels."""
    space = SCHEMA.space(eps=eps, p=p)
    truth = du.evaluate(VICTIM, DATA, space=space, attack=du.Exact(), progress=False)
    assert truth.metric("open").value == 0
    report = du.evaluate(OnlyPredict(), DATA, space=space, progress=False)
    assert report.spec.answers == "labels"
    lost = truth.table["success"] & ~report.table["success"]
    assert not (report.table["success"] & ~truth.table["success"]).any()
    assert lost.mean() <= 0.1
    assert report.table["forwards"].max() <= 302  # the clean answer, and one as a donor
    assert "labels-only" in [f.id for f in report.flags]
    assert report.metric("valid").value == 1


@pytest.mark.parametrize("attack", [du.Mirror(20), du.Standard()])
def test_records_do_not_depend_on_the_size_of_a_batch(attack):
    space = SCHEMA.space(eps=0.05, p=np.inf)
    asked = {"space": space, "attack": attack, "progress": False}
    asked["budget"] = du.Budget(forwards=22)
    whole = du.evaluate(OnlyPredict(), DATA, **asked)
    for size in (16, 64, 512):
        other = du.evaluate(OnlyPredict(), DATA, batch=size, **asked)
        for column in ("success", "forwards", "margin"):
            assert (whole.table[column] == other.table[column]).all(), (size, column)
        assert np.array_equal(whole.adversarial, other.adversarial)
    with pytest.raises(DurometerError, match="batch=50: rows learn .* divides 256"):
        du.evaluate(OnlyPredict(), DATA, batch=50, **asked)


def test_more_rows_than_share_answers_are_cut_at_the_same_places():
    space = SCHEMA.space(eps=0.05, p=np.inf)
    data = du.Dataset(X[:520], Y[:520], schema=SCHEMA)
    asked = {"space": space, "attack": du.Mirror(5), "progress": False}
    whole, other = (du.evaluate(OnlyPredict(), data, batch=b, **asked) for b in (1024, 128))
    assert np.array_equal(whole.adversarial, other.adversarial)


def test_every_question_is_in_somebodys_record():
    asked = []

    class Counting(OnlyPredict):
        def predict(self, x):
            asked.append(len(x))
            return super().predict(x)

    space = SCHEMA.space(eps=0.05, p=np.inf)
    model = du.wrap(Counting(), answers="labels")
    job = du.Job(model, DATA, space, attack=du.Mirror(10)).bound()
    job.prepare()
    before = sum(asked)
    (chunk,) = job.play_at_once([0])
    # played: the clean answers and the search; prepared: the donors, and looks at a few rows
    donors = min(256, len(DATA))
    assert int(chunk.records.columns["forwards"].sum()) == sum(asked) - before + donors


def test_scores_are_learnt_where_there_are_any():
    space = SCHEMA.space(eps=0.1, p=np.inf)
    truth = du.evaluate(VICTIM, DATA, space=space, attack=du.Exact(), progress=False)
    few = {"space": space, "progress": False, "budget": du.Budget(forwards=22)}
    seen = du.evaluate(VICTIM, DATA, attack=du.Mirror(20), **few)
    grown = du.evaluate(VICTIM, DATA, attack=du.Graft(20), **few)
    assert not (seen.table["success"] & ~truth.table["success"]).any()
    assert seen.metric("robust").value < grown.metric("robust").value


def test_any_goal_and_a_budget():
    space = SCHEMA.space(eps=0.2, p=np.inf)
    report = du.evaluate(
        OnlyPredict(), DATA, space=space, goal=du.Targeted(1), attack=du.Mirror(30),
        budget=du.Budget(forwards=12), progress=False,
    )  # fmt: skip
    assert report.table["forwards"].max() <= 12
    won = report.table["success"].to_numpy()
    assert (VICTIM.predict(report.adversarial[won]) == 1).all()


def test_one_label_alone_is_searched_all_the_same():
    some = DATA.where(y=1)
    report = du.evaluate(OnlyPredict(), some, space=SCHEMA.space(eps=0.3, p=np.inf),
                         attack=du.Mirror(60), progress=False)  # fmt: skip
    assert report.metric("robust").value < 1


def test_rounds_and_keys():
    assert sum(_rounds(300)) == 300 and next(_rounds(3)) == 3
    x = RNG.uniform(size=(500, 4))
    same = _keys(np.concatenate([x, x]), np.zeros(1000, int))
    assert len(np.unique(same)) == 500
    assert len(np.unique(_keys(x, np.ones(500, int)).tolist() + same.tolist())) == 1000
    assert _first(np.array([[3, 5, 3, 3]])).tolist() == [[True, True, False, False]]


def test_a_space_without_a_ball_is_not_searched_as_one():
    x = RNG.uniform(size=(12, 1, 16, 16))
    data = du.Dataset(x, (x.mean((1, 2, 3)) > 0.5).astype(int))

    def label(z):
        return (np.asarray(z).mean((1, 2, 3)) > 0.5).astype(int)

    with pytest.raises(du.Unsupported, match="no standard attack for Quantised.Patch"):
        space = du.Quantised(du.Patch(np.ones((16, 16))))
        du.evaluate(label, data, space=space, progress=False)
    with pytest.raises(du.Unsupported, match="Walk works in L1, L0"):
        du.evaluate(label, data, space=du.Linf(0.1), attack=du.Walk(20), progress=False)
