"""In-context models: a fixed context is a fixed model, and who holds context rows moves the rest.

TabPFN and TabICL are stood in for by classes with their signatures (tabpfn 2.x and tabicl 0.1, read
on 2026-11-19): neither their weights nor the packages are here.
"""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KernelDensity

import durometer as du


class TabICLClassifier(ClassifierMixin, BaseEstimator):
    """TabICL's interface around Gaussian kernels: fit keeps the rows, predict_proba reads them."""

    def __init__(
        self, n_estimators: int = 32, norm_methods: Any = None, feat_shuffle_method: str = "latin",
        class_shift: bool = True, outlier_threshold: float = 4.0, softmax_temperature: float = 0.9,
        average_logits: bool = True, use_hierarchical: bool = True, use_amp: bool = True,
        batch_size: int | None = 8, model_path: Any = None, allow_auto_download: bool = True,
        device: Any = None, random_state: int | None = 42, verbose: bool = False,
    ):  # fmt: skip
        named = locals()
        for name in inspect.signature(type(self)).parameters:
            setattr(self, name, named[name])

    def fit(self, X, y):
        assert isinstance(X, np.ndarray) and isinstance(y, np.ndarray)
        self.classes_ = np.unique(y)
        self.X_, self.y_ = X.copy(), y
        return self

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(1)]

    def predict_proba(self, X):
        near = np.exp(-((X[:, None] - self.X_[None]) ** 2).sum(2) * 8)
        votes = np.stack([near[:, self.y_ == c].sum(1) for c in self.classes_], 1) + 1e-9
        return votes / votes.sum(1, keepdims=True)


class TabPFNClassifier(TabICLClassifier):
    """TabPFN's two ways in: fit and predict_proba, and tensors with gradients."""

    def __init__(
        self, *, n_estimators: int = 8, softmax_temperature: float = 0.9, device: Any = "auto",
        fit_mode: str = "fit_preprocessors", random_state: int = 0,
        differentiable_input: bool = False,
    ):  # fmt: skip
        self.n_estimators, self.softmax_temperature = n_estimators, softmax_temperature
        self.device, self.fit_mode, self.random_state = device, fit_mode, random_state
        self.differentiable_input = differentiable_input

    def fit_with_differentiable_input(self, X: torch.Tensor, y: torch.Tensor):
        self.executor_ = (X, y)
        return self

    def forward(
        self, X, *, use_inference_mode: bool = False, return_logits: bool = False,
        return_raw_logits: bool = False,
    ):  # fmt: skip
        assert use_inference_mode and return_logits and self.differentiable_input
        rows, y = self.executor_
        near = (-8 * (X[:, None] - rows[None]).square().sum(2)).exp()
        votes = torch.stack([near[:, y == c].sum(1) for c in y.unique()], 1)
        return (votes + 1e-9).log()


