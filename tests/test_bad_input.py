"""Bad input: one clear DurometerError that names the value, before any attack starts."""

import re

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.errors import DurometerError
from durometer.problem.needs import Needs

X = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(40) % 3


class Net(torch.nn.Module):
    """Three classes from four features; `spoil` changes the answer."""

    def __init__(self, spoil=lambda out, x: out):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.spoil = spoil

    def forward(self, x):
        return self.spoil(self.layer(x), x)


class Never:
    """An attack that must not be reached."""

    needs = Needs()

    def __call__(self, problem):
        pytest.fail("the attack was started")


def evaluate(model=None, data=None, space=None, **how):
    how = {"attack": Never()} | how
    data = du.Dataset(X, Y) if data is None else data
    return du.evaluate(model or Net(), data, space=space or du.Linf(0.1), **how)


def refuses(said, make):
    with pytest.raises(DurometerError) as caught:
        make()
    assert re.search(said, str(caught.value), re.S), str(caught.value)


def changed(x, at, value):
    x = x.clone()
    x[at] = value
    return x


# --- the inputs


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinite_inputs(value):
    data = du.Dataset(changed(X, (7, 2), value), Y, ids=np.arange(40) + 100)
    refuses(f"1 of 40 inputs.*row 7 \\(id 107\\), feature 2: {value}", lambda: evaluate(data=data))


@pytest.mark.parametrize("value", [-0.25, 1.5])
def test_inputs_outside_the_box(value):
    data = du.Dataset(changed(X, (7, 2), value), Y)
    said = f"1 of 40 inputs lie outside the box.*row 7.*{value}.*low=, high="
    refuses(said, lambda: evaluate(data=data))


def test_inputs_outside_a_box_by_feature():
    box = du.Linf(0.1, high=torch.tensor([1.0, 1.0, 0.5, 1.0]))
    refuses("lie outside the box", lambda: evaluate(space=box))


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (np.zeros((0, 4)), np.zeros(0), "empty"),
        ([], [], "empty"),
        (torch.zeros(3), torch.zeros(3), r"x has shape \(3,\); expected \(examples, features"),
        (torch.zeros(3, 4, dtype=torch.int16), [0, 1, 2], r"int16; expected float32"),
        (torch.zeros(3, 4, dtype=torch.int64), [0, 1, 2], "int64; expected float32"),
        (torch.zeros(3, 4, dtype=torch.complex64), [0, 1, 2], "complex64; expected float32"),
        ([["a", "b"], ["c", "d"]], [0, 1], "x cannot be read as numbers"),
        ([[1.0], [1.0, 2.0]], [0, 1], "x cannot be read as numbers"),
        (X, Y[:-1], r"y has shape \(39,\); expected \(40,\)"),
        (X, Y[:, None], r"y has shape \(40, 1\)"),
        (X, Y - 1, "y holds -1; expected class indices"),
        (X, Y + 0.5, "y holds 0.5; expected class indices"),
        (X, Y.float() * float("nan"), "y holds nan"),
    ],
)
def test_data_that_is_none(x, y, said):
    refuses(said, lambda: du.Dataset(x, y))


def test_ids_and_class_names_that_do_not_fit():
    refuses("39 ids for 40 examples", lambda: du.Dataset(X, Y, ids=range(39)))
    refuses("id 3 occurs 2 times", lambda: du.Dataset(X, Y, ids=[3, *range(39)]))
    refuses("only 2 class names", lambda: du.Dataset(X, Y, classes=("a", "b")))
    refuses(
        "names 4 classes.*model has 3",
        lambda: evaluate(data=du.Dataset(X, Y, classes=list("abcd"))),
    )


def test_labels_out_of_the_models_range():
    refuses(r"y holds class 3, but the model has classes 0\.\.2",
            lambda: evaluate(data=du.Dataset(X, changed(Y, 39, 3))))  # fmt: skip


def test_a_subset_that_is_not_there():
    data = du.Dataset(X, Y, classes=("ant", "bee", "cat"))
    refuses("no class 'bat'; did you mean 'cat'", lambda: data.where(y="bat"))
    refuses("no row has class \\[5\\]", lambda: data.where(y=5))
    refuses("sample of 41 rows", lambda: data.sample(41))
    refuses("row 40", lambda: data.take([40]))


