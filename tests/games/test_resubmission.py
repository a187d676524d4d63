"""An attacker who may try again: `metric("robust", over=k)`, and what games play by default."""

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du
from durometer._ladder import strongest_known
from durometer.core.records import Records
from durometer.core.spec import Spec
from durometer.report.report import Report


def records(broken):
    """(rows, runs) of successes as records."""
    rows, runs = broken.shape
    return Report(
        Spec(game={"type": "Transductive"}),
        Records.of(
            broken.size,
            id=np.repeat(np.arange(rows), runs),
            run=np.tile(np.arange(runs), rows),
            y=np.repeat(np.arange(rows) % 2, runs),
            success=broken.reshape(-1),
        ),
    )


@pytest.mark.parametrize("tries", [1, 2, 3, 5])
def test_tries_are_the_mean_over_all_choices_of_runs(tries):
    broken = np.random.default_rng(0).random((30, 5)) < 0.3
    report = records(broken)
    by_hand = np.mean([
        [not broken[i, list(chosen)].any() for chosen in combinations(range(5), tries)]
        for i in range(30)
    ])  # fmt: skip
    assert report.metric("robust", over=tries).value == pytest.approx(by_hand)
    if tries == 5:
        assert report.metric("robust", over="worst").value == pytest.approx(by_hand)
    parts = report.metric("robust", by="y", over=tries)
    assert np.mean([e.value for e in parts.values()]) == pytest.approx(by_hand)


def test_its_interval_covers_and_knows_the_luck_of_runs():
    """Rows hold with their own probability, and each run has a good or a bad day."""
    rng = np.random.default_rng(1)
    truth, hits, widths = 0.0, 0, []
    exact = rng.random((200_000, 2)) < 0.5  # days of two tries
    chance = np.where(exact, 0.9, 0.5)
    truth = float(chance.prod(1).mean())
    for _ in range(120):
        day = np.where(rng.random(16) < 0.5, 0.9, 0.5)
        found = records(rng.random((60, 16)) > day[None]).metric("robust", over=2)
        hits += found.low <= truth <= found.high
        widths.append(found.high - found.low)
    assert hits >= 105
    assert np.mean(widths) < 0.35


def test_more_tries_than_runs_are_refused():
    report = records(np.zeros((4, 2), bool))
    with pytest.raises(du.DurometerError, match="runs=3"):
        report.metric("robust", over=3)
    with pytest.raises(du.DurometerError, match="expected 1 to 2"):
        report.metric("robust", over=0)
    with pytest.raises(du.DurometerError, match="tries are of"):
        report.metric("clean", over=2)


def small_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 3)).double()


def test_dent_is_attacked_as_the_paper_does_it():
    _, data = du.testing.toy()
    game = du.Transductive(du.defenses.DENT(small_net(), steps=1), batch=8)
    assert game.default_attack(du.Linf(0.1)) == du.GMSA(du.Confident(), iterations=2)
    assert du.Job(game, data, du.Linf(0.1)).bound().attack == game.default_attack(du.Linf(0.1))
    other = du.Transductive(du.defenses.TENT(small_net()), batch=8)
    with pytest.raises(du.DurometerError, match="no standard attack on a defender"):
        du.evaluate(other, data, space=du.Linf(0.1))


def test_a_ladder_without_attacks_takes_the_strongest_known():
    space, inner = du.Linf(0.1), du.APGD(100)
    game = du.Transductive(du.defenses.Norm(small_net()), batch=8)
    assert strongest_known(game, space) == (
        du.FPA(inner), du.GMSA(inner), du.GMSA(inner, "min"),
        du.Then(du.GMSA(inner), du.Unrolled()),
    )  # fmt: skip
    control = du.Transductive(du.defenses.Control(small_net, du.testing.toy()[1]), batch=8)
    assert len(strongest_known(control, space)) == 3
    dent = du.Transductive(du.defenses.DENT(small_net()), batch=8)
    assert strongest_known(dent, space)[-1] == du.GMSA(du.Confident(), iterations=2)


def test_a_ladder_names_its_lowest_rung(monkeypatch):
    _, data = du.testing.toy()
    game = du.Transductive(du.defenses.Norm(small_net()), batch=8, probe=False)
    quick = (du.FPA(du.PGD(2), iterations=1), du.GMSA(du.PGD(5), iterations=1))
    monkeypatch.setattr("durometer._ladder.strongest_known", lambda *asked: quick)
    steps = du.ladder(game, data, space=du.Linf(0.1), static=du.PGD(5))
    assert list(steps.reports)[2:5] == ["transfer", "FPA", "GMSA-AVG"]
    lowest = min(steps.reports[n].metric("robust").value for n in ("transfer", "FPA", "GMSA-AVG"))
    assert steps.strongest in ("transfer", "FPA", "GMSA-AVG")
    assert steps.reports[steps.strongest].metric("robust").value == lowest
    assert f"strongest known: {steps.strongest}, " in str(steps)


def test_presets_are_the_papers_cifar_settings():
    _, data = du.testing.toy()
    space = du.Linf(8 / 255)
    rmc = du.defenses.RMC.cifar10(small_net(), data, space, seed=3)
    assert (rmc.copies, rmc.rate, rmc.k, rmc.epochs, rmc.seed) == (4, 2.5e-5, 1024, 100, 3)
    assert rmc.attack.steps == 40
    assert rmc.attack.step * space.eps == pytest.approx(1 / 255)
    build = lambda: du.architectures.domain_mlp(torch.zeros(8), torch.ones(8), 3, width=8)  # noqa: E731
    assert du.defenses.DANN.cifar10(build, data).strength == 1.0
    assert du.defenses.DANN(build, data).strength == 0.1