def two_moons(n, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.normal(0, 0.12, (n, 2)) + np.where(y, 0.7, 0.3)[:, None]
    return du.Dataset(np.clip(x, 0, 1), y)


def a_net(**settings):
    return du.architectures.NanoPFN(features=6, classes=3, width=16, layers=2, heads=2, **settings)


def test_nano_is_what_plain_loops_compute():
    """Attention row by row, from the formulas."""
    net = a_net().double()
    g = torch.Generator().manual_seed(0)
    context = torch.randn(7, 4, generator=g, dtype=torch.float64) * torch.tensor([1, 5, 0.1, 2])
    x, labels = torch.randn(3, 4, generator=g, dtype=torch.float64), torch.arange(7) % 3
    w = {k: v.detach().numpy() for k, v in net.state_dict().items()}
    c = context.numpy()
    mean, spread = c.mean(0), c.std(0)

    def norm(z, name):
        z = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
        return z * w[f"{name}.weight"] + w[f"{name}.bias"]

    def affine(z, name):
        return w[f"{name}.weight"] @ z + w[f"{name}.bias"]

    def token(row):
        z = np.zeros(6)
        z[:4] = (row - mean) / spread * np.sqrt(6 / 4)
        return affine(z, "embed")

    told = [token(row) + w["label.weight"][:, k] for row, k in zip(c, labels, strict=True)]
    asked = [token(row) for row in x.numpy()]
    for i in range(2):
        at = f"layers.{i}"
        keys = [affine(norm(t, f"{at}.before"), f"{at}.key") for t in told]
        values = [affine(norm(t, f"{at}.before"), f"{at}.value") for t in told]

        def moved(t, at=at, keys=keys, values=values):
            q = affine(norm(t, f"{at}.before"), f"{at}.query")
            parts = []
            for h in (slice(0, 8), slice(8, 16)):
                scores = np.array([q[h] @ k[h] for k in keys]) / np.sqrt(8)
                share = np.exp(scores - scores.max())
                parts.append((share / share.sum()) @ np.array([v[h] for v in values]))
            t = t + affine(np.concatenate(parts), f"{at}.out")
            inner = affine(norm(t, f"{at}.after"), f"{at}.mix.0").clip(0)
            return t + affine(inner, f"{at}.mix.2")

        told, asked = [moved(t) for t in told], [moved(t) for t in asked]
    by_hand = np.array([affine(norm(t, "norm"), "head") for t in asked])
    np.testing.assert_allclose(net(context, labels, x).detach().numpy(), by_hand, atol=1e-10)
    fixed = net.given(context, labels, classes=2)
    np.testing.assert_allclose(fixed(x).numpy(), by_hand[:, :2], atol=1e-10)


def test_tables_of_a_batch_do_not_meet_and_constant_columns_say_nothing():
    net = a_net().double()
    x = torch.rand(3, 9, 5, dtype=torch.float64)
    labels = torch.arange(9).expand(3, 9) % 3
    whole = net(x, labels, x[:, :4])
    each = torch.stack([net(x[k], labels[k], x[k, :4]) for k in range(3)])
    torch.testing.assert_close(whole, each)
    still = x[0].clone()
    still[:, 2] = 7.0
    moved = still[:4].clone()
    moved[:, 2] = 100.0
    torch.testing.assert_close(net(still, labels[0], moved), net(still, labels[0], still[:4]))


def test_a_fixed_context_is_attacked_and_proven_like_any_network():
    context, test = two_moons(12, 0), two_moons(6, 1)
    net = a_net(seed=1).double()
    fixed = net.given(context.x, context.y, classes=2)
    report = du.evaluate(fixed, test, space=du.Linf(1e-4), attack=du.Bounds())
    assert report.metric("proven").value == report.metric("robust").value > 0
    far = du.evaluate(fixed, test, space=du.Linf(0.5), attack=du.PGD(20))
    assert far.metric("robust").value < report.metric("robust").value
    clean = du.defenses.InContext(net, context).base(None).logits(test.x)
    torch.testing.assert_close(clean, fixed(test.x))


@pytest.mark.parametrize("attack", [du.Poison(du.APGD(20)), du.Poison(du.Square(60))])
@pytest.mark.parametrize("model", ["module", TabPFNClassifier(differentiable_input=True)])
def test_poisoned_context_rows_move_the_answers_for_others(model, attack):
    torch.manual_seed(0)
    context, test = two_moons(24, 0), two_moons(30, 1)
    if model == "module":  # the same kernel
        module = torch.nn.Module()
        module.scale = torch.nn.Parameter(torch.tensor(8.0, dtype=torch.float64))

        def forward(rows, y, x):
            near = (-module.scale * (x[:, None] - rows[None]).square().sum(2)).exp()
            return torch.stack([near[:, y == c].sum(1) for c in (0, 1)], 1).add(1e-9).log()

        module.forward = forward
        model = module
    game, data = du.defenses.InContext(model, context).game(test, controlled=range(0, 24, 2))
    report = du.evaluate(game, data, space=du.Linf(1.0), attack=attack)
    assert report.metric("benign").n == 30  # the queries, and nothing else
    assert report.metric("benign_unpoisoned").value > 0.9
    assert report.metric("benign").value < report.metric("benign_unpoisoned").value - 0.05
    changed = (report.records.adversarial != data.x.numpy()).any(1)
    assert changed.any() and not changed[~game.controlled].any()


def test_estimators_without_gradients_are_searched():
    context, test = two_moons(24, 0), two_moons(20, 1)
    defender = du.defenses.InContext(TabICLClassifier(), context)
    game, data = defender.game(test, controlled=range(0, 24, 2))
    assert game.controlled[:24:2].all() and game.controlled.sum() == 12
    with pytest.raises(du.Unsupported, match="needs gradients"):
        du.evaluate(game, data, space=du.Linf(1.0), attack=du.Poison(du.APGD(2)))
    report = du.evaluate(game, data, space=du.Linf(1.0), attack=du.Poison(du.Square(60)))
    assert report.metric("benign").value < report.metric("benign_unpoisoned").value
    fixed = du.evaluate(
        TabICLClassifier().fit(context.x.numpy(), context.y.numpy()), test,
        space=du.Linf(0.05, low=-1, high=2), attack=du.Square(20),
    )  # fmt: skip
    own = defender.base(None).logits(test.x).argmax(1)
    np.testing.assert_array_equal(own.numpy(), fixed.records.columns["clean"])


def test_probabilities_of_classes_that_the_context_lacks_are_small():
    rows = du.Dataset([[0.0, 0.0], [1.0, 1.0]], [0, 2], classes=("a", "b", "c"))
    logits = du.defenses.InContext(TabICLClassifier(), rows).base(None).logits(rows.x)
    assert logits.shape == (2, 3)
    assert logits.argmax(1).tolist() == [0, 2]
    assert float(logits[:, 1].max()) < -20


def test_games_nobody_can_play_are_refused():
    context, test = two_moons(10, 0), two_moons(6, 1)
    defender = du.defenses.InContext(a_net().double(), context)
    for given in (11, -1, [10]):
        with pytest.raises(du.DurometerError, match="context has 10 rows"):
            defender.game(test, controlled=given)
    with pytest.raises(du.DurometerError, match="same columns"):
        defender.game(du.Dataset(np.zeros((3, 5)), [0, 1, 0]))
    with pytest.raises(du.DurometerError, match="which no row of the context has"):
        defender.game(du.Dataset(np.zeros((3, 2)), [0, 1, 2]))
    with pytest.raises(du.DurometerError, match="batch of 4 rows"):
        defender.adapt(None, test.x[:4], 0)
    with pytest.raises(du.DurometerError, match="fit and predict_proba"):
        du.defenses.InContext(KernelDensity(), context)
    with pytest.raises(du.DurometerError, match="got 9 columns"):
        a_net()(torch.zeros(3, 9), torch.zeros(3).long(), torch.zeros(1, 9))
    with pytest.raises(du.DurometerError, match="labels 0 to 5"):
        a_net()(torch.zeros(3, 2), torch.tensor([0, 5, 1]), torch.zeros(1, 2))


@pytest.mark.parametrize("model", ["nano", TabPFNClassifier(differentiable_input=True)])
def test_the_gradient_of_a_query_in_a_context_row_is_that_of_small_differences(model):
    context, test = two_moons(10, 0), two_moons(4, 1)
    net = a_net().double() if model == "nano" else model
    defender = du.defenses.InContext(net, context)
    x = torch.cat([context.x, test.x]).requires_grad_()
    wanted = defender.unrolled(None, x, 0)[0][-1, 1]
    (grad,) = torch.autograd.grad(wanted, x)
    assert float(grad[3].abs().max()) > 0
    step = 1e-6 if model == "nano" else 1e-2  # TabPFN is asked in single precision
    for f in (0, 1):
        ends = []
        for sign in (1, -1):
            moved = x.detach().clone()
            moved[3, f] += sign * step
            ends.append(float(defender.adapt(None, moved, 0)[0].logits(
                moved[-1:], torch.tensor([len(moved) - 1]))[0, 1].detach()))  # fmt: skip
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(
            float(grad[3, f]), rel=0.05, abs=1e-3
        )