# --- the model


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda out, x: out * float("nan"), r"answers \[nan, nan, nan\] for row 0"),
        (lambda out, x: out / 0, "not finite"),
        (lambda out, x: out[:-1], "shape .*expected"),
        (lambda out, x: out[:, None], "shape .*expected"),
        (lambda out, x: out.sum(), "shape .*expected"),
        (lambda out, x: out[:, :0], "0 class"),
    ],
)
def test_a_model_that_returns_nonsense(spoil, said):
    refuses(said, lambda: evaluate(Net(spoil)))


def test_a_model_for_other_inputs():
    other = torch.nn.Linear(5, 3)
    refuses(r"cannot take.*\(40, 4\)|cannot take.*\(32, 4\)", lambda: evaluate(other))


def test_a_model_that_is_nan_on_a_later_row_keeps_what_was_done():
    last = X[39].clone()
    net = Net(lambda out, x: torch.where((x == last).all(1, keepdim=True), torch.nan, out))
    with pytest.raises(DurometerError, match="row .*id 39.*not finite|id 39") as caught:
        evaluate(net, batch=16, attack=du.PGD(2))
    assert len(caught.value.partial.records) == 32


@pytest.mark.parametrize("thing", [3, None, {"a": 1}, "no_such.onnx", du])
def test_what_is_no_model(thing):
    refuses("cannot wrap|no model file", lambda: du.evaluate(thing, du.Dataset(X, Y),
                                                             space=du.Linf(0.1)))  # fmt: skip


def test_an_estimator_that_is_not_fitted_or_no_classifier():
    from sklearn.linear_model import LinearRegression, LogisticRegression

    refuses("not fitted", lambda: evaluate(LogisticRegression()))
    refuses("is a regressor", lambda: evaluate(LinearRegression().fit(X.numpy(), Y.numpy())))


# --- the question


@pytest.mark.parametrize("eps", [0, -1, float("nan"), float("inf"), "8/255", None])
def test_a_radius_that_is_none(eps):
    refuses(f"eps={eps!r}: expected a positive number", lambda: evaluate(space=du.Linf(eps)))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.0, 0.0, "low=1.0 lies above high=0.0"),
        ([0.0, 0.0], 1.0, r"shape \(4,\)"),
        ("0", 1.0, "low='0'|must be numbers"),
        (float("nan"), 1.0, "nan"),
    ],
)
def test_a_box_that_is_none(low, high, said):
    refuses(said, lambda: evaluate(space=du.Linf(0.1, low, high)))


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (du.Targeted(3), r"class 3, but the model has classes 0\.\.2"),
        (du.Targeted(99), "class 99"),
        (du.Targeted("cat"), "class 'cat', but the data has no class names"),
        (du.Targeted([0, 1]), "2 targets, but the data has a row 39"),
        (du.Group({0: [5]}), "class 5"),
        (du.Group({7: [0]}), "class 7"),
        (du.Group({}), "empty relation"),
        (du.Group({0: 1}), "must be a list"),
        (du.Group({0: [0]}), "its own target"),
        (du.Untargeted(reject=9), "class 9"),
        (du.Group({0: []}), "no row of this data has any class"),
    ],
)
def test_goals_for_other_classes(goal, said):
    refuses(said, lambda: evaluate(goal=goal))


def test_parts_in_each_others_places():
    refuses("needs a space", lambda: du.evaluate(Net(), du.Dataset(X, Y), attack=Never()))
    refuses("data is a Tensor", lambda: du.evaluate(Net(), X, space=du.Linf(0.1)))
    refuses("space=0.1", lambda: evaluate(space=0.1))
    refuses("goal='untargeted'", lambda: evaluate(goal="untargeted"))
    refuses("attack=.*PGD", lambda: evaluate(attack="PGD"))
    refuses(r"attack=PGD: this is a class", lambda: evaluate(attack=du.PGD))


@pytest.mark.parametrize("batch", [0, -1, 1.5, "8"])
def test_batches(batch):
    refuses(f"batch={batch!r}", lambda: evaluate(batch=batch))


def test_an_attack_in_the_place_of_the_model():
    data = du.testing.toy()[1]
    refuses("is an attack", lambda: du.evaluate(du.FGSM(), data, space=du.Linf(0.1)))


