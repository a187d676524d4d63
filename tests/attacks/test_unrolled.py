"""Gradients through the adaptation, and rows that harm the rows of others."""

import copy

import numpy as np
import pytest
import torch
from tests.toys.modules import BatchTent, batch_net
from tests.toys.transductive import Dice, Fixed, Median, plane
from torch import nn

import durometer as du
from durometer.defenses import DENT, RMC, TENT, Adapting, MedBN, Norm, Purify

DATA = plane(80, gap=0.04)
NET = batch_net(DATA)


def defenders():
    return {
        "DENT": DENT(NET, rate=0.02),
        "TENT": TENT(NET, steps=2, rate=0.02),
        "TENT post": TENT(NET, predict="post", episodic=True, rate=0.02),
        "Norm": Norm(NET),
        "Norm, half": Norm(NET, share=0.5),
        "MedBN": MedBN(NET),
        "Purify": Purify(NET, lambda x: 0.5 * x + 0.25, noise=0.05),
        "Adapting": Adapting(BatchTent(NET), reset="episodic"),
    }


@pytest.mark.parametrize("name", list(defenders()))
def test_what_is_unrolled_is_what_the_defender_answers(name):
    defender, x = defenders()[name], DATA.x[:24]
    state = defender.start()
    for draw in range(2):  # the second round starts from a state that has moved
        adapted, after = defender.adapt(state, x, draw)
        logits, _ = defender.unrolled(state, x.clone().requires_grad_(), draw)
        with torch.no_grad():
            torch.testing.assert_close(logits.detach(), adapted.logits(x), atol=2e-5, rtol=2e-5)
        state = after


@pytest.mark.parametrize("name", ["DENT", "TENT", "TENT post", "Norm", "MedBN", "Purify"])
def test_the_gradient_is_that_of_small_differences(name):
    """In float64, by central differences through adapt() alone: no gradient of ours in it."""
    net = copy.deepcopy(NET).double()
    kind = {
        "DENT": lambda: DENT(net, steps=2, rate=0.02),
        "TENT": lambda: TENT(net, steps=2, rate=0.02),
        "TENT post": lambda: TENT(net, predict="post", rate=0.05),
        "Norm": lambda: Norm(net, share=0.8),
        "MedBN": lambda: MedBN(net),
        "Purify": lambda: Purify(net, torch.tanh, noise=0.05),
    }[name]
    defender, x = kind(), DATA.x[:12].double()
    weights = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(12, 2)

    def total(batch):
        model, _ = defender.adapt(defender.start(), batch, 3)
        with torch.no_grad():
            return float((model.logits(batch) * weights).sum())

    point = x.clone().requires_grad_()
    (defender.unrolled(defender.start(), point, 3)[0] * weights).sum().backward()
    for row, column in ((0, 0), (4, 1), (11, 0)):
        step = torch.zeros_like(x)
        step[row, column] = 1e-5
        slope = (total(x + step) - total(x - step)) / 2e-5
        assert float(point.grad[row, column]) == pytest.approx(slope, rel=2e-3, abs=1e-5)


def play(defender, attack, **rules):
    rules = {"batch": 40, "probe": False} | rules
    return du.evaluate(du.Transductive(defender, **rules), DATA, space=du.Linf(0.05), attack=attack)


def test_refining_never_loses_what_was_found_and_finds_more():
    first = du.GMSA(du.PGD(5), iterations=1)
    for defender in (DENT(NET, rate=0.05), TENT(NET, episodic=True)):
        before = play(defender, first)
        after = play(defender, du.Then(first, du.Unrolled(du.PGD(10, step=0.2, start="best"))))
        assert after.metric("robust").value <= before.metric("robust").value
        assert after.table["valid"].all() and not [f for f in after.flags if f.id == "put-back"]
        c = after.records.columns
        np.testing.assert_array_equal(c["simulated"], c["success"].astype(float))


def test_a_defender_that_offers_no_gradient_is_unrolled_by_its_last_pass():
    report = play(Fixed(), du.Unrolled(du.PGD(10)))
    static = du.evaluate(Fixed().model, DATA, space=du.Linf(0.05), attack=du.PGD(10))
    assert report.metric("robust").value == static.metric("robust").value
    assert len(play(Dice(0.1), du.Unrolled(du.PGD(3), simulations=2)).table) == 80
    with pytest.raises(du.Unsupported, match="play du.Transductive"):
        du.evaluate(Fixed().model, DATA, space=du.Linf(0.05), attack=du.Unrolled(du.PGD(3)))


MINE = np.arange(80) % 4 == 0


class Shuffle:
    """Rows moved at random by as much as they may: what a poisoner must beat."""

    needs = du.extend.Needs()

    def __call__(self, problem):
        rows = problem.open
        region = problem.region(rows)
        step = 0.5 * problem.random.sign(rows, region.origin.shape[1], region.origin.dtype)
        problem.submit(rows, region.project(region.origin + step))


def benign(defender, attack, space=0.5, name="benign", **rules):
    rules = {"batch": 40, "probe": False, "controlled": MINE, "scored": ~MINE} | rules
    report = du.evaluate(
        du.Transductive(defender, **rules), DATA, space=du.Linf(space), attack=attack
    )
    moved = (report.adversarial != DATA.x.numpy()).any(1)
    assert not moved[~np.asarray(rules["controlled"])].any()
    return report.metric(name).value, report


