"""Transfer, FPA, GMSA: the published loop, its options, and what they are worth on small games."""

import numpy as np
import pytest
import torch
from tests.toys.transductive import Dice, Fixed, Picky, linear, plane

import durometer as du
from durometer.attacks.transductive.gmsa import lengthened, warmed
from durometer.model.classifier import wrap

SPACE = du.Linf(0.2)


class Dodge:
    """Turns its border by 90 degrees whenever the batch differs from the clean one."""

    stateful = False

    def __init__(self, data):
        self.clean = data.x

    def start(self):
        return None

    def base(self, state):
        return wrap(linear([10.0, 0.0], -5.0))

    def adapt(self, state, x, seed):
        moved = float((x - self.clean[: len(x)]).abs().max()) > 1e-3
        return (wrap(linear([0.0, 10.0], -5.0)) if moved else self.base(None)), None


def diagonal(n=20):
    """Class 1 in the upper right, class 0 in the lower left: two borders are right at once."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = 0.3 * torch.rand(n, 2, generator=g) + y[:, None] * 0.7
    return du.Dataset(x.clamp(0, 1), y)


def play(defender, attack, data, **rules):
    space = rules.pop("space", du.Linf(0.45))
    goal = rules.pop("goal", None)
    rules.setdefault("batch", len(data))
    return du.evaluate(
        du.Transductive(defender, **rules), data, space=space, attack=attack, goal=goal
    )


def test_a_defender_that_dodges_beats_transfer_but_not_the_model_space():
    data = diagonal()
    robust = {
        attack.name: play(Dodge(data), attack, data).metric("robust").value
        for attack in (
            du.Transfer(du.PGD(20)),
            du.FPA(du.PGD(20), 2),
            du.GMSA(du.PGD(20), "avg", 2),
            du.GMSA(du.PGD(20), "min", 2),
        )
    }
    # The transfer attack moves along x0 only, the model it meets looks at x1 only.
    assert robust["Transfer"] > 0.5
    assert robust["FPA"] <= 0.2 and robust["GMSA-AVG"] <= 0.2 and robust["GMSA-MIN"] <= 0.2


@pytest.mark.parametrize("simulations", [1, 3])
def test_every_candidate_is_rehearsed(simulations):
    # Nothing can be won in so small a space, so no rehearsal ends the search early.
    attack = du.GMSA(du.PGD(3), iterations=4, simulations=simulations)
    report = play(Fixed(), attack, plane(8), space=du.Linf(0.01))
    assert (report.table["adaptations"] == 5 * simulations).all()
    assert report.metric("adaptations").value == 5 * simulations


def test_the_search_ends_when_every_row_is_fooled():
    report = play(Fixed(), du.GMSA(du.PGD(10)), plane(8), space=du.Linf(0.5))
    assert (report.table["adaptations"] == 1).all()
    assert report.metric("robust").value == 0.0


def test_clean_fall_back_hands_in_the_clean_batch_when_nothing_is_gained():
    data = plane(8)
    for fallback, moved in (("clean", False), ("attacked", True)):
        attack = du.GMSA(du.PGD(3), iterations=1, fallback=fallback)
        report = play(Fixed(), attack, data, space=du.Linf(0.01))
        assert (report.adversarial != data.x.numpy()).any() == moved
    attack = du.GMSA(du.PGD(10), iterations=1, fallback="clean", first="clean")
    assert play(Fixed(), attack, data, space=du.Linf(0.5)).metric("robust").value == 0.0


def test_several_rehearsals_choose_better_against_dice():
    # One rehearsal of a random defender overrates the chosen candidate; nine hardly do.
    data = plane(24, gap=0.02)
    gaps = []
    for simulations in (1, 9):
        bias = []
        for seed in range(6):
            report = du.evaluate(
                du.Transductive(Dice(0.35), batch=24, runs=30, probe=False),
                data,
                space=du.Linf(0.15),
                attack=du.GMSA(du.PGD(6), "last", 4, simulations=simulations),
                seed=seed,
            )
            t = report.table
            bias.append(t["simulated"].mean() - t["success"].mean())
        gaps.append(np.mean(bias))
    assert gaps[0] > 0.02
    assert gaps[1] < 0.6 * gaps[0]


def test_selection_bias_is_flagged():
    data = plane(24, gap=0.02)
    found = set()
    for seed in range(4):
        game = du.Transductive(Dice(0.35), batch=24, runs=30, probe=False)
        attack = du.GMSA(du.PGD(6), "last", 9)
        report = du.evaluate(game, data, space=du.Linf(0.15), attack=attack, seed=seed)
        found |= {f.id for f in report.flags}
    assert "selection-bias" in found


def test_min_takes_as_many_steps_as_models_and_warm_starts_go_on():
    assert lengthened(du.PGD(10), 3) == du.PGD(30, step=0.25)
    assert lengthened(du.PGD(10, step=0.1), 3) == du.PGD(30, step=0.1)
    assert lengthened(du.Confident(du.PGD(10)), 2).attack.steps == 20
    assert lengthened(du.Square(), 2) == du.Square()
    assert warmed(du.PGD(10), 4) == du.PGD(4, step=0.25, start="best")
    with pytest.raises(du.Unsupported, match="no steps to be started warm"):
        warmed(du.Square(), 4)
    data = diagonal()
    costs = {}
    for warm in (None, 3):
        report = play(Dodge(data), du.GMSA(du.PGD(12), "min", 3, warm=warm), data)
        assert report.metric("robust").value <= 0.3
        costs[warm] = report.table["backwards"].iloc[0]
    assert costs[3] < costs[None]


def test_a_warm_start_never_loses_what_it_started_from():
    data = plane(12, gap=0.02)
    game = du.Transductive(Fixed(), batch=12)
    cold = du.evaluate(game, data, space=SPACE, attack=du.GMSA(du.PGD(10), "avg", 0))
    warm = du.evaluate(game, data, space=SPACE, attack=du.GMSA(du.PGD(10), "avg", 3, warm=0))
    assert (warm.table["margin"] >= cold.table["margin"] - 1e-5).all()


def test_selective_perturbation_leaves_rows_clean_that_are_not_fooled():
    data = plane(20, gap=0.0)
    space = du.Linf(0.12)
    report = play(Fixed(), du.GMSA(du.PGD(10), iterations=1, selective=True), data, space=space)
    moved = (report.adversarial != data.x.numpy()).any(1)
    assert (moved == report.table["success"]).all() and 0 < moved.sum() < 20


def test_rejection_aware_the_attack_avoids_what_is_rejected():
    data = plane(30, seed=2)
    goal, space = du.Untargeted(reject=2), du.Linf(0.4)
    blind = play(Picky(0.6), du.Transfer(du.PGD(20)), data, goal=goal, space=space)
    aware = play(Picky(0.6), du.GMSA(du.PGD(20), "last", 2), data, goal=goal, space=space)
    assert aware.metric("rejected").value < blind.metric("rejected").value
    assert aware.metric("error").value > blind.metric("error").value


def test_a_defender_without_gradients_is_attacked_by_search():
    class Black(Fixed):
        def base(self, state):
            return wrap(lambda x: self.model(torch.as_tensor(x)).detach().numpy())

        def adapt(self, state, x, seed):
            return self.base(None), None

    data = plane(10, gap=0.02)
    square = du.GMSA(du.Square(100), iterations=1)
    # A callable's nature is found by trying it: it gives arrays, so there is no gradient.
    report = play(Black(), square, data, space=SPACE)
    assert report.metric("robust").value < 0.5


def test_confident_hands_in_the_surest_error():
    """One wrong class is near and never sure, the other further away and sure: within 0.2 of 0.5
    their margins are at most 0.18 (at 0.7) and 2 (at 0.3)."""
    net = torch.nn.Linear(2, 3)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0], [-20.0, 0.0]]))
        net.bias.copy_(torch.tensor([0.0, -0.52, 8.0]))
    data = du.Dataset(torch.full((4, 2), 0.5), torch.zeros(4, dtype=torch.long))
    once = du.PGD(20, step=0.05, loss="margin", start="clean")
    for attack, surest in (
        (once, 0.18),  # climbs to the nearer class
        (du.Confident(once, restarts=1, targets=1), 0.18),  # the likeliest is that one, too
        (du.Confident(once, restarts=1, targets=2), 2.0),
    ):
        report = play(Fixed(net.eval()), du.GMSA(attack, "avg", 0), data, space=SPACE)
        assert report.table["margin"].tolist() == pytest.approx([surest] * 4, abs=1e-4)


def test_the_weak_attacks_of_the_papers_have_their_names():
    data = diagonal()
    assert [a().name for a in (du.Transfer, du.PGDSkip, du.DENTAA)] == [
        "Transfer", "PGD-skip", "DENT-AA",
    ]  # fmt: skip
    # A defender that dodges has not dodged yet: both meet the model that moves away from them.
    for attack in (du.PGDSkip(du.PGD(20)), du.DENTAA(du.PGD(20))):
        report = play(Dodge(data), attack, data)
        assert report.metric("robust").value > 0.5
        assert (report.table["adaptations"] == (attack.name == "DENT-AA")).all()


def test_select_by_loss_and_windows():
    data = diagonal()
    for more in ({"select": "loss"}, {"window": 2}, {"first": "clean"}):
        report = play(Dodge(data), du.GMSA(du.PGD(20), "avg", 3, **more), data)
        assert report.metric("robust").value <= 0.2, more


def test_refusals():
    for bad in (
        {"combine": "max"},
        {"select": "luck"},
        {"fallback": "none"},
        {"first": "last"},
        {"iterations": -1},
        {"simulations": 0},
    ):
        with pytest.raises(du.DurometerError, match=next(iter(bad))):
            play(Fixed(), du.GMSA(du.PGD(2), **bad), plane(4))


def test_the_ladder_shows_every_rung():
    data = diagonal()
    steps = du.ladder(
        du.Transductive(Dodge(data), batch=20),
        data,
        space=du.Linf(0.45),
        attacks=[du.FPA(du.PGD(10), 2), du.GMSA(du.PGD(10), "avg", 2)],
        control=Fixed(),
    )
    assert list(steps.reports) == [
        "static",
        "adapted, clean",
        "transfer",
        "FPA",
        "GMSA-AVG",
        "public randomness",
        "control",
    ]
    assert steps.reports["adapted, clean"].metric("robust").value == 1.0
    assert "GMSA-AVG" in str(steps)
    assert "adapting" in str(steps)
    for name, report in steps.reports.items():
        moves = name != "static"
        assert ("adapting" in report.shown) == moves
        assert not moves or report.metric("adapting").value > 0


def test_a_ladder_says_when_transfer_is_the_stronger_attack():
    from durometer.report.checks import of_ladder
    from durometer.report.stats import wilson

    weak = {"transfer": wilson(10, 100), "GMSA-AVG": wilson(50, 100)}
    assert [f.id for f in of_ladder(weak, "GMSA-AVG")] == ["transfer-beats-gmsa"]
    secret = {
        "transfer": wilson(90, 100),
        "FPA": wilson(50, 100),
        "public randomness": wilson(5, 100),
    }
    assert [f.id for f in of_ladder(secret, "FPA")] == ["rests-on-randomness"]


def test_settings_that_mean_nothing_are_refused_when_they_are_written():
    for wrong in ({"combine": "mean"}, {"select": "luck"}, {"fallback": "none"}, {"first": "last"}):
        with pytest.raises(du.DurometerError, match=f"{next(iter(wrong))}="):
            du.GMSA(du.PGD(5), **wrong)


def test_fab_takes_one_model_and_says_so():
    for inner in (du.FAB(3), du.Then(du.PGD(3), du.FAB(3)), du.Standard(proofs=False)):
        with pytest.raises(du.Unsupported, match="one model at a time"):
            du.GMSA(inner, "avg", 2)
        with pytest.raises(du.Unsupported, match="one model at a time"):
            du.FPA(inner, 2, simulations=3)
    for attack in (du.Transfer(du.FAB(3)), du.FPA(du.FAB(3), 1)):
        game = du.Transductive(Fixed(), batch=12)
        assert len(du.evaluate(game, plane(), space=SPACE, attack=attack).table) == 24
