"""Networks for tables: raw records in, logits out, gradients back, saved and loaded."""

import numpy as np
import pandas as pd
import pytest
import torch

import durometer as du
from durometer.architectures import MLP, RLN, STG, VIME, TableNet, TabNet, TabTransformer
from durometer.architectures.tables.tableinput import TableInput
from durometer.architectures.tables.tabnet import GhostNorm, sparsemax
from durometer.architectures.tables.vime import corrupt
from durometer.core.errors import DurometerError
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema
from durometer.training import Adversarial, Batch, CraftBy, Standard

ALL = (MLP, TabTransformer, TabNet, RLN, STG, VIME)
SMALL = {
    TabTransformer: {"width": 8, "depth": 1, "heads": 2, "head": 4},
    TabNet: {"n_d": 4, "n_a": 4, "n_steps": 2},
    VIME: {"width": 16, "depth": 1, "first": 2},
}

SCHEMA = Schema(
    [
        Feature("amount", "real", 0, 1000),
        Feature("pet", "category", values=("cat", "dog", "fish")),
        Feature("visits", "integer", 0, 10),
        Feature("red", "boolean", group="colour"),
        Feature("blue", "boolean", group="colour"),
        Feature("fixed", "real", 5, 5),
    ],
    ["visits <= amount"],
    "toy",
)


def records(n=240, seed=0):
    """Class 1: dogs with a large amount, and all that is blue."""
    rng = np.random.default_rng(seed)
    blue = rng.random(n) < 0.3
    pet = rng.integers(0, 3, n)
    amount = rng.uniform(10, 1000, n)
    y = (((pet == 1) & (amount > 300)) | blue).astype(int)
    x = np.stack([amount, pet, rng.integers(0, 10, n), ~blue, blue, np.full(n, 5.0)], axis=1)
    return x.astype(float), y


def made(kind, **more):
    return kind(SCHEMA, **SMALL.get(kind, {}), **more)


@pytest.mark.parametrize("kind", ALL)
def test_every_architecture_learns_numbers_categories_and_groups(kind):
    x, y = records(400)
    net = made(kind).fit(x, y, epochs=40, batch=64, rate=0.02, patience=40)
    x, y = records(300, seed=1)
    assert net.score(x, y) > 0.9
    proba = net.predict_proba(x)
    assert proba.shape == (300, 2)
    assert np.allclose(proba.sum(1), 1)
    assert not net.training