def test_counts_that_nobody_can_mean():
    refuses("steps=a number of 16610 bits.*at most 1e\\+12",
            lambda: evaluate(attack=du.PGD(10**5000)))  # fmt: skip
    refuses("times=.*at most", lambda: evaluate(attack=du.Restarts(du.PGD(1), 10**13)))


def test_a_function_that_is_no_loss():
    inner = du.PGD(2, loss=torch.nn.Linear(3, 2))
    refuses("loss=Linear.*cannot be asked", lambda: evaluate(attack=du.Restarts(inner)))
    refuses(r"gives \(\); expected a tensor",
            lambda: evaluate(attack=du.PGD(2, loss=lambda z, t: z.sum())))  # fmt: skip


def test_a_loss_that_cannot_work_here():
    refuses("dlr.*3 classes", lambda: evaluate(attack=du.PGD(2, loss="dlr")))
    refuses("loss='marign'.*did you mean 'margin'",
            lambda: evaluate(attack=du.Then(du.PGD(2, loss="marign"))))  # fmt: skip


def test_an_attack_that_cannot_work_here():
    from sklearn.tree import DecisionTreeClassifier

    tree = DecisionTreeClassifier(max_depth=1).fit(X.numpy(), Y.numpy())
    refuses("needs gradients.*Square", lambda: evaluate(tree, attack=du.PGD(2)))
    refuses("L0", lambda: evaluate(space=du.L0(2), attack=du.Square(5)))
    refuses("at least one attack", lambda: evaluate(attack=du.Then()))


def test_a_forest_given_other_columns_is_told_of() -> None:
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    x, y = rng.random((40, 8)), rng.integers(0, 2, 40)
    forest = RandomForestClassifier(3, random_state=0).fit(x, y)
    data = du.Dataset(x[:, :5], y)
    with pytest.raises(du.DurometerError, match=r"cannot take inputs of shape \(40, 5\)"):
        du.evaluate(forest, data, space=du.Linf(0.1), attack=du.Square(10))


@pytest.mark.parametrize("noise", [0.05, du.noise.normal(0, 0.05)])
def test_a_noise_of_the_wrong_kind_is_told_of(noise: object) -> None:
    with pytest.raises(du.DurometerError, match=r"expected a Noise, e\.g\. du\.Normal"):
        du.Nature(lambda x: x, noise)


@pytest.mark.parametrize("attack", [None, du.FGSM()])
def test_a_noise_in_the_place_of_a_space(attack: object) -> None:
    with pytest.raises(du.DurometerError, match=r"du\.Nature\(model, noise\)"):
        du.evaluate(Net(), du.Dataset(X, Y), space=du.Normal(sd=0.1), attack=attack)


def test_grey_levels_where_shares_were_meant():
    refuses("eps=8 is more than the whole box, 1 wide", lambda: evaluate(space=du.Linf(8)))


@pytest.mark.parametrize("eps", [-0.1, 0.0, float("nan"), "8/255"])
def test_a_ball_without_a_size_is_refused_where_it_is_made(eps: object) -> None:
    with pytest.raises(du.DurometerError, match="expected a positive number"):
        du.Linf(eps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "attack"),
    [
        (r"APGD\(steps=-5\).*at least 1", lambda: du.APGD(-5)),
        (r"Square\(queries=0\).*at least 1", lambda: du.Then(du.PGD(3), du.Square(0))),
        (r"PGD\(step=-0.1\).*at least 0", lambda: du.Restarts(du.PGD(3, step=-0.1))),
        (r"PGD\(start='rendom'\).*did you mean 'random'", lambda: du.PGD(3, start="rendom")),
        (r"loss='margni'.*did you mean 'margin'", lambda: du.Guess(du.APGD(3, loss="margni"))),
        (r"PGD\(steps=2.5\).*whole number", lambda: du.PGD(2.5)),
        (r"PGD\(steps='10'\).*whole number", lambda: du.PGD("10")),
        (r"PGD\(steps=True\).*whole number", lambda: du.PGD(True)),
        (r"PGD\(step='a'\).*expected a number", lambda: du.PGD(3, step="a")),
        (r"Restarts\(attack=PGD\).*PGD\(\)", lambda: du.Restarts(du.PGD)),
        (r"Then\(attacks=.*PGD\(\)", lambda: du.Then(du.Guess(du.PGD(3)), du.PGD)),
        (r"Guess\(attack=PGD\).*PGD\(\)", lambda: du.Then(du.Guess(du.PGD))),
        (r"Guess\(attack='PGD'\): expected an Attack", lambda: du.Guess("PGD")),
    ],
)
def test_parameters_of_attacks(said, attack):
    refuses(said, lambda: evaluate(attack=attack()))


