"""Sentences say no more than the counts: a reader that shares no code takes them apart again."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import durometer as du
from durometer.report import wording
from durometer.report.page.comparison import page
from durometer.report.verdicts import headline

COUNTS = st.builds(
    wording.Verdicts,
    **{k: st.integers(0, 3000) for k in ("broken", "proven", "open", "wrong")},
)
FORBIDDEN = re.compile(r"\b(cannot|can not|impossible|safe|secure|immune|robust model)\b", re.I)


def numbers(text):
    """All whole numbers of a sentence, thousands joined."""
    return [int(n.replace(",", "")) for n in re.findall(r"(?<![\d.])\d[\d,]*(?![\d.]*\d)", text)]


def of(text, pattern):
    found = re.search(pattern, text)
    return None if found is None else int(found.group(1).replace(",", ""))


def share(k, n):
    return f"{k} of {n}"


@given(COUNTS, st.booleans())
def test_a_headline_claims_what_the_counts_say(v, tried):
    if not tried:
        v = wording.Verdicts(v.broken, 0, v.open, v.wrong)
    upper, lower = share(v.proven + v.open, v.rows), share(v.proven, v.rows)
    text = wording.robustness(v, "The model", upper, lower, tried)
    assert not FORBIDDEN.search(text)
    assert of(text, r"classifies ([\d,]+) of") == v.broken + v.proven + v.open
    said = of(text, r"(\d+) of \d+ are\s+proven")
    assert said == (v.proven if tried else None)
    assert ("proven" in text) == tried
    if v.open:  # not known whether they stay: only an upper bound
        assert f"at most {upper}" in text
    if tried and v.open:
        assert f"at least {lower}" in text
    assert v.broken in numbers(text)


@given(COUNTS, st.booleans())
def test_a_harm_headline_is_a_lower_bound_unless_all_is_decided(v, tried):
    text = wording.harm(v, "the model", share(v.broken + v.wrong, v.rows), tried)
    assert not FORBIDDEN.search(text) and "proven" not in text
    assert ("at least" in text) == (not tried or v.open > 0)
    if v.wrong:
        assert of(text, r": ([\d,]+) before any attack") == v.wrong


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_stable_is_not_right(right, wrong, other):
    s = wording.Stability(right + wrong + other, right + wrong, right)
    for text in (
        wording.noise(s, "the model", "0.9", share(s.stable, s.rows), True),
        wording.measurements(s),
    ):
        assert not re.search(r"\b(cannot|safe|proven|robust)\b", text)
        assert of(text, r"([\d,]+) of these are stable and right") == right
        assert of(text, r"([\d,]+) of [\d,]+(?: \w+)? are stable") == right + wrong


@given(COUNTS, COUNTS, COUNTS)
def test_the_demo_counts_what_was_wrong_apart(a, b, c):
    text = wording.addresses(a, b, c)
    assert not FORBIDDEN.search(text)
    assert of(text, r"addresses ([\d,]+) pass unchanged") == a.wrong
    assert of(text, r"a search turns ([\d,]+) more") == a.broken
    proven = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) are proven", text)]
    assert proven == [b.proven, c.proven]
    text = wording.signs(a, b, "APGD (50 steps)")
    assert not re.search(r"\b(cannot|safe|proven|robust)\b", text)
    assert of(text, r"([\d,]+) resisted APGD") == a.proven + a.open


POINTS = st.tuples(*[st.floats(-100, 100)] * 3).map(lambda t: tuple(sorted(t)))


@given(st.booleans(), st.booleans(), COUNTS, COUNTS, POINTS)
def test_models_are_ranked_only_by_the_same_attack_or_by_decisions(same, question, a, b, points):
    setting = wording.Setting(False, same, question)
    text = wording.ranking(setting, ("one", "other"), (a, b), points, 0.01)
    assert not re.search(r"\b(cannot|safe|proven)\b", text)
    decided = a.open == b.open == 0
    if "higher robust accuracy" in text:
        assert decided and question
    if " more rows of " in text:
        assert same and question
    if not decided:
        assert text.count("at most") == 2
    if not question or not (same or decided):
        assert text.startswith("No ranking") and " points" not in text


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_two_attacks_on_one_model_rank_the_attacks(first, second, held, both):
    rows = first + second + held + both
    text = wording.same_model(("one", "other"), (first, second), held, rows)
    assert "Same model" in text and "higher" not in text
    assert of(text, r"at most ([\d,]+) of") == held
    if first != second:
        stronger = "one" if first > second else "other"
        assert f"{stronger}'s attack breaks {abs(first - second)} more rows" in text


def _network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Linear(4, 2)


def _data(net):
    x = torch.rand(60, 4)
    return du.Dataset(x, net(x).argmax(1).detach())


def test_two_attacks_on_the_same_model_do_not_rank_it():
    net = _network()
    data = _data(net)
    weak, strong = (du.evaluate(net, data, space=du.Linf(0.1), attack=a, progress=False)
                    for a in (du.PGD(1, step=0.01), du.PGD(20)))  # fmt: skip
    only = int((strong.table["success"] & ~weak.table["success"]).sum())
    assert only
    for text in (page(weak, strong), str(weak.compare(strong))):
        assert "has a higher robust accuracy" not in text
        assert "Same model" in text
        assert re.search(rf"attack breaks {only} more rows", text)


def test_an_attack_that_proves_nothing_gives_an_upper_bound():
    net = _network()
    report = du.evaluate(net, _data(net), space=du.Linf(0.1), attack=du.PGD(5), progress=False)
    text = headline(report)
    assert "at most" in text and "resisted" in text and "proven" not in text


def test_a_stable_record_may_be_wrong():
    from sklearn.tree import DecisionTreeClassifier

    x = np.linspace(0, 1, 40).reshape(-1, 1)
    y = (x[:, 0] > 0.5).astype(int)
    tree = DecisionTreeClassifier().fit(x, y)
    y[:10] = 1  # far from the threshold: stable, and wrong
    game = du.Nature(tree, du.Normal(sd=0.01))
    report = du.evaluate(game, du.Dataset(x, y), progress=False)
    text = headline(report)
    stable = report.table["probability_low"] >= 0.99
    right = int((stable & (report.table["clean"] == report.table["y"])).sum())
    assert right == int(stable.sum()) - 10
    assert "safe" not in text and f"{right} of these are stable and right" in text


def test_to_reproduce_names_the_call_the_date_and_the_records():
    net = _network()
    report = du.evaluate(net, _data(net), space=du.Linf(0.1), attack=du.PGD(2), progress=False)
    text = report.html()
    assert "made in Python: du.evaluate(MODEL, DATA, space=Linf(0.1)" in text
    assert re.search(r"Page written on \d{4}-\d\d-\d\d", text)
    for name in ("records.parquet", "evidence.html"):
        assert f"href='{name}'" in text


def test_more_sentences_than_counts_are_refused():
    with pytest.raises(du.DurometerError, match="expected counts"):
        wording.Verdicts(-1, 0, 0, 0)