@pytest.mark.parametrize("kind", ALL)
def test_weights_and_training_are_functions_of_the_seed(kind):
    x, y = records(80)
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    a, b, c = (made(kind, seed=s).fit(x, y, epochs=2, batch=32) for s in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert np.array_equal(a.predict_proba(x), b.predict_proba(x))
    assert not np.array_equal(a.predict_proba(x), c.predict_proba(x))


@pytest.mark.parametrize("kind", ALL)
def test_a_saved_network_gives_the_same_answers(kind, tmp_path):
    x, y = records(60)
    net = made(kind, seed=3).fit(x, np.where(y, "yes", "no"), epochs=1, batch=32)
    net.save(tmp_path / "net.pt")
    again = TableNet.load(tmp_path / "net.pt")
    assert type(again) is kind
    assert np.array_equal(net.predict_proba(x), again.predict_proba(x))
    assert again.predict(x[:3]).tolist() == net.predict(x[:3]).tolist()
    assert set(again.predict(x)) <= {"yes", "no"}
    other = MLP if kind is not MLP else RLN
    with pytest.raises(DurometerError, match=kind.__name__):
        other.load(tmp_path / "net.pt")


@pytest.mark.parametrize("kind", ALL)
def test_gradients_reach_numbers_categories_and_groups(kind):
    x, y = records(200)
    net = made(kind).fit(x, y, epochs=5, batch=64, rate=0.01)
    z = torch.tensor(x[:50], requires_grad=True)
    logits = net(z)
    (logits[:, 1] - logits[:, 0]).sum().backward()
    some = (z.grad.abs() > 0).any(0).tolist()
    assert some[:2] == [True, True]  # amount and pet
    assert some[3] or some[4]


@pytest.mark.parametrize("kind", ALL)
def test_attacks_work_on_raw_records(kind):
    x, y = records(200)
    net = made(kind).fit(x, y, epochs=10, batch=64, rate=0.01)
    data = du.Dataset(x[:60], y[:60], schema=SCHEMA)
    report = du.evaluate(net, data, space=SCHEMA.space(eps=1.5), attack=du.CAPGD(5), progress=False)
    assert report.metric("robust").value < report.metric("clean").value


def test_a_category_keeps_its_value_forward_and_points_to_others_backward():
    layer = TableInput(SCHEMA)
    x = torch.tensor([[500.0, 1.0, 3.0, 0.0, 1.0, 5.0]], dtype=torch.float64, requires_grad=True)
    numbers, (group, pet) = layer.split(x)
    assert numbers.tolist() == [[0.5, pytest.approx(0.3), 0.0]]
    assert group.tolist() == [[0.0, 1.0]]
    assert pet.tolist() == [[0.0, 1.0, 0.0]]
    (towards_fish,) = torch.autograd.grad(pet[0, 2] - pet[0, 0], x)
    assert towards_fish[0, 1] > 0
    assert layer.size == layer(x).shape[1] == 8


def test_sparsemax_is_the_projection_onto_the_simplex():
    z = torch.randn(40, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2
    p = sparsemax(z)
    assert torch.allclose(p.sum(1), torch.ones(40, dtype=torch.float64))
    assert bool((p == 0).any())
    # Optimality of the nearest point: (z - p) . (q - p) <= 0 for every corner q.
    slack = (z - p) - ((z - p) * p).sum(1, keepdim=True)
    assert float(slack.max()) < 1e-9
    z = z[:4].clone().requires_grad_()
    assert torch.autograd.gradcheck(sparsemax, (z,))


def test_ghost_norm_uses_the_statistics_of_parts():
    norm = GhostNorm(2, part=4).train()
    x = torch.cat([torch.randn(4, 2), 50 + torch.randn(4, 2)])
    assert torch.allclose(norm(x)[:4].mean(0), torch.zeros(2), atol=1e-5)
    assert torch.allclose(norm(x)[4:].mean(0), torch.zeros(2), atol=1e-5)


def test_rln_moves_coefficients_as_published():
    """The update of one step against the paper's formula, with plain gradient steps."""
    net = RLN(SCHEMA, widths=(5,), theta=-6.0, nu=100.0, seed=0)
    x = torch.tensor(records(30)[0])
    y = torch.tensor(records(30)[1])
    rate = 0.1

    def gradient():
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        return net.body[0].weight.grad.clone()

    first = net.body[0].weight
    g0 = gradient()
    w0 = first.detach().clone()
    with torch.no_grad():
        first -= rate * g0
    net.after()
    w1 = w0 - rate * g0
    w1 = w1 - w1.sign() * torch.tensor(-6.0).exp()  # all coefficients are still theta
    assert torch.allclose(first, w1, atol=1e-7)
    sign = w1.sign()
    g1 = gradient()
    with torch.no_grad():
        first -= rate * g1
    net.after()
    log = -6.0 + 100.0 * rate * g1 * torch.tensor(-6.0).exp() * sign
    log = log + (-6.0 - log.mean())
    log = torch.minimum(log, (w1 - rate * g1).abs().log())
    assert torch.allclose(net.log0, log, atol=1e-4)
    assert float(net.log0.std()) > 0


def test_rln_really_thins_out_the_network():
    x, y = records(400)
    last = {"validation": None, "epochs": 30, "batch": 64}  # not the best epoch, which may be early
    plain = RLN(SCHEMA, widths=(16,), theta=-30.0).fit(x, y, **last)
    thin = RLN(SCHEMA, widths=(16,), theta=-6.0).fit(x, y, **last)
    assert thin.share_of_zeros() > plain.share_of_zeros() + 0.2


def test_stg_closes_the_gates_of_useless_features():
    x, y = records(600)
    net = STG(SCHEMA, widths=(16,), lam=0.1)
    net.fit(x, y, epochs=80, batch=64, rate=0.02, validation=None)
    gates = net.open_gates()
    assert net.score(x, y) > 0.9
    assert gates["amount"] > gates["visits"] + 0.2  # which says nothing
    assert min(gates.values()) == 0.0
    assert len(gates) == net.input.size == len(set(gates))
    hot = {name for name in gates if "=" in name}
    assert hot == {f"{f.name}={v}" for f in SCHEMA.features for v in f.values}


def test_vime_corrupts_with_values_of_other_rows_and_fixes_its_encoder():
    z = torch.arange(40.0).reshape(10, 4)
    copy, mask = corrupt(z, 0.5, torch.Generator().manual_seed(0))
    assert 5 < int(mask.sum()) < 35
    assert torch.equal(copy == z, ~mask)
    for column in range(4):
        assert set(copy[:, column].tolist()) <= set(z[:, column].tolist())
    x, y = records(100)
    net = made(VIME)
    fresh = net.encoder[0].weight.detach().clone()
    net.before(net._data(x, y, learn=True), {"batch": 32})
    learnt = net.encoder[0].weight.detach().clone()
    assert not torch.equal(fresh, learnt)
    net.fit(x, y, epochs=1, batch=32)
    data = net._data(x, y)
    batch = Batch(data.x, data.y, torch.arange(100), data, torch.Generator().manual_seed(0))
    assert net.extra(batch).item() > 0
    assert not net.encoder[0].weight.requires_grad


def test_tabtransformer_mixes_categories():
    """With attention, the gradient of one category's contribution depends on the other one."""
    net = made(TabTransformer).eval()
    z = net.input(torch.tensor(records(4)[0]))
    changed = z.clone()
    changed[:, 3:5] = changed[:, 3:5].flip(1)  # another category
    tokens = []
    hook = net.blocks.register_forward_hook(lambda m, i, o: tokens.append(o))
    net.logits(z), net.logits(changed)
    hook.remove()
    assert not torch.allclose(tokens[0][:, 1], tokens[1][:, 1])  # the *other* column's token moved


def test_labels_frames_and_what_is_refused():
    x, y = records(60)
    frame = pd.DataFrame(x, columns=SCHEMA.names)
    frame["pet"] = np.array(["cat", "dog", "fish"])[x[:, 1].astype(int)]
    net = made(MLP).fit(frame, y, epochs=1, validation=None)
    assert np.array_equal(net.predict_proba(frame), net.predict_proba(x))
    with pytest.raises(DurometerError, match="3 labels"):
        made(MLP).fit(x, np.array(list("abc"))[np.arange(60) % 3])
    with pytest.raises(DurometerError, match="label 2"):
        made(MLP).fit(x, y, validation=(x[:1], [2]))
    with pytest.raises(DurometerError, match="classes=1"):
        MLP(SCHEMA, 1)
    three = MLP(SCHEMA, 3).fit(x, np.array(list("abc"))[np.arange(60) % 3], epochs=1)
    assert three.predict_proba(x).shape == (60, 3)


def test_an_interrupted_fit_continues_exactly(tmp_path):
    x, y = records(100)
    whole = made(VIME).fit(x, y, epochs=4, batch=32, patience=9)
    made(VIME).fit(x, y, epochs=2, batch=32, patience=9, checkpoint=tmp_path / "a.pt")
    again = made(VIME).fit(x, y, epochs=4, batch=32, patience=9, checkpoint=tmp_path / "a.pt")
    assert np.array_equal(whole.predict_proba(x), again.predict_proba(x))


def test_constrained_adversarial_training_in_a_table():
    """`amount` tells the class exactly but can move; the colour tells it mostly and cannot."""

    def fragile(seed):
        x, _ = records(300, seed)
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 2, 300)
        blue = np.where(rng.random(300) < 0.25, 1 - y, y)
        x[:, 0] = 350 + 300 * y + rng.uniform(-60, 60, 300)
        x[:, 3], x[:, 4] = 1 - blue, blue
        return x, y

    space = SCHEMA.space(eps=0.3)
    data = du.Dataset(*fragile(1), schema=SCHEMA)
    robust = []
    for recipe in (Standard(), Adversarial(CraftBy(du.CAPGD(3), space))):
        net = MLP(SCHEMA, widths=(16,))
        net.fit(*fragile(0), recipe=recipe, epochs=20, batch=150, rate=0.05, validation=None)
        report = du.evaluate(net, data, space=space, attack=du.CAPGD(10), progress=False)
        robust.append(report.metric("robust").value)
    assert robust[1] > robust[0] + 0.1


def test_a_file_of_another_kind_is_not_loaded(tmp_path):
    torch.save({"weights": {}}, tmp_path / "other.pt")
    (tmp_path / "text.pt").write_text("no network")
    for name in ("other.pt", "text.pt", "missing.pt"):
        with pytest.raises(du.DurometerError, match=r"is no file that net\.save wrote"):
            TableNet.load(tmp_path / name)


def test_a_small_table_is_learnt_with_the_defaults():
    schema = du.Schema([du.Feature("a", "real", 0, 1), du.Feature("b", "real", 0, 1)])
    x = torch.rand(300, 2, generator=torch.Generator().manual_seed(0)).double()
    y = ((x[:, 0] > 0.5) ^ (x[:, 1] > 0.5)).long()
    net = MLP(schema, seed=0).fit(x, y)
    assert float((net.predict(x) == y.numpy()).mean()) > 0.9
