"""Exact quota robustness equals brute force over all bands; campaigns end exactly when they can."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

import durometer as du
from durometer.attacks.campaign import Outcome, bands, prior, rank_pairs, replay
from durometer.core.errors import DurometerError, Unsupported
from durometer.core.spec import QuotaRule
from durometer.goals import coalition_probability as quota
from durometer.goals.coalition_probability import Pairs, chances
from durometer.report.figures.groups import attempts, robustness
from durometer.report.report import Report
from durometer.report.stats import bootstrap, clopper_pearson
from durometer.report.sweep import Sweep


def matching(hits):
    return int((maximum_bipartite_matching(csr_matrix(hits), perm_type="column") >= 0).sum())


def fills(hits, rule, targets):
    """Independent oracle: scipy's matching, or a plain union; all choices of k targets tried."""
    managers = [targets.index(m) for m in rule.managers]
    for chosen in itertools.combinations(range(len(targets)), rule.k):
        if sum(c in managers for c in chosen) < rule.least:
            continue
        part = hits[:, list(chosen)]
        if rule.reuse and part.any(0).all():
            return True
        if not rule.reuse and matching(part) == rule.k:
            return True
    return False


def brute_force(pairs, rule):
    members = [np.flatnonzero(pairs.source == s) for s in rule.sources]
    answers = [fills(pairs.hits[list(b)], rule, pairs.targets) for b in itertools.product(*members)]
    return float(np.mean(answers))


@st.composite
def tables(draw):
    sources, targets = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    counts = [draw(st.integers(1, 3)) for _ in range(sources)]
    n = sum(counts)
    flat = draw(st.lists(st.booleans(), min_size=n * targets, max_size=n * targets))
    hits = np.array(flat).reshape(n, targets)
    names = tuple(range(10, 10 + targets))
    pairs = Pairs(np.arange(n), np.repeat(np.arange(sources), counts), names, hits, hits * 0.0)
    k = draw(st.integers(1, targets))
    managers = names[: draw(st.integers(0, targets))]
    least = draw(st.integers(1, min(k, len(managers)))) if managers else 0
    rule = QuotaRule(k, draw(st.booleans()), least, tuple(range(sources)), names, managers)
    return pairs, rule


@given(tables())
def test_exact_equals_brute_force(case):
    pairs, rule = case
    assert chances(pairs, rule)[0] == pytest.approx(brute_force(pairs, rule))


@given(tables(), st.integers(0, 3))
def test_a_campaign_fills_the_quota_exactly_when_it_can_be_filled(case, seed):
    pairs, rule = case
    for band in bands(pairs, rule, 3, seed):
        end = replay(pairs, rule, band, rank_pairs(pairs, seed=seed))
        assert end.filled == fills(pairs.hits[band], rule, pairs.targets)
        assert end.attempts <= pairs.hits[band].size


def test_bands_too_many_to_count_are_sampled(monkeypatch):
    rng = np.random.default_rng(0)
    hits = rng.random((24, 5)) < 0.4
    pairs = Pairs(np.arange(24), np.repeat(np.arange(4), 6), (4, 5, 6, 7, 8), hits, hits * 1.0)
    rule = QuotaRule(3, False, sources=(0, 1, 2, 3))
    exact = chances(pairs, rule, each_input=True)
    monkeypatch.setattr(quota, "MOST_STATES", 1)
    sampled = chances(pairs, rule, each_input=True)
    assert len(exact) == len(sampled) == 25
    assert sampled[0] == pytest.approx(exact[0], abs=0.05)
    assert 0 < exact[0] < 1


@given(tables())
def test_the_chance_given_an_input_is_that_of_the_bands_that_hold_it(case):
    pairs, rule = case
    found = chances(pairs, rule, each_input=True)[1:]
    for i in range(len(found)):
        others = (pairs.source != pairs.source[i]) | (np.arange(len(found)) == i)
        part = Pairs(*(v[others] for v in (pairs.ids, pairs.source)), pairs.targets,
                     pairs.hits[others], pairs.scores[others])  # fmt: skip
        assert found[i] == pytest.approx(brute_force(part, rule))


