"""A model that draws: Rob is the mean over inputs and draws, as a closed form says."""

import math

import numpy as np
import torch
from torch import nn

import durometer as du
from durometer.defenses import Randomised
from durometer.testing import check_defender


class Noisy(nn.Module):
    """Class 1 where x + sd n > 0.5, a new n per row and call."""

    def __init__(self, sd: float = 0.1) -> None:
        super().__init__()
        self.sd = sd

    def forward(self, x):
        z = x[:, 0] + self.sd * torch.randn(len(x), dtype=x.dtype) - 0.5
        return torch.stack([-z, z], 1)


def rows(n=120):
    x = torch.linspace(0.1, 0.45, n, dtype=torch.float64)[:, None]
    return du.Dataset(x, torch.zeros(n, dtype=torch.long), classes=("go", "stop"))


def test_rob_is_the_mean_over_inputs_and_draws():
    data, eps, runs = rows(), 0.15, 12
    game = du.Transductive(Randomised(Noisy()), batch=60, runs=runs)
    report = du.evaluate(
        game, data, space=du.Linf(eps), goal=du.Group({"go": ["stop"]}),
        attack=du.GMSA(du.PGD(3, step=1.0), iterations=1),
    )  # fmt: skip
    # All the attacker can do is to move by eps; then a draw decides.
    held = [0.5 * math.erfc((float(x) + eps - 0.5) / 0.1 / math.sqrt(2)) for x in data.x[:, 0]]
    found = report.metric("robust")
    assert found.n == runs * len(data)
    assert abs(found.value - np.mean(held)) < 4 * math.sqrt(0.25 / found.n)
    assert found.low < np.mean(held) < found.high
    worst = report.metric("robust", over="worst")
    assert worst.value < found.value and worst.n == len(data)


def test_draws_are_the_defenders_alone_and_layers_that_draw_stay_on():
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)
    ).double()
    defender = Randomised(net)
    x = torch.rand(10, 4, dtype=torch.float64)
    check_defender(defender, x)
    before = torch.random.get_rng_state()
    one, _ = defender.adapt(None, x, 1)
    first = one.logits(x)
    assert torch.equal(first, one.logits(x))
    assert torch.equal(before, torch.random.get_rng_state())
    two, _ = defender.adapt(None, x, 2)
    assert not torch.equal(first, two.logits(x))
    quiet, _ = Randomised(net, keep=()).adapt(None, x, 1)
    assert torch.equal(quiet.logits(x), net.eval()(x))


def test_clean_figures_of_several_runs_count_a_row_once_per_run_in_their_interval():
    game = du.Transductive(Randomised(Noisy(0.3)), batch=60, runs=8, probe=False)
    both = du.Dataset(
        torch.cat([rows(60).x, rows(60).x + 0.5]), [0] * 60 + [1] * 60, classes=("go", "stop")
    )
    report = du.evaluate(
        game, both, space=du.Linf(0.05), goal=du.Group({"go": ["stop"]}),
        attack=du.Transfer(du.PGD(2)),
    )  # fmt: skip
    found = report.metric("clean_on_targets")
    assert found.n == 8 * 60
    share = report.table[report.table["y"] == 1].groupby("run").apply(
        lambda t: (t["clean"] == t["y"]).mean(), include_groups=False
    )  # fmt: skip
    assert found.high - found.low > 2 * share.std() / math.sqrt(8)
    naive = 2 * 1.96 * math.sqrt(found.value * (1 - found.value) / found.n)
    assert found.high - found.low > 1.05 * naive  # rows are asked again in every run
