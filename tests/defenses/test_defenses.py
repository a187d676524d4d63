"""The defences: pure functions all of them, and each does what its paper says it does."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.toys.transductive import Sloppy, plane
from torch import nn

import durometer as du
from durometer.architectures import domain_mlp
from durometer.architectures.domain import Shift
from durometer.core.streams import seeded
from durometer.defenses import DANN, DENT, RMC, TADV, TENT, Adapting, Control, URejectron
from durometer.defenses.dent import AdaMod, sharpness
from durometer.defenses.rmc import Bank, penultimate
from durometer.testing import check_defender

TRAIN = plane(80, seed=5)
SPACE = du.Linf(0.1)


def net(width=8, classes=2):
    return nn.Sequential(
        nn.Linear(2, width),
        nn.BatchNorm1d(width),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(width, classes),
    )


def trained():
    return Control(net, TRAIN, epochs=8, rate=0.02).train(0).module


def domain():
    return domain_mlp(torch.tensor([0.5, 0.5]), torch.tensor([0.3, 0.3]), width=8)


def defenders():
    return {
        "RMC": RMC(trained(), TRAIN, SPACE, du.PGD(3), k=16, epochs=3, batch=8),
        "DENT": DENT(trained()),
        "TENT": TENT(trained(), steps=2),
        "TENT episodic": TENT(trained(), episodic=True, predict="post"),
        "DANN": DANN(domain, TRAIN, epochs=2, iterations=6, batch=8),
        "TADV": TADV(net, TRAIN, SPACE, du.PGD(2), epochs=1),
        "Control": Control(net, TRAIN, epochs=1),
        "URejectron": URejectron(trained(), net, TRAIN, epochs=1),
        "Adapting": Adapting(Sloppy()),
        "Adapting episodic": Adapting(Sloppy(), reset="episodic"),
    }


@pytest.mark.parametrize("name", list(defenders()))
def test_every_defence_is_pure(name):
    check_defender(defenders()[name], plane(10).x)


@pytest.mark.parametrize("name", list(defenders()))
def test_every_defence_can_be_attacked(name):
    goal = du.Untargeted(reject=2) if name == "URejectron" else None
    report = du.evaluate(
        du.Transductive(defenders()[name], batch=6),
        plane(12),
        space=SPACE,
        attack=du.GMSA(du.PGD(3), "min", 1),
        goal=goal,
    )
    assert len(report.table) == 12 and report.table["valid"].all()


def test_impure_defenders_are_found():
    class Hidden(Adapting):
        """Counts its calls where no copy reaches."""

        calls: ClassVar = [0]

        def adapt(self, state, x, seed):
            self.calls[0] += 1
            model, after = super().adapt(state, x, seed)
            call = model.call
            object.__setattr__(model, "call", lambda x, rows: call(x, rows) + self.calls[0])
            return model, after

    with pytest.raises(AssertionError, match="second time"):
        check_defender(Hidden(Sloppy()), plane(8).x)

    class InPlace(DENT):
        def start(self):
            return [0.0]

        def adapt(self, state, x, seed):
            state[0] += 1.0
            model, _ = super().adapt(None, x, seed)
            call, shift = model.call, state[0]
            object.__setattr__(model, "call", lambda x, rows: call(x, rows) + shift)
            return model, state

    with pytest.raises(AssertionError, match="second time|changes the state"):
        check_defender(InPlace(trained()), plane(8).x)

    class Global(DENT):
        def adapt(self, state, x, seed):
            torch.rand(1)
            return super().adapt(state, x, seed)

    with pytest.raises(AssertionError, match="global random numbers"):
        check_defender(Global(trained()), plane(8).x)


def test_seeded_leaves_the_outside_alone():
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with seeded(7):
        inside = torch.rand(3), np.random.rand()  # noqa: NPY002
    assert torch.equal(torch.rand(2), expected)
    with seeded(7):
        again = torch.rand(3), np.random.rand()  # noqa: NPY002
    assert torch.equal(inside[0], again[0]) and inside[1] == again[1]


def test_neighbours_are_those_of_a_full_sort():
    g = torch.Generator().manual_seed(0)
    bank, queries = torch.rand(200, 5, generator=g), torch.rand(7, 5, generator=g)
    expected = torch.cdist(queries.double(), bank.double()).argsort(1)[:, :20]
    found = Bank(bank, torch.zeros(200), bank, 100)
    assert torch.equal(found.nearest(queries, 20), expected)
    assert torch.equal(found.around(queries[:1], 20), expected[0])
    union = found.around(queries, 20)
    assert set(union.tolist()) == set(expected.flatten().tolist()) and len(union) == len(
        set(union.tolist())
    )
    assert set(union[:5].tolist()) <= set(expected[:, :2].flatten().tolist())


def test_penultimate_features_are_the_inputs_of_the_last_linear_layer():
    model = trained()
    x = plane(6).x
    torch.testing.assert_close(penultimate(model, x), model[:4](x))
    with pytest.raises(du.DurometerError, match="no linear layer"):
        penultimate(nn.Conv2d(1, 1, 1), torch.zeros(1, 1, 1, 1))


def test_rmc_keeps_weights_and_calibrates_between_rounds():
    defender = defenders()["RMC"]
    start = defender.start()
    assert len(start.bank.x) == 160 and start.bank.clean == 80
    _, after = defender.adapt(start, plane(1).x, 3)
    assert "now" not in vars(after)  # the calibration is a promise until somebody asks
    before, _ = after.weights, after.now
    moved = [
        k
        for k in before
        if before[k].is_floating_point() and not torch.equal(before[k], after.now[0][k])
    ]
    assert moved
    plain = RMC(trained(), TRAIN, k=16, epochs=2, calibrate=False)
    _, after = plain.adapt(plain.start(), plane(1).x, 3)
    assert after.now[0] is after.weights and after.moments is not None


def test_rmc_learns_the_neighbourhood_of_the_test_point():
    # A base that knows nothing becomes right near the point it is asked about.
    torch.manual_seed(0)
    blank = net()
    data = plane(10, seed=9)
    report = du.evaluate(
        du.Transductive(RMC(blank, TRAIN, k=40, epochs=12, rate=0.02, batch=16), batch=1),
        data,
        space=SPACE,
        attack=None,
    )
    assert report.metric("clean").value > 0.9


def test_adamod_is_adam_with_a_capped_rate():
    values, grads = {"w": torch.tensor([1.0, -2.0])}, {"w": torch.tensor([0.5, -0.1])}
    optimiser = AdaMod(0.1)
    after = optimiser.step(values, grads)
    # First step: Adam's would be rate * sign; the cap is (1 - 0.6) of it.
    torch.testing.assert_close(
        after["w"], values["w"] - 0.04 * grads["w"].sign(), atol=1e-5, rtol=0
    )
    assert values["w"].tolist() == [1.0, -2.0]
    for _ in range(30):
        after = optimiser.step(after, grads)
    step = after["w"] - optimiser.step(after, grads)["w"]
    torch.testing.assert_close(step, 0.1 * grads["w"].sign(), atol=5e-3, rtol=0)


def test_dent_sharpens_and_is_bound_to_its_rows():
    model, x = trained(), plane(10).x
    defender = DENT(model, steps=20)
    adapted, _ = defender.adapt(None, x, 0)
    with torch.no_grad():
        assert sharpness(adapted.logits(x)) < sharpness(model.eval()(x))
        rows = torch.tensor([7, 2])
        torch.testing.assert_close(adapted.logits(x[rows], rows), adapted.logits(x)[rows])
        assert not torch.allclose(adapted.logits(x[rows]), adapted.logits(x)[rows])
        zero, _ = DENT(model, steps=0).adapt(None, x, 0)
        torch.testing.assert_close(zero.logits(x), model(x))
    for kind in (DENT, TENT):
        with pytest.raises(du.DurometerError, match="no BatchNorm"):
            kind(nn.Sequential(nn.Linear(2, 2)))


def test_tent_answers_with_the_batch_statistics_and_before_its_step():
    model, x = trained(), plane(12).x
    pre, _ = TENT(model, rate=0.5).adapt(TENT(model).start(), x, 0)
    model.eval()
    model[1].train()  # what TENT does: batch statistics
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(pre.logits(x), expected, atol=1e-4, rtol=1e-4)
        post, _ = TENT(model, rate=0.5, predict="post").adapt(TENT(model).start(), x, 0)
        assert not torch.allclose(post.logits(x), expected, atol=1e-2)
        # Frozen statistics: a row's answer does not depend on what else is asked.
        torch.testing.assert_close(pre.logits(x[:3]), pre.logits(x)[:3])
    with pytest.raises(du.DurometerError, match="predict='now'"):
        TENT(model, predict="now")


@pytest.mark.parametrize(
    ("said", "make"),
    [
        (r"DENT\(model='net.pt'\): expected a Module", lambda: DENT("net.pt")),
        (r"TENT\(model=Linear\): not the class but Linear", lambda: TENT(nn.Linear)),
        (r"TENT\(steps=1.5\).*whole number", lambda: TENT(trained(), steps=1.5)),
        (r"DENT\(rate=-1\).*at least 0", lambda: DENT(trained(), rate=-1)),
        (r"RMC\(data=.*expected a Dataset", lambda: RMC(trained(), TRAIN.x)),
        (r"RMC\(space=0.1\): expected a Space", lambda: RMC(trained(), TRAIN, 0.1)),
        (r"RMC\(attack=PGD\).*PGD\(\)", lambda: RMC(trained(), TRAIN, SPACE, du.PGD)),
        (r"RMC\(k=0\).*at least 1", lambda: RMC(trained(), TRAIN, k=0)),
        (r"build=Sequential.*expected a function", lambda: DANN(trained(), TRAIN)),
        (r"DANN\(model=.*expected a Module", lambda: DANN(domain, TRAIN, domain)),
        (r"PGD\(steps=0\)", lambda: TADV(net, TRAIN, SPACE, du.PGD(0))),
        (r"space=PGD.*expected a Space", lambda: TADV(net, TRAIN, du.PGD(2))),
        (r"TADV\(attack=Square.*start", lambda: TADV(net, TRAIN, SPACE, du.Square(5))),
        (r"Control\(recipe='standard'\)", lambda: du.defenses.Control(net, TRAIN, "standard")),
        (r"Adapting\(module=.*expected a Module", lambda: du.defenses.Adapting(net)),
    ],
)
def test_what_a_defender_is_made_of(said, make):
    with pytest.raises(du.DurometerError, match=said):
        make()


def test_dann_confuses_the_discriminator():
    from durometer.defenses.dann import _reverse

    features = torch.tensor([1.0, 2.0], requires_grad=True)
    out = _reverse(features, 0.3)
    out.sum().backward()
    torch.testing.assert_close(out.detach(), features.detach())
    torch.testing.assert_close(features.grad, torch.tensor([-0.3, -0.3]))
    defender = DANN(domain, TRAIN, epochs=30, iterations=120, batch=20, rate=0.01)
    report = du.evaluate(du.Transductive(defender, batch=30), plane(30), space=SPACE, attack=None)
    assert report.metric("clean").value > 0.9
    with pytest.raises(du.DurometerError, match="has no encoder"):
        DANN(net, TRAIN, model=trained()).adapt(None, plane(4).x, 0)


def test_tadv_ignores_the_batch_and_control_remembers():
    tadv = defenders()["TADV"]
    one, _ = tadv.adapt(tadv.start(), plane(4).x, 5)
    two, _ = tadv.adapt(tadv.start(), plane(9, seed=3).x, 5)
    assert one is two
    other, _ = tadv.adapt(tadv.start(), plane(4).x, 6)
    assert not torch.equal(other.logits(TRAIN.x), one.logits(TRAIN.x))


def test_urejectron_rejects_a_batch_unlike_the_training_data():
    shifted = plane(60, seed=8)
    shifted = du.Dataset((shifted.x + torch.tensor([0.0, 1.0])) / 2 + 0.4, shifted.y)
    make = lambda: nn.Sequential(  # noqa: E731
        Shift(torch.tensor([0.5, 0.5]), torch.tensor([0.3, 0.3])),
        nn.Linear(2, 16),
        nn.ReLU(),
        nn.Linear(16, 2),
    )
    rates = []
    for data in (shifted, plane(60, seed=8)):
        defender = URejectron(trained(), make, TRAIN, epochs=40, rate=0.02)
        report = du.evaluate(
            du.Transductive(defender, batch=60),
            data,
            space=du.Linf(0.1, high=2.0),
            attack=None,
            goal=du.Untargeted(reject="reject") if data.classes else du.Untargeted(reject=2),
        )
        rates.append(report.metric("rejected").value)
    assert rates[0] > 0.9 and rates[1] < 0.6
    with pytest.raises(du.DurometerError, match="threshold=1"):
        URejectron(trained(), make, TRAIN, threshold=1.0)
    with pytest.raises(du.DurometerError, match=r"URejectron\(model=.*expected a Module"):
        URejectron(make, trained(), TRAIN)
    with pytest.raises(du.DurometerError, match="build=.*expected a function"):
        URejectron(trained(), trained(), TRAIN)
    assert "URejectron on torch" in report.spec.model


def test_adapting_gives_the_modules_own_answers():
    module, x = Sloppy(), plane(6).x
    defender = Adapting(module)
    adapted, after = defender.adapt(defender.start(), x, 4)
    with seeded(4):
        expected = module(x)  # the user's own module, used as its author meant it
    torch.testing.assert_close(adapted.logits(x), expected, atol=1e-5, rtol=1e-5)
    assert after.seen == 6 and defender.start().seen == 6  # `module` has been used; the state not
    point = x.clone().requires_grad_()
    adapted.logits(point).sum().backward()
    assert point.grad is not None
    with pytest.raises(du.DurometerError, match="no network 'net'"):
        Adapting(module, network="net")
    with pytest.raises(du.DurometerError, match="reset='never'"):
        Adapting(module, reset="never")