def drawn_table(rng, counts, targets, chance):
    """Inputs whose luck differs, as pairs."""
    n = sum(counts)
    luck = np.clip(chance * rng.uniform(0, 2, (n, 1)), 0, 1)
    hits = rng.random((n, targets)) < luck
    source = np.repeat(np.arange(len(counts)), counts)
    names = tuple(range(10, 10 + targets))
    return Pairs(np.arange(n), source, names, hits, hits * 0.0)


@pytest.mark.parametrize(("targets", "chance"), [(4, 0.3), (8, 0.15)])
def test_attempts_in_random_order_cover_the_mean_over_all_orders(targets, chance):
    """k = 1: among m pairs with h hits the first hit comes after (m + 1) / (h + 1) attempts."""
    rule = QuotaRule(1, True, sources=(0, 1))
    covered = 0
    for seed in range(60):
        pairs = drawn_table(np.random.default_rng([7, seed]), [3, 3], targets, chance)
        first, second = pairs.hits[:3].sum(1), pairs.hits[3:].sum(1)
        hits = (first[:, None] + second).ravel()
        if not hits.any():
            covered += 1
            continue
        truth = ((2 * targets + 1) / (hits[hits > 0] + 1)).mean()
        counts = attempts(pairs, rule, seed, shuffled=True)
        found = bootstrap(counts[np.isfinite(counts)])
        covered += found.low - 1e-9 <= truth <= found.high + 1e-9
    assert covered >= 54


