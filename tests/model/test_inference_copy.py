"""A faster copy of a network: when it is made, that it answers the same, that it decides nothing.

The judge is the module's own `forward`. The way a copy is made (`_made`) is tested without the
check that would refuse a wrong one.
"""

import copy
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import durometer as du
from durometer.architectures.images.resnet import ResNet
from durometer.games import static
from durometer.goals.goal import gap
from durometer.model import inference_copy as made
from durometer.model.inference_copy import inference_copy
from durometer.problem.problem import Problem


def lived(net, seed=0):
    """The network with statistics and scales as after training, some of them negative or 0."""
    g = torch.Generator().manual_seed(seed)
    for m in net.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.running_mean is not None:
            m.running_mean.copy_(torch.randn(m.num_features, generator=g))
            m.running_var.copy_(torch.rand(m.num_features, generator=g) * 3)
            if m.affine:
                m.weight.data.copy_(torch.randn(m.num_features, generator=g))
                m.weight.data[0] = 0.0
                m.bias.data.copy_(torch.randn(m.num_features, generator=g))
    return net.eval()


def folds(net, x):
    """How many normalisations the copy has folded; that it answers as the module is checked."""
    model = du.wrap(net)
    with model.ready():
        found = made._made(model, x)
        if found is None:
            return 0
        fresh = torch.rand(x.shape, generator=torch.Generator().manual_seed(5)) * 4 - 2
        with torch.no_grad():
            own, its = net(fresh), found.model.logits(fresh)
        assert float(made._far(own.flatten(1), its.flatten(1)).max()) < 1e-4
    return found.folded


