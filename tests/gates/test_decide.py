"""A gate errs as seldom as it says, decides when it can, and says what would decide it."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import durometer as du
from durometer.core.records import Records
from durometer.core.spec import Spec
from durometer.gates.criterion import Criterion
from durometer.gates.decide import decide as gate
from durometer.gates.decide import expected_rows_to_decision
from durometer.gates.evidence import Evidence
from durometer.report.report import Report


def report(held, **columns):
    n = len(held)
    given = {"id": np.arange(n), "y": np.zeros(n, int), "clean": np.zeros(n, int)} | columns
    spec = Spec(classes=("a", "b"), batch=256)
    return Report(spec, Records.of(n, success=~np.asarray(held, bool), **given))


def test_wealth_of_zeros_and_ones_is_a_mixture_of_likelihood_ratios():
    e, x = Evidence(0.7), np.array([1, 0, 1, 1, 0, 1.0])
    path = e.add(x)
    q, w = e._alternatives, np.exp(e._log_weights)
    s = x.cumsum()
    f = np.arange(1, 7) - s
    expected = [
        math.log(w @ ((q / 0.7) ** a * ((1 - q) / 0.3) ** b)) for a, b in zip(s, f, strict=True)
    ]
    assert path == pytest.approx(expected)
    assert e.log_wealth == pytest.approx(expected[-1])


@pytest.mark.parametrize("bound", [0.5, 0.95])
def test_wealth_is_fair_at_the_bound(bound):
    """Its mean over all 2^8 outcomes at the bound is exactly 1: nobody can win on average."""
    mean = 0.0
    for outcome in range(256):
        x = np.array([(outcome >> k) & 1 for k in range(8)], float)
        chance = np.prod(np.where(x == 1, bound, 1 - bound))
        mean += chance * math.exp(Evidence(bound).add(x)[-1])
    assert mean == pytest.approx(1.0)


def test_seen_in_one_go_or_in_pieces_is_the_same():
    x = np.random.default_rng(0).random(100)
    one, many = Evidence(0.4), Evidence(0.4)
    whole = one.add(x)
    pieces = np.concatenate([many.add(part) for part in np.split(x, [10, 11, 60])])
    assert whole == pytest.approx(pieces)


def test_wrong_decisions_at_the_bound_are_rare():
    rng = np.random.default_rng(1)
    wrong = sum(
        gate(report(rng.random(1500) < 0.8), "robust >= 0.8", seed=k).outcome != "undecided"
        for k in range(100)
    )
    assert wrong <= 9  # 5 expected at the very most


def test_pass_fail_and_undecided():
    rng = np.random.default_rng(2)
    good, bad, close = (report(rng.random(800) < p) for p in (0.9, 0.7, 0.8))
    assert gate(good, "robust >= 0.8").exit_code == 0
    assert gate(bad, "robust >= 0.8").exit_code == 1
    undecided = gate(close, "robust >= 0.8")
    assert undecided.exit_code == 2
    assert "further rows would probably decide it" in str(undecided)
    assert gate(bad, "broken <= 0.2").exit_code == 1
    assert gate(good, "broken <= 0.2")


def test_one_failing_criterion_fails_and_all_must_pass():
    held = np.random.default_rng(3).random(2000) < 0.9
    y = np.arange(2000) % 2
    held[y == 1] &= np.random.default_rng(4).random(1000) < 0.6
    r = report(held, y=y)
    both = gate(r, ["robust >= 0.5", 'robust[y="b"] >= 0.75'])
    assert [d.outcome for d in both.decisions] == ["pass", "fail"]
    assert both.outcome == "fail"
    assert both.decisions[1].estimate.n == 1000


def test_paired_with_a_baseline(tmp_path):
    rng = np.random.default_rng(5)
    before = rng.random(1000) < 0.8
    report(before).save(tmp_path / "main")
    text = f"robust no lower than {tmp_path / 'main'} by more than 0.02"
    assert gate(report(before | (rng.random(1000) < 0.05)), text).outcome == "pass"
    assert gate(report(before & (rng.random(1000) < 0.85)), text).outcome == "fail"
    digests = np.arange(1, 1001)
    report(before, input=digests).save(tmp_path / "main")
    shuffled = np.random.default_rng(6).permutation(1000)
    again = report(before[shuffled], id=shuffled, input=digests[shuffled])
    assert gate(again, text).outcome == gate(report(before, input=digests), text).outcome


def test_rows_that_the_baseline_lacks_or_has_otherwise_are_named_and_decide_nothing(tmp_path):
    rng = np.random.default_rng(5)
    before, digests = rng.random(1000) < 0.8, np.arange(1, 1001)
    main = report(before, input=digests)
    main.save(tmp_path / "main")
    text = f"robust no lower than {tmp_path / 'main'} by more than 0.02"
    other = digests.copy()
    other[[7, 9]] = 5000, 5001
    after = np.concatenate([before, np.zeros(300, bool)])  # new rows, all broken
    ids = np.concatenate([np.arange(1000), np.arange(2000, 2300)])
    mixed = report(after, id=ids, input=np.concatenate([other, np.arange(7000, 7300)]),
                   y=np.zeros(1300, int), clean=np.zeros(1300, int))  # fmt: skip
    found = gate(mixed, text)
    (d,) = found.decisions
    assert found.outcome == "pass" and d.estimate.n == 998 and d.estimate.value == 0
    assert d.changed == ("7", "9") or d.changed == ("9", "7")
    assert len(d.missing) == 300 and "300 rows are not in" in str(found)
    assert "2 rows are other inputs in" in str(found)


def test_a_baseline_that_was_stopped_early_is_paired_on_what_it_has(tmp_path):
    rng = np.random.default_rng(6)
    before, digests = rng.random(800) < 0.8, np.arange(1, 801)
    text = f"robust no lower than {tmp_path / 'main'} by more than 0.02"
    for rows, outcome in ((30, "undecided"), (600, "pass")):
        report(before[:rows], input=digests[:rows]).save(tmp_path / "main")
        found = gate(report(before, input=digests), text)
        (d,) = found.decisions
        assert found.outcome == outcome and d.estimate.n == rows
        assert len(d.missing) == 800 - rows
    report(before[:1], input=digests[:1], id=[9999]).save(tmp_path / "main")
    alone = gate(report(before, input=digests), text)
    assert alone.outcome == "undecided" and "nothing points either way yet" in str(alone)


def test_a_baseline_of_another_threat_is_named(tmp_path):
    before = np.random.default_rng(7).random(800) < 0.8
    main = report(before)
    main = replace(main, spec=replace(main.spec, space={"type": "Linf", "eps": 0.1}))
    main.save(tmp_path / "main")
    again = report(before)
    again = replace(again, spec=replace(again.spec, space={"type": "Linf", "eps": 0.05}))
    text = f"robust no lower than {tmp_path / 'main'} by more than 0.02"
    assert "was played with another space" in str(gate(again, text))


def test_uncertain_probabilities_of_a_baseline_speak_against_a_decision(tmp_path):
    """Under noise both runs are known between two ends: the far ones are what is paired."""
    n = 400
    spread = {"probability_low": np.full(n, 0.5), "probability_high": np.full(n, 0.9)}
    report(np.ones(n), **spread).save(tmp_path / "main")
    text = f"robust no lower than {tmp_path / 'main'} by more than 0.1"
    exact = {f"probability_{end}": np.full(n, 0.7) for end in ("low", "high")}
    assert gate(report(np.ones(n), **exact), text).outcome == "undecided"
    report(np.ones(n), **exact).save(tmp_path / "main")
    assert gate(report(np.ones(n), **exact), text).outcome == "pass"


def _plain(rng, n):
    return (rng.random(n) < 0.85).astype(float), 0.8


def _proven(rng, n):
    return (rng.random(n) < 0.44).astype(float), 0.5


def _paired(rng, n):
    change = np.where(rng.random(n) < 0.05, rng.choice([-1, 1], n), 0)
    return (change + 1) / 2, 0.49


@pytest.mark.parametrize("draw", [_plain, _proven, _paired])
def test_the_rows_that_would_decide_are_what_it_takes(draw):
    """Asked after a quarter of the rows that such runs take: half of the runs need fewer."""
    rng, goal, runs = np.random.default_rng(0), math.log(20), []
    made = partial(Evidence, paired=draw is _paired)
    for _ in range(40):
        x, bound = draw(rng, 6000)
        path = np.maximum(made(bound).add(x), made(1 - bound).add(1 - x))
        runs.append((x, bound, int((path >= goal).argmax()) + 1 if (path >= goal).any() else 6000))
    early = int(np.median([decided for *_, decided in runs]) / 4)
    said, truth = [], []
    for x, bound, decided in runs:
        if decided > early:
            sides, seen = (made(bound), made(1 - bound)), (x[:early], 1 - x[:early])
            for side, values in zip(sides, seen, strict=True):
                side.add(values)
            said.append(expected_rows_to_decision(sides, seen, (goal, goal)))
            truth.append(decided - early)
    assert 0.5 < np.median(np.array(said) / truth) < 2
    assert 0.5 < np.median(said) / np.median(truth) < 2
    assert 0.3 < np.mean(np.array(truth) <= said) < 0.85


def test_nothing_is_said_of_further_rows_where_nothing_points_either_way():
    half = np.tile([0.0, 1.0], 50)
    (d,) = gate(report(half), "robust >= 0.5").decisions
    assert math.isinf(d.more) and "further rows" not in str(d)


@pytest.mark.parametrize(
    "text, said",
    [
        ("robst >= 0.8", "did you mean 'robust'"),
        ("robust >= 1", "between 0 and 1"),
        ("robust > 0.8", "expected e.g."),
        ("robust >= much", "no number"),
        ("robust no lower than runs/main", "expected e.g."),
    ],
)
def test_a_criterion_that_means_nothing_is_refused(text, said):
    with pytest.raises(du.DurometerError, match=said):
        Criterion.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "robust >= 0.8",
        'robust[y="no entry"] >= 0.7',
        "broken <= 0.25",
        "proven no lower than runs/main by more than 0.02",
    ],
)
def test_a_criterion_prints_as_it_is_written(text):
    assert str(Criterion.parse(text)) == text
    assert Criterion.parse(str(Criterion.parse(text))) == Criterion.parse(text)


def test_an_unknown_column_is_named():
    with pytest.raises(du.DurometerError, match="no column 'yy'"):
        gate(report(np.ones(10)), 'robust[yy="a"] >= 0.5')


def test_a_watch_that_is_used_again_begins_anew():
    net, data = du.testing.toy()
    watch = du.SequentialTest("robust >= 0.5")
    for eps in (1e-6, 10.0):
        space = du.Linf(eps, low=-100, high=100)
        run = du.Run(until=watch)
        du.evaluate(net, data, space=space, attack=du.PGD(5), run=run, batch=8, progress=False)
        assert (watch.outcome.outcome == "pass") == (eps < 1)
        assert watch.outcome.decisions[0].estimate.n <= len(data)


def paired_reports(tmp_path, lost, gained, n=300):
    """A baseline and a run on the same rows that loses and gains so many of them."""
    before = np.arange(n) % 5 > 0
    after = before.copy()
    held, not_held = np.flatnonzero(before), np.flatnonzero(~before)
    after[held[:lost]] = False
    after[not_held[:gained]] = True
    report(before).save(tmp_path / "main")
    return report(after), f"robust no lower than {tmp_path / 'main'} by more than 0.02"


def test_an_unchanged_model_passes(tmp_path):
    same, text = paired_reports(tmp_path, 0, 0)
    found = gate(same, text)
    assert (found.outcome, found.exit_code) == ("pass", 0)
    assert str(found).startswith("gate: passed")


def test_a_clearly_worse_model_fails(tmp_path):
    """-.087 [-.131, -.043] of 300 pairs."""
    worse, text = paired_reports(tmp_path, 37, 11)
    for seed in range(5):
        found = gate(worse, text, seed=seed)
        assert (found.outcome, found.exit_code) == ("fail", 1)
    assert str(found).startswith("gate: failed")


@pytest.mark.parametrize("margin", [0.02, 0.1])
@pytest.mark.parametrize("changed", [0.02, 0.1, 0.4])
def test_paired_decisions_err_as_seldom_as_they_say(margin, changed):
    """At the bound each side wins in at most alpha of all runs, looked at after every row; and so
    for differences of other sizes (probabilities under noise)."""
    rng, runs, n, goal = np.random.default_rng(8), 400, 1500, math.log(20)
    changed = max(changed, margin)
    down = (changed + margin) / 2
    wrong = np.zeros(2)
    for k in range(runs):
        kinds = rng.choice([-1.0, 0.0, 1.0], p=[down, 1 - changed, changed - down], size=n)
        x = (kinds + 1) / 2
        if k % 2:  # the same mean, smaller differences
            x = (1 - margin) / 2 + 0.5 * (x - (1 - margin) / 2)
        sides = (Evidence((1 - margin) / 2, paired=True).add(x),
                 Evidence((1 + margin) / 2, paired=True).add(1 - x))  # fmt: skip
        wrong += [side.max() >= goal for side in sides]
    assert (wrong <= 0.05 * runs + 2 * math.sqrt(0.05 * 0.95 * runs)).all()


def test_paired_wealth_is_fair_at_the_bound():
    """Its mean over all 3^7 outcomes at the bound is exactly 1."""
    import itertools

    chance = {0.0: 0.06, 0.5: 0.9, 1.0: 0.04}  # mean .49
    mean = 0.0
    for x in itertools.product(chance, repeat=7):
        wealth = math.exp(Evidence(0.49, paired=True).add(np.array(x))[-1])
        mean += math.prod(chance[v] for v in x) * wealth
    assert mean == pytest.approx(1.0)