@pytest.mark.parametrize("spent", [{"forwards": -10}, {"backwards": 0}, {"forwards": 2.5}])
def test_budgets(spent):
    refuses("expected a whole number of at least 1", lambda: du.Budget(**spent))


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("seed='1'.*whole number", {"seed": "1"}),
        ("seed=1.5.*whole number", {"seed": 1.5}),
        (r"budget=5.*du\.Budget", {"budget": 5}),
        (r"run='runs/x'.*du\.Run", {"run": "runs/x"}),
        (r"also=Untargeted\(\).*list of goals", {"also": du.Untargeted()}),
        ("'x' is no goal", {"also": ["x"]}),
        ("Net is a class", {"model": Net}),
        ("Transductive is a class", {"model": du.Transductive}),
    ],
)
def test_what_else_evaluate_takes(said, how):
    refuses(said, lambda: evaluate(**how))


@pytest.mark.parametrize(
    ("said", "goal"),
    [
        (
            r"Group\(relation=\['a'\]\): expected|Group\(\['a'\]\): expected",
            lambda: du.Group(["a"]),
        ),
        (r"Targeted\(target=None\): expected", lambda: du.Targeted(None)),
        (r"Targeted\(target=-1\): expected", lambda: du.Targeted(-1)),
    ],
)
def test_goals_that_are_none(said, goal):
    refuses(said, lambda: evaluate(goal=goal()))


def adapting(**how):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    return du.Transductive(du.defenses.TENT(net.eval()), batch=10, **how)


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (r"attack=GMSA: this is a class", {"attack": du.GMSA}),
        ("space=.*no space", {"space": du.Linf, "attack": du.Transfer(du.PGD(2))}),
        (r"du\.Nature\(model, noise\)", {"space": du.Normal(sd=0.1), "attack": None}),
        ("goal='untargeted'", {"goal": "untargeted", "attack": None}),
        ("nobody attacks.*nothing to limit", {"attack": None, "budget": du.Budget(forwards=5)}),
        ("until=0.2.*build on each other", {"attack": None, "run": du.Run(until=0.2)}),
        ("Quota.*stays", {"attack": None, "goal": du.Quota(1, sources=(0,), targets=(1,))}),
    ],
)
def test_parts_of_a_game(said, how):
    refuses(said, lambda: evaluate(adapting(), **how))


def test_a_simulated_attack_that_was_not_made():
    refuses(r"GMSA\(inner=PGD\).*PGD\(\)", lambda: du.GMSA(du.PGD))
    refuses(r"GMSA\(iterations=-1\).*at least 0", lambda: du.FPA(du.PGD(2), -1))


def test_samples():
    for n in (0, 2.5, "3", 10**6):
        refuses("a sample of", lambda n=n: du.Dataset(X, Y).sample(n))
    assert len(du.Dataset(X, Y).where(y=np.int64(1))) == int((Y == 1).sum())


# --- arguments of evaluate


@pytest.mark.parametrize("given, said", [
    ({"atack": du.PGD(5)}, r"atack.*did you mean 'attack'"),
    ({"eps": 0.1}, r"eps=0.1.*belongs to the space.*space=du.Linf\(0.1\)"),
    ({"goal": du.Untargeted}, r"goal=Untargeted: this is a class.*Untargeted\(\.\.\.\)"),
    ({"attack": du.PGD}, r"attack=PGD: this is a class.*du.PGD\(\.\.\.\)"),
    ({"space": du.Patch}, r"space=Patch: this is a class"),
])  # fmt: skip
def test_arguments_that_evaluate_does_not_have_and_classes_for_objects(given, said):
    refuses(said, lambda: du.evaluate(Net(), du.Dataset(X, Y), **({"space": du.Linf(0.1)} | given)))