class Of(nn.Module):
    """A network whose `forward` is a function of its parts."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.run(self, x)


IMAGE = torch.rand(4, 3, 8, 8)
flat = nn.Flatten()


def conv(**more):
    return nn.Conv2d(3, 6, 3, padding=1, **more)


@pytest.mark.parametrize(
    ("layer", "norm", "x"),
    [
        (conv(), nn.BatchNorm2d(6), IMAGE),
        (conv(bias=False), nn.BatchNorm2d(6), IMAGE),
        (conv(groups=3, padding_mode="reflect"), nn.BatchNorm2d(6, eps=0.1), IMAGE),
        (conv(), nn.BatchNorm2d(6, affine=False), IMAGE),
        (nn.ConvTranspose2d(3, 6, 3, stride=2, groups=3), nn.BatchNorm2d(6), IMAGE),
        (nn.ConvTranspose2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), IMAGE),
        (nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), torch.rand(4, 3, 9)),
        (nn.ConvTranspose1d(3, 6, 3), nn.BatchNorm1d(6), torch.rand(4, 3, 9)),
        (nn.Conv3d(3, 6, 3), nn.BatchNorm3d(6), torch.rand(4, 3, 5, 5, 5)),
        (nn.Linear(5, 6), nn.BatchNorm1d(6), torch.rand(4, 5)),
        (nn.Linear(5, 6, bias=False), nn.BatchNorm1d(6), torch.rand(4, 5)),
    ],
    ids=lambda v: type(v).__name__,
)
def test_every_layer_takes_its_normalisation_in(layer, norm, x):
    assert folds(lived(nn.Sequential(layer, norm, nn.ReLU(), nn.Flatten())), x) == 1


def test_a_short_cut_and_an_operation_in_place_are_no_obstacle():
    net = ResNet((1, 2), width=4)
    for block in net.body:
        for m in block.modules():
            if isinstance(m, nn.ReLU):
                m.inplace = True
    assert folds(lived(net), IMAGE) == sum(isinstance(m, nn.BatchNorm2d) for m in net.modules())


def _twice(m, x):
    h = m.c(x)
    return flat(m.n(h) + h)


def _statistics(m, x):
    return flat(m.n(m.c(x)) + m.n.running_var.sum())


@pytest.mark.parametrize(
    "net",
    [
        Of(_twice, c=conv(), n=nn.BatchNorm2d(6)),
        Of(lambda m, x: flat(m.n(m.c(x).relu_())), c=conv(), n=nn.BatchNorm2d(6)),
        Of(lambda m, x: flat(m.n(m.c(x).detach() + m.c(x))), c=conv(), n=nn.BatchNorm2d(6)),
        Of(lambda m, x: flat(m.n(m.c(m.c(x)))), c=nn.Conv2d(3, 3, 1), n=nn.BatchNorm2d(3)),
        Of(lambda m, x: flat(m.n(m.c(m.n(x)))), c=nn.Conv2d(3, 3, 1), n=nn.BatchNorm2d(3)),
        Of(lambda m, x: flat(m.n(m.c(x)) * m.c.weight.sum()), c=conv(), n=nn.BatchNorm2d(6)),
        Of(_statistics, c=conv(), n=nn.BatchNorm2d(6)),
        Of(lambda m, x: m.n(m.c(x)).flatten(1), c=nn.Linear(8, 4), n=nn.BatchNorm2d(3)),
        Of(lambda m, x: flat(m.n(torch.cat([m.c(x), x], 1))), c=conv(), n=nn.BatchNorm2d(9)),
        nn.Sequential(nn.BatchNorm2d(3), conv(), nn.Flatten()),
        nn.Sequential(conv(), nn.BatchNorm2d(6, track_running_stats=False), nn.Flatten()),
        nn.Sequential(conv(), nn.ReLU(), nn.BatchNorm2d(6), nn.Flatten()),
        nn.Sequential(
            nn.utils.parametrizations.weight_norm(conv()), nn.BatchNorm2d(6), nn.Flatten()
        ),
    ],
    ids=[
        "used elsewhere", "changed in place", "run twice", "run twice in a row",
        "norm run twice", "weight read", "statistics read", "linear on maps", "joined",
        "norm first", "no statistics", "relu between", "parametrised",
    ],
)  # fmt: skip
def test_what_is_used_elsewhere_is_not_folded(net):
    assert folds(lived(net), IMAGE) == 0


def test_a_normalisation_that_stays_in_training_mode_is_not_folded():
    class Stubborn(nn.BatchNorm2d):
        def train(self, mode=True):
            return super().train(True)

    net = nn.Sequential(conv(), Stubborn(6), nn.Flatten())
    assert folds(net, IMAGE) == 0
    net = Of(lambda m, x: flat(F.batch_norm(m.c(x), None, None, training=True)), c=conv())
    assert folds(net.eval(), IMAGE) == 0


def plain():
    layers = conv(), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, 3)
    return lived(nn.Sequential(*layers))


class Counts(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.calls = net, []

    def forward(self, x):
        self.calls.append(len(x))
        return self.net(x)


class NotCopied(nn.Sequential):
    def __deepcopy__(self, memo):
        raise TypeError("this one holds a lock")


def hooked():
    net = plain()
    net[2].register_forward_hook(lambda *_: None)
    return net


@pytest.mark.parametrize(
    "net",
    [
        hooked(),
        Counts(plain()),
        NotCopied(*plain()),
        plain().double(),
        torch.jit.trace(plain(), IMAGE),
        torch.compile(plain(), backend="eager"),
        nn.Sequential(nn.Flatten(), nn.Linear(192, 3)),
        nn.Sequential(conv(), nn.Flatten()),
        Of(lambda m, x: m.net(x + 0.01 * torch.randn_like(x)), net=plain()),
        Of(lambda m, x: m.net(x) + 0 * m.net[1].running_mean.sum(), net=plain()),
    ],
    ids=["hooks", "keeps notes", "not copied", "double", "jit", "compiled", "nothing to gain",
         "too few", "random", "reads what a copy lacks"],
)  # fmt: skip
def test_otherwise_the_network_itself_is_asked(net):
    before = copy.deepcopy(getattr(net, "calls", None))
    assert inference_copy(du.wrap(net), IMAGE) is None
    assert getattr(net, "calls", None) == before
    data = du.Dataset(IMAGE.to(next(net.parameters(), IMAGE).dtype), torch.zeros(4).long())
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(2), progress=False)
    assert not report.spec.inference_copy


def test_an_exported_program_is_no_obstacle():
    net = torch.export.export(plain(), (IMAGE,)).module()
    found = inference_copy(replace(du.wrap(net), differentiable=True), IMAGE)
    assert found is None or found.folded == 0


@st.composite
def networks(draw):
    """Layers of a few kinds in any order, some of them met again, with short cuts across."""
    channels = draw(st.integers(1, 4))
    layers = []
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(["conv", "norm", "relu", "again", "short", "pool"]))
        if kind == "conv":
            groups = draw(st.sampled_from([1, channels]))
            bias = draw(st.booleans())
            layers.append(nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=bias))
        elif kind == "norm":
            layers.append(nn.BatchNorm2d(channels, affine=draw(st.booleans())))
        elif kind == "relu":
            layers.append(nn.ReLU(inplace=draw(st.booleans())))
        elif kind == "pool":
            layers.append(nn.MaxPool2d(3, 1, 1))
        elif kind == "again" and layers:
            layers.append(draw(st.sampled_from(layers)))
        else:
            layers.append(nn.Identity())
    shorts = [draw(st.integers(-1, k)) for k in range(len(layers))]

    def forward(m, x):
        seen = [m.first(x)]
        for layer, back in zip(m.layers, shorts, strict=True):
            here = seen[-1] if not isinstance(layer, nn.ReLU) else seen[-1].clone()
            out = layer(here)
            seen.append(out if back < 0 else out + seen[back])
        return m.head(seen[-1].mean((2, 3)))

    first, head = nn.Conv2d(2, channels, 1), nn.Linear(channels, 3)
    return Of(forward, first=first, layers=nn.ModuleList(layers), head=head)


@given(networks(), st.integers(0, 99))
def test_a_copy_answers_as_any_network_does(net, seed):
    torch.manual_seed(seed)
    net, x = lived(net, seed), torch.rand(4, 2, 6, 6)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    folds(net, x)
    inference_copy(du.wrap(net), x)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_a_network_that_may_go_another_way_on_another_input_is_not_copied():
    """One pass sees one way; folded for that one, the copy would be another network on the rest."""

    def by_number(m, x):
        out = m.net(x)
        return out * m.net[1].weight.mean() if float(x.detach().max()) > 2 else out

    def by_row(m, x):
        rough = (x[..., 1:] - x[..., :-1]).abs().flatten(1).mean(1) > 0.02
        out = m.conv(x)
        if rough.any():
            return torch.where(rough[:, None, None, None], m.noisy(out), m.clean(out)).flatten(1)
        return m.clean(out).flatten(1)

    assert inference_copy(du.wrap(Of(by_number, net=plain())), IMAGE) is None
    parts = {"conv": conv(), "noisy": nn.BatchNorm2d(6), "clean": nn.BatchNorm2d(6)}
    smooth = torch.full((4, 3, 8, 8), 0.5)
    assert inference_copy(du.wrap(lived(Of(by_row, **parts))), smooth) is None


def test_what_does_not_like_channels_last_is_folded_only_and_not_tried_at_every_query():
    def forward(m, x):
        out = m.net(x)
        return m.last(out.view(x.size(0), -1))

    body = nn.Sequential(conv(), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1),
                         nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU())  # fmt: skip
    net = lived(Of(forward, net=body, last=nn.Linear(6 * 64, 3)))
    found = inference_copy(du.wrap(net), IMAGE)
    assert found is not None and found.folded == 1 and not found.channels_last


def test_a_copy_that_fails_once_is_not_asked_again():
    calls = []

    def fails(x):
        calls.append(len(x))
        raise RuntimeError("another way")

    answer = made._or_else(fails, lambda x: x + 1)
    assert [float(answer(torch.zeros(1))) for _ in range(3)] == [1.0, 1.0, 1.0]
    assert len(calls) == 1


@pytest.mark.parametrize("outputs", [1, 2])
def test_where_two_classes_meet_rounding_is_no_difference(outputs):
    """Both logits may be 0 at the boundary: a share of them would call any rounding a lie."""
    torch.manual_seed(1)
    x = torch.rand(48, 1, 8, 8)
    y = (x.flatten(1).mean(1) > x.mean()).long()
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
        nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, outputs),
    )  # fmt: skip
    lived(net)
    with torch.no_grad():
        said = net(x)
        y = (said[:, 0] > 0).long() if outputs == 1 else said.argmax(1)
    model = du.wrap(net, answers="logits")
    for attack in (du.PGD(10), du.FAB(10, targets=1)):
        report = du.evaluate(
            model, du.Dataset(x, y), space=du.Linf(0.1), attack=attack, progress=False
        )
        assert report.spec.inference_copy
        assert "copy-differs" not in [f.id for f in report.flags]


# What attacks make of it


def trained(make, data, steps=60):
    """A network, and 24 test images under the classes it sees in them: all can be attacked."""
    train, test = data.train, data.test.take(torch.arange(24))
    torch.manual_seed(0)
    net = make()
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for k in range(steps):
        at = slice(64 * k % len(train), 64 * k % len(train) + 64)
        optimiser.zero_grad()
        F.cross_entropy(net(train.x[at].float()), train.y[at]).backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        return net, du.Dataset(test.x, net(test.x.float()).argmax(1))


@pytest.fixture(scope="module")
def signs():
    return trained(lambda: ResNet((1, 1), width=8), du.datasets.cifar10())


@pytest.fixture(scope="module")
def digits():
    def make():
        return nn.Sequential(
            nn.Conv2d(1, 8, 5), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(4),
            nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(16 * 16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10),
        )  # fmt: skip

    return trained(make, du.datasets.mnist())


def both(monkeypatch, net, data, space, attack, **more):
    """The reports with and without a copy."""
    given = {"space": space, "attack": attack, "progress": False, **more}
    with_copy = du.evaluate(net, data, **given)
    with monkeypatch.context() as patch:
        patch.setattr(static, "inference_copy", lambda *_: None)
        without = du.evaluate(net, data, **given)
    assert "folded, channels last" in with_copy.spec.inference_copy
    assert not without.spec.inference_copy
    return with_copy, without


@pytest.mark.parametrize(
    ("attack", "space"),
    [
        (du.PGD(10), du.Linf(0.01)),
        (du.APGD(10), du.L2(0.3)),
        (du.FAB(10, targets=2), du.Linf(0.01)),
        (du.Square(60), du.Linf(0.06)),
        (du.CW(20, lr=0.05), du.L2(0.3)),
        (du.Cascade(), du.Linf(0.01)),
        (du.Restarts(du.PGD(5), times=2), du.Linf(0.01)),
    ],
    ids=["pgd", "apgd", "fab", "square", "cw", "cascade", "restarts"],
)
@pytest.mark.parametrize("which", ["signs", "digits"])
def test_verdicts_are_those_of_the_network_alone(request, monkeypatch, which, attack, space):
    net, data = request.getfixturevalue(which)
    if which == "digits":
        space = replace(space, eps=(4 if space.norm == 2 else 8) * space.eps)
    faster, alone = both(monkeypatch, net, data, space, attack)
    assert list(faster.table["verdict"]) == list(alone.table["verdict"])
    assert 0 < faster.metric("success").value < 1
    confirmed(net, data, faster)


def confirmed(net, data, report):
    """Every success is one of the network, with its class and its margin."""
    won = torch.from_numpy((report.table["verdict"] == "broken").to_numpy())
    x = torch.as_tensor(report.adversarial).float()
    with torch.no_grad():
        logits = net(x)
    goal = ~F.one_hot(data.y, logits.shape[1]).bool()
    margin = gap(logits, goal)
    assert bool((margin[won] > 0).all())
    final = torch.from_numpy(report.table["final"].to_numpy().copy())
    assert torch.equal(final[won], logits.argmax(1)[won])
    return won, margin


def test_a_copy_that_lies_near_the_boundary_gets_nothing_into_the_records(monkeypatch, signs):
    net, data = signs
    honest = inference_copy

    def dishonest(model, x):
        found = honest(model, x)
        tell = found.model.call

        def call(x):
            out = tell(x)
            close = out.topk(2).values.diff(dim=1)[:, 0].abs() < 0.5
            second = F.one_hot(out.topk(2).indices[:, 1], out.shape[1])
            return out + 0.7 * second * close[:, None]  # says it has fallen, and it has not

        return replace(found, model=replace(found.model, call=call))

    with monkeypatch.context() as patch:
        patch.setattr(static, "inference_copy", lambda *_: None)
        alone = du.evaluate(
            net, data, space=du.Linf(0.02), attack=du.PGD(5), progress=False, seed=3
        )
    monkeypatch.setattr(static, "inference_copy", dishonest)
    for attack, space in (
        (du.PGD(5), du.Linf(0.02)),
        (du.Square(40), du.Linf(0.06)),
        (du.FAB(5, targets=2), du.Linf(0.02)),
        (du.Then(du.PGD(2), du.CW(5)), du.L2(0.4)),
    ):
        report = du.evaluate(net, data, space=space, attack=attack, progress=False, seed=3)
        won, margin = confirmed(net, data, report)
        assert bool(won.any()) and not bool(won.all())
        assert "copy-differs" in [f.id for f in report.flags]
        noted = torch.from_numpy(report.table["margin"].to_numpy().copy())
        attacked = won & (torch.from_numpy((report.table["winner"] != "clean").to_numpy()))
        torch.testing.assert_close(noted[attacked], margin[attacked].double(), rtol=1e-4, atol=1e-4)
    assert "copy-differs" not in [f.id for f in alone.flags]


def test_confirmations_are_no_queries(monkeypatch, signs):
    net, data = signs
    budget = du.Budget(forwards=20)
    faster, alone = both(monkeypatch, net, data, du.Linf(0.02), du.Square(60), budget=budget)
    assert list(faster.table["forwards"]) == list(alone.table["forwards"])
    assert int(faster.table["forwards"].max()) == 20


def test_the_network_is_left_as_it_was_and_may_change_between_two_plays(signs):
    net, data = signs
    net = copy.deepcopy(net).train()
    before = copy.deepcopy(net.state_dict())
    attack, goal = du.PGD(3), du.Untargeted()
    game, _ = du.Static(net).prepare(data, du.Linf(0.01), goal, attack)
    asked = []
    tell = game._copy.model.call
    spied = replace(game._copy.model, call=lambda x: asked.append(len(x)) or tell(x))
    game = static.Static(game.model, replace(game._copy, model=spied))
    list(game.play(data, du.Linf(0.01), goal, attack, 0))
    assert asked and all(m.training for m in net.modules())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.requires_grad for p in net.parameters())
    asked.clear()
    with torch.no_grad():
        net.head.weight.mul_(2)
    list(game.play(data, du.Linf(0.01), goal, attack, 0))
    assert not asked  # an old copy steers nobody


def test_networks_in_training_are_not_copied(monkeypatch, digits):
    def never(*_):
        raise AssertionError("a network whose weights change was copied")

    monkeypatch.setattr(static, "inference_copy", never)
    net, data = copy.deepcopy(digits[0]), digits[1]
    recipe = du.training.Adversarial(du.training.CraftBy(du.PGD(2), du.Linf(0.1)))
    du.training.fit(net, data, recipe, epochs=1, progress=False)


def test_a_proof_asks_the_network(monkeypatch):
    """`Enumerate` proves by the answers to its questions: a copy's would not do."""
    asked = []
    look = Problem._look

    def watched(problem, *given):
        asked.append(problem.stand_in)
        return look(problem, *given)

    monkeypatch.setattr(Problem, "_look", watched)
    schema = du.Schema([du.Feature("a", "integer", 0, 3), du.Feature("b", "integer", 0, 3)])
    torch.manual_seed(0)
    net = lived(nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)))
    x = torch.randint(0, 4, (12, 2)).float()
    with torch.no_grad():
        data = du.Dataset(x, net(x).argmax(1), schema=schema)
    report = du.evaluate(
        net, data, space=schema.space(eps=1.0), attack=du.Enumerate(), progress=False
    )
    assert report.spec.inference_copy == "1 batch normalisations folded"
    assert asked and set(asked) == {None}


def test_a_question_about_inputs_is_answered_by_the_network(monkeypatch, signs):
    """A proof of somebody else's may rest on `query`, which knows no copy."""
    net, data = signs
    honest, seen = inference_copy, {}

    def shifted(model, x):
        found = honest(model, x)
        tell = found.model.call
        return replace(found, model=replace(found.model, call=lambda x: tell(x) + 1))

    @dataclass(frozen=True)
    class Asks:
        @property
        def needs(self):
            return du.extend.Needs()

        def __call__(self, problem):
            rows = problem.open
            seen["copy"] = problem.stand_in is not None
            seen["said"] = problem.query(rows, problem.kept(rows))
            with torch.no_grad():
                seen["own"] = net(problem.kept(rows))

    monkeypatch.setattr(static, "inference_copy", shifted)
    du.evaluate(net, data, space=du.Linf(0.004), attack=Asks(), progress=False)
    assert seen["copy"]
    torch.testing.assert_close(seen["said"], seen["own"])
