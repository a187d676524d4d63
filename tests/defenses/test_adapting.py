"""Adapting: other people's modules, whole batches and all they carry."""

import copy

import numpy as np
import pytest
import torch
from tests.toys.modules import SAM, BatchTent, SharpTent, batch_net, entropy
from tests.toys.transductive import Sloppy, plane
from torch import nn

import durometer as du
from durometer.core.streams import seeded
from durometer.defenses import Adapting
from durometer.extend import Needs


def tent(**how):
    return Adapting(BatchTent(batch_net()), reset="episodic", **how)


def test_a_part_of_the_batch_is_asked_in_the_company_of_the_rest():
    x = plane(64).x
    defender = tent()
    adapted, _ = defender.adapt(defender.start(), x, 0)
    with torch.no_grad():
        whole = adapted.logits(x)
        torch.testing.assert_close(whole, BatchTent(batch_net())(x), atol=1e-6, rtol=1e-6)
        for rows in (torch.arange(16), torch.tensor([40, 3])):
            torch.testing.assert_close(adapted.logits(x[rows], rows), whole[rows])
        twice = torch.tensor([5, 9, 5])  # a population asks for one row several times
        points = torch.cat([x[twice[:2]], x[:1]])
        torch.testing.assert_close(adapted.logits(points, twice)[:2], whole[twice[:2]])
        other = x.clone()
        other[5] = x[0]
        torch.testing.assert_close(adapted.logits(points, twice)[2], adapted.logits(other)[5])


def test_the_base_is_asked_in_the_company_of_the_rest_too():
    seen = []

    class Look:
        needs = Needs()

        def __call__(self, problem):
            rows = problem.open
            with torch.no_grad():
                part = problem.model.logits(problem.region(rows).origin, rows)
            seen.append((part, problem.clean[rows]))

    data = plane(32)
    rules = {"batch": 32, "controlled": np.arange(32) < 8}
    du.evaluate(du.Transductive(tent(), **rules), data, space=du.Linf(0.1), attack=Look())
    part, whole = seen[0]
    assert len(part) == 8
    torch.testing.assert_close(part, whole)


def own_attack(net, x, y, free, eps, steps):
    """PGD through the batch statistics by hand: what a quarter of the batch can do."""
    z = x.clone()
    for _ in range(steps):
        z.requires_grad_()
        loss = nn.functional.cross_entropy(net(z)[free], y[free], reduction="sum")
        (g,) = torch.autograd.grad(loss, z)
        with torch.no_grad():
            z = torch.where(free[:, None], z + 2.5 * eps / steps * g.sign(), z)
            z = z.clamp(x - eps, x + eps).clamp(0, 1)
    with torch.no_grad():
        return (net(z).argmax(1) == y)[free].double().mean()


def test_a_quarter_of_the_batch_is_attacked_as_hard_as_by_hand():
    data = plane(80, gap=0.04)
    free = torch.arange(80) < 20
    net = batch_net(data)
    by_hand = own_attack(copy.deepcopy(net).train(), data.x, data.y, free, 0.08, 20)
    game = du.Transductive(
        Adapting(BatchTent(net), reset="episodic"),
        batch=80, controlled=free.numpy(), scored=free.numpy(), probe=False,
    )  # fmt: skip
    inner = du.PGD(20, start="clean")
    report = du.evaluate(game, data, space=du.Linf(0.08), attack=du.FPA(inner, 1))
    assert report.metric("robust").value <= float(by_hand) + 1e-9


def test_copies_keep_what_optimisers_carry():
    module, x = SharpTent(batch_net()), plane(24).x
    defender = Adapting(module)
    state = defender.start()
    assert isinstance(state.optimizer, SAM)
    assert state.optimizer.base_optimizer.param_groups is state.optimizer.param_groups
    inside = {id(p) for p in state.parameters()}
    assert all(id(p) in inside for group in state.optimizer.param_groups for p in group["params"])
    own = copy.deepcopy(batch_net())
    real = SharpTent(own)
    for draw in range(3):  # three rounds: moments and the moving average live on
        with seeded(draw):
            expected = real(x)
        adapted, state = defender.adapt(state, x, draw)
        with torch.no_grad():
            torch.testing.assert_close(adapted.logits(x), expected, atol=1e-6, rtol=1e-6)
        assert state.ema == pytest.approx(real.ema)
    assert module.ema is None  # what was given is not touched


def test_a_scheduler_does_not_lead_back_to_the_old_optimiser():
    module = SharpTent(batch_net())
    torch.optim.lr_scheduler.StepLR(module.optimizer.base_optimizer, 1)
    state = Adapting(module).start()
    assert "step" not in vars(state.optimizer.base_optimizer)
    before = copy.deepcopy(module.state_dict())
    state(plane(12).x)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_module_that_is_random_is_asked_with_the_same_draw():
    class Noisy(Sloppy):
        def forward(self, x):
            return super().forward(x) + torch.randn(len(x), 1)

    x = plane(8).x
    defender = Adapting(Noisy())
    adapted, _ = defender.adapt(defender.start(), x, 3)
    with torch.no_grad():
        assert torch.equal(adapted.logits(x), adapted.logits(x))


def test_gradients_that_are_still_collected_are_copied():
    class Patient(BatchTent):
        """Steps every second batch."""

        seen = 0

        @torch.enable_grad()
        def forward(self, x):
            logits = self.model(x)
            (-(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()).backward()
            self.seen += 1
            if self.seen % 2 == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
            return logits

    real, defender = Patient(batch_net(), 0.1), Adapting(Patient(batch_net(), 0.1))
    state = defender.start()
    for draw in range(4):
        x = plane(16, seed=draw).x
        expected = real(x).detach()
        adapted, state = defender.adapt(state, x, draw)
        with torch.no_grad():
            torch.testing.assert_close(adapted.logits(x), expected, atol=1e-6, rtol=1e-6)


class Tracks(nn.Module):
    """Statistics of what it has been asked so far, in eval mode too."""

    def __init__(self):
        super().__init__()
        self.net = batch_net()
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.net(x - self.mean)


class Alone(nn.Module):
    """Adapts a copy of itself, which needs gradients of its own."""

    def __init__(self):
        super().__init__()
        self.net = batch_net()

    def forward(self, x):
        net = copy.deepcopy(self.net)
        entropy(net(x)).mean().backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        return net(x)


@pytest.mark.parametrize(
    "module", [lambda: BatchTent(batch_net()), Tracks, Alone], ids=("tent", "tracks", "alone")
)
def test_a_module_that_adapts_is_told_of_the_game_it_belongs_to(module):
    with pytest.raises(du.DurometerError, match=r"Transductive\(du\.defenses\.Adapting\(model\)"):
        du.evaluate(module(), plane(32), space=du.Linf(0.1), attack=du.PGD(2), progress=False)


def test_a_module_that_counts_its_calls_is_still_fixed():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = batch_net()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.calls += 1
            return self.net(x)

    report = du.evaluate(Counts(), plane(16), space=du.Linf(0.1), attack=du.PGD(2), progress=False)
    assert len(report.table) == 16