def test_attempts_follow_the_seed_of_the_run():
    pairs = drawn_table(np.random.default_rng(0), [4, 4], 5, 0.3)
    rule = QuotaRule(1, True, sources=(0, 1))
    one, again, other = (attempts(pairs, rule, s, shuffled=True) for s in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


@pytest.mark.parametrize("inputs", [3, 30])
@pytest.mark.parametrize(("sources", "chance", "k", "reuse"), [
    (2, 0.3, 2, True), (3, 0.2, 2, False), (4, 0.5, 3, False), (5, 0.08, 1, True),
])  # fmt: skip
def test_the_interval_of_a_quota_covers(sources, chance, k, reuse, inputs):
    rng = np.random.default_rng(3)
    rule = QuotaRule(k, reuse, sources=tuple(range(sources)))
    crowd = drawn_table(rng, [300] * sources, 4, chance)
    truth = 1 - chances(crowd, rule)[0]
    runs, covered, wide = 200, 0, 0.0
    for _ in range(runs):
        rows = np.concatenate(
            [rng.choice(np.flatnonzero(crowd.source == s), inputs) for s in range(sources)]
        )
        part = Pairs(np.arange(len(rows)), crowd.source[rows], crowd.targets, crowd.hits[rows],
                     crowd.scores[rows])  # fmt: skip
        found = robustness(part, rule)
        covered += found.low <= truth <= found.high
        wide += found.high - found.low
    assert covered >= 0.95 * runs
    assert wide / runs < (0.95 if inputs == 3 else 0.35)


def line(hits, scores, **rule):
    pairs = Pairs(
        np.arange(len(hits)), np.arange(len(hits)), (7, 8, 9)[: len(hits[0])],
        np.array(hits, bool), np.array(scores, float),
    )  # fmt: skip
    sources = tuple(range(len(hits)))
    rule = QuotaRule(**{"k": 1, "reuse": True, "sources": sources} | rule)
    return replay(pairs, rule, np.arange(len(hits)), pairs.scores)


def test_attempts_are_counted_by_hand():
    # In the order of the scores; the second attempt on target 0 is skipped: it is hit already.
    assert line([[1, 0], [1, 1]], [[0, 1], [2, 3]], k=2) == Outcome(3, True)
    # A target nobody reaches: every pair that could help is tried, then the campaign gives up.
    assert line([[1, 0], [1, 0]], [[0, 1], [2, 3]], k=2) == Outcome(3, False)
    # k - 1 places are taken and the last is for a manager: the non-manager pair is never tried.
    end = line([[1, 1, 1]], [[0, 1, 2]], k=2, least=1, managers=[9])
    assert end == Outcome(2, True)


def test_without_reuse_a_hit_may_have_to_move_an_earlier_one():
    # Attacker 0 takes target 0 first, but attacker 1 can pass for nobody else.
    assert line([[1, 1], [1, 0]], [[0, 3], [1, 2]], k=2, reuse=False) == Outcome(4, True)
    # One attacker alone cannot pass for two at once.
    assert not line([[1, 1]], [[0, 1]], k=2, reuse=False).filled


def toy():
    stream = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(6, 5)
    with torch.no_grad():
        net.weight.copy_(torch.randn(5, 6, generator=stream) * 3)
        net.bias.copy_(-net.weight.sum(1) / 2)
        x = torch.rand(60, 6, generator=stream)
        y = net(x).argmax(1)
    return net, du.Dataset(x, y, classes=tuple("abcde"))


def test_a_quota_report_agrees_with_one_targeted_run_per_target():
    net, data = toy()
    vault = du.Quota(2, sources=("a", "b"), targets=("c", "d", "e"), reuse=False)
    attack = du.Campaign(du.APGD(20))
    report = du.evaluate(net, data, space=du.Linf(0.12), goal=vault, attack=attack)
    pairs = Pairs.of(report.records.columns)
    sources = data.where(y=["a", "b"])
    assert sorted(pairs.ids.tolist()) == sorted(str(i) for i in sources.ids)
    for column, name in enumerate("cde"):
        single = du.evaluate(
            net, sources, space=du.Linf(0.12), goal=du.Targeted(name), attack=du.APGD(20)
        )
        won = dict(zip(single.table["id"].astype(str), single.table["success"], strict=True))
        both = [won[i] == h for i, h in zip(pairs.ids, pairs.hits[:, column], strict=True)]
        assert np.mean(both) >= 0.95  # a linear model: only the random start differs
    assert report.metric("robust").value == pytest.approx(1 - brute_force(pairs, report.spec.quota))
    assert report.metric("clean").n == len(data)
    assert report.metric("clean_on_targets").n == len(data.where(y=["c", "d", "e"]))
    assert report.metric("attempts").value <= report.metric("attempts_random").value + 0.5
    assert "no reuse" in str(report)


def test_pairs_that_were_not_tried_are_no_failures():
    net, data = toy()
    vault = du.Quota(2, sources=("a", "b"), targets=("c", "d", "e"))
    how = {"space": du.Linf(0.12), "goal": vault, "attack": du.APGD(5)}
    whole = du.evaluate(net, data, **how)
    pairs = int((data.y < 2).sum()) * 3
    kept = np.ones(len(whole.records), bool)
    kept[np.arange(1, pairs, 3)] = False  # nobody tried "d"
    kept[np.arange(1, pairs, 6)] = True  # but every other input
    part = Report(whole.spec, whole.records.take(kept))
    inputs = {str(i).split(" as ")[0] for i in whole.table["id"][np.arange(1, pairs, 6)]}
    rows = [str(i).split(" as ")[0] in inputs for i in whole.table["id"]]
    same = Report(whole.spec, whole.records.take(np.array(rows)))
    assert part.metric("robust") == same.metric("robust")
    assert part.metric("robust").n == len(inputs)
    none = Report(whole.spec, whole.records.take(np.array([0, 1])))
    assert none.metric("robust").n == 0 and str(none) and none.html()
    with pytest.raises(Unsupported, match="needs all its pairs"):
        du.evaluate(net, data, **how, run=du.Run(until=0.1))


def test_seeds_of_a_quota_are_pooled_by_run_not_by_pair():
    net, data = toy()
    vault = du.Quota(2, sources=("a", "b"), targets=("c", "d", "e"))
    runs = {
        f"seed={s}": du.evaluate(
            net, data, space=du.Linf(0.12), goal=vault, attack=du.PGD(2), seed=s
        )
        for s in (0, 1)
    }
    pooled = Sweep({n: {"seed": n} for n in runs}, runs).robust(list(runs))
    assert pooled.value == pytest.approx(np.mean([r.metric("robust").value for r in runs.values()]))


def test_a_report_survives_saving_with_its_other_goals(tmp_path):
    net, data = toy()
    goal = du.Group({"a": ["c", "d"]})
    also = (du.Untargeted(), du.RandomTarget())
    report = du.evaluate(net, data, space=du.Linf(0.1), goal=goal, attack=du.APGD(5), also=also)
    again = du.Report.load(report.save(tmp_path / "run"))
    for name in ("robust", "clean_on_targets", "robust_untargeted", "robust_random_target"):
        assert again.metric(name) == report.metric(name)
    assert str(again) == str(report)


def test_two_further_goals_of_a_kind_are_both_kept():
    net, data = toy()
    also = (du.Group({"a": ["c"]}), du.Group({"b": ["c"]}))
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.APGD(2), also=also)
    assert list(report.also) == ["group", "group_2"]
    assert report.metric("robust_group").n == int((data.y == 0).sum())
    assert report.metric("robust_group_2").n == int((data.y == 1).sum())