def test_a_defender_that_trains_in_its_move_may_do_so_whoever_asks():
    """RMC learns in `adapt`; an attack that only looks at answers must not forbid it to."""
    data = plane(24, gap=0.03)
    defender = RMC(batch_net(data), data, k=8, epochs=1, calibrate=False)
    game = du.Transductive(defender, batch=8, probe=False)
    attack = du.Then(du.Transfer(du.PGD(2)), du.Unrolled(du.PGD(2, start="best")))
    report = du.evaluate(game, data.take(range(8)), space=du.Linf(0.1), attack=attack)
    assert report.table["valid"].all() and len(report.table) == 8


def test_poisoned_rows_harm_the_rows_of_others():
    lost = {}
    for name, defender in (("Norm", Norm(NET)), ("TENT", TENT(NET)), ("MedBN", MedBN(NET))):
        poisoned, report = benign(defender, du.Poison(du.APGD(15)))
        chance, _ = benign(defender, Shuffle())
        calm = report.metric("benign_unpoisoned").value
        lost[name] = calm - poisoned
        assert poisoned <= chance, name
        assert name == "MedBN" or poisoned < chance, name
    assert lost["Norm"] > 0.05 and lost["TENT"] > 0.05
    fallen = report.table[~MINE & report.table["success"] & (report.table["winner"] != "clean")]
    assert set(fallen["winner"]) <= {"other rows"}


def test_a_poisoner_by_hand_does_no_more_harm():
    """The same objective climbed by a loop of its own, through torch's own BatchNorm."""
    x, y, mine = DATA.x[:40], DATA.y[:40], torch.as_tensor(MINE[:40])
    net = copy.deepcopy(NET).train().requires_grad_(False)
    z = x.clone()
    worst = 1.0
    for _ in range(30):
        z.requires_grad_()
        logits = net(z)
        worst = min(worst, float((logits.argmax(1) == y)[~mine].double().mean()))
        (g,) = torch.autograd.grad(nn.functional.cross_entropy(logits[~mine], y[~mine]), z)
        with torch.no_grad():
            z = torch.where(mine[:, None], (z + 0.04 * g.sign()).clamp(x - 0.5, x + 0.5), z)
            z = z.clamp(0, 1)
    data = DATA.take(range(40))
    game = du.Transductive(
        Norm(NET), batch=40, probe=False, controlled=MINE[:40], scored=~MINE[:40]
    )
    report = du.evaluate(game, data, space=du.Linf(0.5), attack=du.Poison(du.APGD(30)))
    assert report.metric("benign").value <= worst + 0.034  # one row of 30


class Watched(Norm):
    """Norm that keeps every batch whose gradient somebody asked for."""

    def unrolled(self, state, x, seed):
        SEEN.append(x.detach().clone())
        return super().unrolled(state, x, seed)


SEEN: list[torch.Tensor] = []


def test_a_blind_poisoner_never_sees_the_rows_of_others_and_still_harms_them():
    own = {tuple(row) for row in DATA.x[torch.as_tensor(MINE)].tolist()}
    others = {tuple(row) for row in DATA.x[torch.as_tensor(~MINE)].tolist()} - own
    SEEN.clear()
    poisoned, report = benign(Watched(NET), du.Poison(du.APGD(15), blind=True))
    met = {tuple(row) for batch in SEEN for row in batch.tolist()}
    assert met and not met & others
    SEEN.clear()
    benign(Watched(NET), du.Poison(du.APGD(2)))
    assert {tuple(row) for batch in SEEN for row in batch.tolist()} & others
    assert poisoned < report.metric("benign_unpoisoned").value
    assert du.Poison(blind=True).name == "Poison-blind"


def test_harm_in_a_later_round():
    first = MINE & (np.arange(80) < 40)  # rows of the first round alone
    rules = {"controlled": first, "scored": ~first}
    tent = TENT(NET, rate=0.3)
    later, report = benign(tent, du.Poison(du.APGD(15), ahead=1), 1.0, "benign_later", **rules)
    chance, _ = benign(tent, Shuffle(), 1.0, "benign_later", **rules)
    assert later <= chance
    assert report.metric("benign_later").n == 40 and report.metric("benign").n == 30
    assert later <= report.metric("benign_later_unpoisoned").value
    for forgets in (Norm(NET), Adapting(BatchTent(NET))):
        with pytest.raises(du.Unsupported, match=r"Poison\(ahead=1\): no gradient"):
            benign(forgets, du.Poison(du.APGD(5), ahead=1), 1.0, **rules)


def test_a_defender_whose_rows_do_not_meet_cannot_be_poisoned():
    value, report = benign(Fixed(), du.Poison(du.APGD(3)))
    assert value == report.metric("benign_unpoisoned").value
    assert "vanishing-gradients" in {f.id for f in report.flags}
    assert len(benign(Median(), du.Poison(du.APGD(2)))[1].table) == 80


def test_the_worst_of_several_submissions():
    defender = Purify(NET, noise=0.1)
    report = play(defender, du.Transfer(du.PGD(5)), runs=4)
    table = report.table
    held = ~table.groupby("id")["success"].any()
    worst = report.metric("robust", over="worst")
    assert worst.value == held.mean() and worst.n == 80
    most = table.groupby("id")["success"].mean() <= 0.5
    assert report.metric("robust", over="majority").value == most.mean()
    assert worst.value < report.metric("robust").value
    with pytest.raises(du.DurometerError, match="over='best'"):
        report.metric("robust", over="best")
