"""The game: who knows what, whose random numbers are whose, what the records say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.toys.transductive import Bound, Dice, Drift, Fixed, Median, Picky, linear, plane

import durometer as du
from durometer.problem.needs import Needs
from durometer.report.page.ladder import cost
from durometer.report.stats import bootstrap

SPACE = du.Linf(0.2)
INNER = du.PGD(8)


def play(defender, attack, data=None, seed=0, goal=None, space=SPACE, **rules):
    return du.evaluate(
        du.Transductive(defender, **rules),
        data or plane(),
        space=space,
        attack=attack,
        goal=goal,
        seed=seed,
    )


def same(a, b, leave=("seconds", "adapting")):
    for name, column in a.records.columns.items():
        if name not in leave:
            np.testing.assert_array_equal(column, b.records.columns[name], err_msg=name)
    np.testing.assert_array_equal(a.adversarial, b.adversarial)


class Wasteful:
    """Draws random numbers of every kind, rehearses a lot, and hands in the clean batch."""

    needs = Needs()

    def __call__(self, problem):
        torch.rand(1000)
        np.random.rand(1000)  # noqa: NPY002
        problem.random.uniform(problem.open, 100)
        for draw in range(7):
            problem.simulation.adapt(problem.referee.best, draw)


def test_the_referee_does_not_depend_on_what_the_attack_consumed():
    calm, busy = (play(Dice(), attack, batch=8, runs=3) for attack in (None, Wasteful()))
    same(calm, busy, leave=("seconds", "adapting", "adaptations", "clean_doubt"))


def test_replaying_a_saved_game_gives_the_same_records(tmp_path):
    attack = du.GMSA(INNER, iterations=2)
    first = play(Dice(), attack, batch=8, runs=2)
    first.save(tmp_path / "game")
    loaded = du.Report.load(tmp_path / "game")
    again = play(Dice(), attack, batch=8, runs=2, seed=loaded.spec.seed)
    same(loaded, again)
    other = play(Dice(), attack, batch=8, runs=2, seed=1)
    assert not np.array_equal(other.records.columns["margin"], first.records.columns["margin"])


class Counted(Drift):
    calls = 0

    def adapt(self, state, x, seed):
        type(self).calls += 1
        return super().adapt(state, x, seed)


def test_the_game_nobody_attacks_is_played_once_for_all_attacks():
    game, attack = du.Transductive(Counted(), batch=8, probe=False), du.Transfer(INNER)
    how = {"space": SPACE, "attack": attack, "progress": False}
    first, before = du.evaluate(game, plane(), **how), Counted.calls
    again = du.evaluate(game, plane(), **how)
    assert before == 9  # three rounds: the attacker's belief, the truth, the calm game
    assert Counted.calls - before == 6
    same(first, again)
    for change in ({"seed": 1}, {"data": plane(seed=1)}):
        data = change.pop("data", plane())
        known = du.evaluate(game, data, **how, **change)
        same(known, play(Counted(), attack, data, batch=8, probe=False, **change))


def test_a_model_that_was_trained_on_is_asked_again():
    defender = Fixed()
    game = du.Transductive(defender, batch=8, probe=False)
    how = {"space": SPACE, "attack": du.Transfer(INNER), "progress": False}
    assert du.evaluate(game, plane(), **how).metric("clean").value == 1.0
    with torch.no_grad():
        defender.model.weight.neg_()
        defender.model.bias.neg_()
    assert du.evaluate(game, plane(), **how).metric("clean").value == 0.0


def test_a_defender_that_does_not_move_is_as_robust_as_its_model():
    data = plane(40, gap=0.1)
    static = du.evaluate(Fixed().model, data, space=du.Linf(0.15), attack=du.PGD(20))
    for attack in (du.PGD(20), du.Transfer(du.PGD(20)), du.GMSA(du.PGD(20), iterations=1)):
        moved = play(Fixed(), attack, data, space=du.Linf(0.15), batch=16)
        assert moved.metric("robust").value == static.metric("robust").value
        assert moved.metric("clean").value == 1.0


def test_public_randomness_is_a_rehearsal_of_the_game_itself():
    report = play(Dice(), du.GMSA(INNER, iterations=2), batch=8, runs=2, information="seed")
    c = report.records.columns
    np.testing.assert_array_equal(c["simulated"], c["success"].astype(float))
    private = play(Dice(), du.GMSA(INNER, iterations=2), batch=8, runs=2)
    assert report.metric("robust").value <= private.metric("robust").value


@pytest.mark.parametrize("information", ["start", "state", "seed"])
def test_the_state_moves_on_from_round_to_round(information):
    report = play(Drift(0.05), None, batch=6, information=information)
    margins = report.table.query("y == 1").groupby("round")["margin"].min()
    assert list(report.table["round"].unique()) == [0, 1, 2, 3]
    # Every round the border moves by 0.05 to the left: rows of class 1 are safer by 0.5.
    data = plane()
    for number in range(4):
        rows = report.table[(report.table["round"] == number) & (report.table["y"] == 1)]
        x = data.x[rows["id"].to_numpy(int), 0].numpy()
        expected = -10 * (x - 0.5 + 0.05 * (number + 1))
        np.testing.assert_allclose(rows["margin"], expected, atol=1e-5)
    assert len(margins) == 4


def test_an_attacker_without_the_state_keeps_up_its_own():
    seen = []

    class Look:
        needs = Needs()

        def __call__(self, problem):
            seen.append(float(problem.model.module.bias[1]))

    play(Drift(0.05), Look(), batch=6)
    np.testing.assert_allclose(seen, [-2.5, -2.25, -2.0, -1.75], atol=1e-6)


def test_sorted_windows_and_callables():
    data = plane(16)
    report = play(Fixed(), None, data, batch=4, order="sorted", window=8)
    assert report.table["y"].tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 2
    assert sorted(report.table["id"]) == list(range(16))
    turned = play(Fixed(), None, data, batch=4, order=lambda d: np.arange(len(d))[::-1])
    assert turned.table["id"].tolist() == list(range(15, -1, -1))
    with pytest.raises(du.DurometerError, match="exactly once"):
        play(Fixed(), None, data, order=lambda d: np.zeros(len(d)))
    with pytest.raises(du.DurometerError, match="order='label'"):
        play(Fixed(), None, data, order="label")


def test_reordered_rows_keep_their_own_clean_inputs_in_the_examples():
    report = play(Fixed(), du.PGD(20), plane(16, gap=0.05), batch=4, order="sorted")
    moved = np.abs(report.examples.clean - report.examples.adversarial).max()
    assert moved <= 0.2 + 1e-6


def test_only_controlled_rows_change_and_only_scored_rows_count():
    data = plane(20)
    controlled = np.arange(20) < 10
    report = play(Median(), du.GMSA(INNER, iterations=1), data, batch=20,
                  controlled=controlled, scored=~controlled)  # fmt: skip
    moved = (report.adversarial != data.x.numpy()).any(1)
    assert moved[controlled].any() and not moved[~controlled].any()
    assert (report.table["skipped"] == "not scored").tolist() == controlled.tolist()
    assert report.metric("robust").n == 10
    assert report.table["controlled"].tolist() == controlled.tolist()


class Shove:
    """Pushes the rows it controls as far up as they may go."""

    needs = Needs()

    def __call__(self, problem):
        rows = problem.open
        region = problem.region(rows)
        problem.submit(rows, region.project(region.origin + 1))


def test_rows_that_others_poisoned_are_told_from_rows_that_were_attacked():
    data = plane(24)
    controlled = np.arange(24) < 16
    report = play(Median(), Shove(), data, space=du.Linf(0.5), batch=24, probe=False,
                  controlled=controlled, scored=~controlled)  # fmt: skip
    fallen = report.table[~controlled & report.table["success"]]
    assert len(fallen) and set(fallen["winner"]) == {"other rows"}
    assert f"broken by: other rows {len(fallen)}" in str(report)


def test_answers_that_depend_on_company_are_flagged():
    data = plane(12)
    data = data.take(data.y.argsort(stable=True))
    flags = {f.id for f in play(Median(), None, data, batch=12).flags}
    assert "company-dependent" in flags and "order-dependent" not in flags
    assert not play(Fixed(), du.Transfer(INNER)).flags


def test_a_classifier_bound_to_its_batch_is_asked_by_row():
    data = plane(12)
    report = play(Bound(), None, data, batch=5)
    np.testing.assert_allclose(report.table["margin"], -0.1, atol=1e-5)
    # Each border follows its own row, so handing in any point on the right side changes nothing.
    attacked = play(Bound(), du.GMSA(INNER, iterations=2), data, batch=5, space=du.Linf(0.05))
    assert attacked.metric("robust").value == 1.0


def test_runs_are_played_with_other_random_numbers_and_widen_the_interval():
    report = play(Dice(), du.Transfer(INNER), batch=24, runs=4)
    assert report.table["run"].nunique() == 4 and len(report.table) == 96
    by_run = [e.value for e in report.metric("robust", by="run").values()]
    assert len(set(by_run)) > 1
    e = report.metric("robust")
    assert e.value == pytest.approx(np.mean(by_run))
    assert e.low <= min(by_run) + 0.25 and e.high - e.low > 0.1


def test_a_batch_is_one_adaptation_and_a_move_is_paid_once():
    report = play(Dice(), du.GMSA(INNER, iterations=1), batch=8, runs=3)
    assert report.metric("adaptations").n == 9  # three rounds, three runs
    t = report.table
    assert cost(report)[0] == pytest.approx(t.loc[t["run"] == 0, "seconds"].sum())
    assert cost(report)[1] == pytest.approx(t["adapting"].sum())
    leaked = play(Dice(), du.GMSA(INNER, iterations=1), batch=8, runs=3, information="state")
    assert cost(leaked)[0] == pytest.approx(leaked.table["seconds"].sum())
    values = np.repeat(t.groupby(["run", "round"])["adapting"].first().to_numpy(), 8)
    alone = bootstrap(values, np.repeat(np.arange(9), 8))
    seen = report.metric("adapting")
    assert (seen.low, seen.high) == pytest.approx((alone.low, alone.high))


def test_rejecting_is_no_success_and_has_figures_of_its_own():
    data = plane(40)
    report = play(Picky(0.7), None, data, goal=du.Untargeted(reject=2), batch=40)
    high = data.x[:, 1].numpy() > 0.7
    assert ((report.table["doubt"] > 0) == high).all()
    assert report.metric("rejected").value == high.mean()
    assert report.metric("rejected_clean").value == high.mean()
    assert report.metric("error").value == 0.0
    assert (report.table["answer"] == report.table["y"]).all()
    attacked = play(Picky(0.7), du.GMSA(du.PGD(20), iterations=3), data, batch=40,
                    goal=du.Untargeted(reject=2), space=du.Linf(0.45))  # fmt: skip
    t = attacked.table
    assert attacked.metric("error").value == t["success"].mean() > 0.5
    assert attacked.metric("error_accepted").n == (t["doubt"] <= 0).sum()
    from durometer.report.figures.transductive import curve

    line = curve(attacked, 11)
    assert line["rejected"].is_monotonic_increasing
    assert np.isnan(line["error_accepted"].iloc[-1]) and ",nan" not in attacked.html()
    assert line["error"].iloc[-1] == 0.0 and line["rejected"].iloc[0] == 0.0
    with pytest.raises(du.DurometerError, match=r"Untargeted\(reject=2\)"):
        play(Picky(), None)
    with pytest.raises(du.DurometerError, match="no reject class"):
        curve(play(Fixed(), None))


def test_refusals():
    with pytest.raises(du.DurometerError, match=r"expected a Defender, e.g. .*adapt\(state"):
        play(linear([1.0, 1.0]), None)
    with pytest.raises(du.DurometerError, match="information='all'"):
        play(Fixed(), None, information="all")
    with pytest.raises(du.DurometerError, match=r"not the class but Fixed\(\)"):
        du.Transductive(Fixed)
    for wrong in (
        {"information": "seeds"}, {"order": "label"}, {"runs": 0}, {"batch": "8"}, {"batch": 2.5},
        {"window": 0},
    ):  # fmt: skip
        with pytest.raises(du.DurometerError, match=f"{next(iter(wrong))}="):
            du.Transductive(Fixed(), **wrong)
    with pytest.raises(du.DurometerError, match=r"controlled has shape \(3,\)"):
        play(Fixed(), None, controlled=[True] * 3)
    with pytest.raises(du.DurometerError, match="batch=0"):
        play(Fixed(), None, batch=0)
    with pytest.raises(du.DurometerError, match="needs a space"):
        play(Fixed(), INNER, space=None)
    with pytest.raises(du.Unsupported, match="moves after the attacker"):
        du.evaluate(Fixed().model, plane(), space=SPACE, attack=du.GMSA(INNER))


def test_what_a_ladder_is_given():
    game = du.Transductive(Fixed())
    for said, target, attacks in (
        ("expected a game", Fixed(), [du.FPA(INNER)]),
        ("list of attacks", game, du.FPA(INNER)),
        ("list of attacks", game, []),
        (r"not the class but GMSA\(\)", game, [du.GMSA]),
        ("this is no attack", game, ["GMSA"]),
    ):
        with pytest.raises(du.DurometerError, match=said):
            du.ladder(target, plane(), space=SPACE, attacks=attacks)


def test_any_attack_is_a_rung_and_the_static_one_is_the_standard_attack():
    steps = du.ladder(
        du.Transductive(Fixed()), plane(), space=SPACE, attacks=[du.Square(50), Shove()]
    )
    assert {"Square", "Shove"} < set(steps.reports)
    assert steps.reports["static"].spec.attack["type"] in ("Standard", "Cascade")
    assert len(steps.reports["Square"].table["run"].unique()) == 1  # Fixed is not random


def test_a_random_defender_is_played_three_times_and_rehearsed_three_times():
    attack = du.GMSA(du.PGD(4), iterations=1)
    steps = du.ladder(
        du.Transductive(Dice(0.1), batch=24), plane(), space=SPACE, attacks=[attack], static=INNER
    )
    for name, report in steps.reports.items():
        assert report.table["run"].nunique() == (1 if name == "static" else 3), name
    assert (steps.reports["GMSA-AVG"].table["adaptations"] == 6).all()  # two candidates
    line = next(t for t in str(steps).splitlines() if t.startswith("GMSA-AVG"))
    each = [float(v) for v in line.split()[-3:]]
    moves = steps.reports["GMSA-AVG"].metric("robust", by="run").values()
    assert each == [round(e.value, 3) for e in moves]
    alone = play(Dice(0.1), attack)
    assert "one-move" in {f.id for f in alone.flags}
    assert (alone.table["adaptations"] == 6).all()
    fixed = play(Fixed(), attack, probe=False)
    assert (fixed.table["adaptations"] == 2).all() and not fixed.flags
    assert (play(Dice(0.1), replace(attack, simulations=1)).table["adaptations"] == 2).all()


def test_a_defender_is_no_model():
    class Predicting(Fixed):
        predict = "pre"  # as TENT has it

    for defender in (Fixed(), Predicting()):
        for how in ({}, {"attack": INNER}):
            with pytest.raises(du.DurometerError, match=r"is a defender.*du.Transductive\("):
                du.evaluate(defender, plane(), space=SPACE, **how)


def test_a_defender_has_no_standard_attack():
    for space in (SPACE, None):
        with pytest.raises(du.DurometerError, match=r"attack=du.GMSA\(du.PGD.*attack=None"):
            du.evaluate(du.Transductive(Fixed()), plane(), space=space)


def test_where_nobody_attacks_no_robust_accuracy_is_printed():
    report = play(Fixed(), None, plane(gap=-0.1), batch=8)
    assert "Goal not reached by round" in report.html()
    assert "Robust accuracy" not in report.html() and "Which attack won" not in report.html()
    report = play(Fixed(), None)
    assert [(f.id, f.level) for f in report.flags] == [("no-attack", "note")]
    for text in (str(report), report.html()):
        assert "robust accuracy" not in text and "attack success" not in text
        assert "nobody attack" in text
    assert report.metric("robust").value == report.metric("clean").value
    attacked = play(Fixed(), du.Transfer(INNER), batch=8)
    page = attacked.html()
    assert "Robust accuracy by round" in page
    assert "What it cost" not in page  # every row of a batch was paid for to the end
    assert "robust accuracy" in str(attacked) and not attacked.flags
    steps = du.ladder(du.Transductive(Fixed()), plane(), space=SPACE, attacks=[du.GMSA(INNER)])
    assert "no-attack" not in {f.id for f in steps.flags}


def test_rows_that_break_their_own_space_stay_in_the_batch_but_not_in_the_figures():
    class Half:
        """Inputs above 0.6 in the second coordinate are not allowed, clean or not."""

        norm = float("inf")

        def check(self, x):
            pass

        def around(self, x):
            region = SPACE.around(x)
            object.__setattr__(region, "high", torch.tensor([[1.0, 0.6]]))
            return region

    data = plane(30)
    report = play(Fixed(), INNER, data, space=Half(), batch=30)
    bad = data.x[:, 1].numpy() > 0.6
    assert ((report.table["skipped"] == "invalid") == bad).all()
    assert (report.adversarial[bad] == data.x.numpy()[bad]).all()
    assert report.metric("robust").n == (~bad).sum()


def test_a_plain_attack_in_the_game_is_a_transfer_attack():
    data = plane(20, gap=0.05)
    one = play(Dice(0.1), du.PGD(10), data, batch=10)
    other = play(Dice(0.1), du.Transfer(du.PGD(10)), data, batch=10)
    np.testing.assert_array_equal(one.table["final"], other.table["final"])
    assert (one.table["adaptations"] == 0).all() and (other.table["adaptations"] == 0).all()


def test_transfer_attacks_the_model_from_before_the_first_round():
    seen = []

    class Look:
        needs = Needs()

        def __call__(self, problem):
            seen.append(float(problem.simulation.static.module.bias[1]))

    play(Drift(0.05), Look(), batch=6)
    assert seen == [-2.5] * 4
    # The drift has moved the border away from class 0; a transfer attack does not know.
    data = plane(24, gap=0.05)
    knows = play(Drift(0.2), du.GMSA(du.PGD(20), "last", 0), data, batch=6)
    blind = play(Drift(0.2), du.Transfer(du.PGD(20)), data, batch=6)
    assert (knows.table["margin"] >= blind.table["margin"] - 1e-4).all()