@pytest.mark.parametrize("hit", [True, False])
def test_an_interval_is_never_a_point(hit):
    """All bands fill the quota or none does: there is no spread, and five bands say little."""
    hits = np.full((10, 2), hit)
    pairs = Pairs(np.arange(10), np.repeat([0, 1], 5), (2, 3), hits, hits * 0.0)
    rule = QuotaRule(2, True, sources=(0, 1))
    found = robustness(pairs, rule)
    assert found.value == 1 - hit and found.n == 10
    assert (found.low, found.high) == clopper_pearson(5 * (1 - hit), 5)
    assert found.high - found.low > 0.3


def test_sources_without_rows_are_flagged():
    net, data = toy()
    data = data.where(y=["a", "c", "d"])
    vault = du.Quota(1, sources=("a", "b"), targets=("c", "d"))
    report = du.evaluate(net, data, space=du.Linf(0.1), goal=vault, attack=du.APGD(2))
    (flag,) = (f for f in report.flags if f.id == "sources-missing")
    assert "1 of the quota's 2 sources" in flag.text and "(b)" in flag.text
    whole = du.evaluate(*toy(), space=du.Linf(0.1), goal=vault, attack=du.APGD(2))
    assert not any(f.id == "sources-missing" for f in whole.flags)


def test_prior_is_the_share_of_validation_inputs():
    hits = np.array([[1, 0], [1, 1], [0, 0]], bool)
    pairs = Pairs(np.arange(3), np.array([0, 0, 1]), (2, 3), hits, hits * 1.0)
    P = prior(pairs, 4)
    assert P[0, 2] == 1 and P[0, 3] == 0.5 and P[1].sum() == 0
    assert rank_pairs(pairs, P=P)[1].tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("quota", "word"),
    [
        ({"k": 2, "sources": (0,), "targets": (1, 2), "reuse": False}, "sources"),
        ({"k": 3, "sources": (0,), "targets": (1, 2)}, "k=3"),
        ({"k": 0, "sources": (0,), "targets": (1, 2)}, "k=0"),
        ({"k": "1", "sources": (0,), "targets": (1, 2)}, "k='1'"),
        ({"sources": "burglar", "targets": (1, 2)}, "sources='burglar'.*list"),
        ({"sources": (0, 1), "targets": (1, 2)}, "both"),
        ({"sources": (0,), "targets": (1, 1)}, "named twice"),
        ({"sources": (0,), "targets": (1,), "managers": (2,)}, "manager"),
        ({"sources": (0,), "targets": (1, 2), "managers": (1,), "least": 2}, "least=2"),
        ({}, "at least one"),
    ],
)
def test_a_quota_that_cannot_be_is_refused_where_it_is_made(quota, word):
    with pytest.raises(DurometerError, match=word):
        du.Quota(**quota)


def test_names_where_the_data_have_none():
    net, data = toy()
    plain = du.Dataset(data.x, data.y)
    with pytest.raises(DurometerError, match="no class names"):
        du.evaluate(
            net, plain, space=du.Linf(0.1), goal=du.Quota(1, ("a",), ("b",)), attack=du.APGD(2)
        )


def test_a_class_by_name_and_by_number_is_one_class():
    net, data = toy()
    vault = du.Quota(1, sources=("a",), targets=("c", 0))
    with pytest.raises(DurometerError, match="both a source and a target"):
        du.evaluate(net, data, space=du.Linf(0.1), goal=vault, attack=du.APGD(2))


def test_a_campaign_needs_a_quota():
    net, data = toy()
    with pytest.raises(Unsupported, match="Guess"):
        du.evaluate(
            net, data, space=du.Linf(0.1), goal=du.Group({"a": ["b", "c"]}),
            attack=du.Campaign(du.APGD(2)),
        )  # fmt: skip
