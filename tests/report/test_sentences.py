"""A reader that shares no code with `wording` takes every sentence apart and asks for its grounds.

It knows nothing but the counts and the English: a strong word needs rows that were proven, a figure
about robustness needs "at most" or "at least" unless every row was decided, a percentage is that
of the counts before it, and every count that is said is one of those that exist.
"""

from __future__ import annotations

import re
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import durometer as du
from durometer.report import wording
from durometer.report.page.comparison import page as comparison_page
from durometer.report.page.ladder import page as ladder_page
from durometer.report.verdicts import headline, stability

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)

NEVER = re.compile(
    r"\b(cannot|can not|impossible|never|always|safe|secure|immune|unbreakable|withstands?|"
    r"guarantee[sd]?|robust model|is robust|are robust)\b",
    re.I,
)
SHARE = re.compile(r"([\d,]+) of ([\d,]+)[^(),.;]*? \((over |under )?(\d+) %")
COUNT = re.compile(r"(?<![\w.%])\d[\d,]*\d|(?<![\w.%])\d(?![\d.]*\d)")


def whole(text: str) -> int:
    return int(text.replace(",", ""))


def plain(text: str) -> str:
    """The sentence without what is no count of rows: p, probabilities, percentages, points."""
    text = re.sub(r"\(between .*?\)|p = [\d.e+-]+|[\d.]+ points|\b\d+\.\d+\b", "", text)
    return re.sub(r"(over |under )?\d+ %|between \d+ and \d+|\(\d+ steps\)", "", text)


def sums(*parts: int) -> set[int]:
    """Everything that can be counted with these parts."""
    return {sum(c) for k in range(len(parts) + 1) for c in combinations(parts, k)}


def read(text: str, known: set[int], proven: set[int]) -> None:
    """Raises where the sentence says more than the counts."""
    assert not NEVER.search(text), text
    for k, n, side, shown in SHARE.findall(text):
        k, n, shown = whole(k), whole(n), int(shown)
        assert k <= n, text
        true = 100 * k / n if n else 0
        if side:
            assert (true > shown) if side == "over " else (0 < true < shown), text
        else:
            assert abs(true - shown) <= 0.5 + 1e-9, text
            assert shown != 100 or k == n, f"{text}: not all of them"
            assert shown != 0 or k == 0 or n == 0, f"{text}: not none of them"
    for said in COUNT.findall(plain(text)):
        assert whole(said) in known, f"{text}: where does {said} come from?"
    for said in re.findall(r"([\d,]+)(?: of [\d,]+)?(?: \([^)]*\))? are proven", text):
        assert whole(said) in proven, text
    if not proven:
        assert "proven" not in text and "certified" not in text, text


def share(k: int, n: int) -> str:
    """As the house writes a share; checked against the counts by `read`."""
    return wording.percent(k, n)


def parts(v: wording.Verdicts) -> set[int]:
    return sums(v.broken, v.proven, v.open, v.wrong)


NUMBERS = st.one_of(st.integers(0, 5), st.integers(0, 3000))
COUNTS = st.builds(wording.Verdicts, **{k: NUMBERS for k in ("broken", "proven", "open", "wrong")})
NEARLY = wording.Verdicts(1, 0, 2999, 0)


@given(COUNTS, st.booleans())
@example(NEARLY, False)
@example(wording.Verdicts(2999, 1, 0, 0), True)
def test_headline(v: wording.Verdicts, tried: bool) -> None:
    if not tried:
        v = wording.Verdicts(v.broken, 0, v.open, v.wrong)
    text = wording.robustness(
        v, "The model", share(v.proven + v.open, v.rows), share(v.proven, v.rows), tried
    )
    read(text, parts(v), {v.proven} if tried else set())
    for place in re.finditer(r"stay correct|\bdo:", text):  # a bound, or all rows are decided
        before = text[: place.start()]
        assert re.search(r"at (most|least) [^.]*$", before) or (tried and not v.open), text
    if v.wrong:  # counted apart
        assert f"{v.rows - v.wrong:,} of {v.rows:,} inputs correctly" in text


@given(COUNTS, st.booleans())
@example(NEARLY, True)
def test_harm(v: wording.Verdicts, tried: bool) -> None:
    text = wording.harm(v, "the model", share(v.broken + v.wrong, v.rows) + " cases", tried)
    read(text, parts(v), set())
    assert "at least" in text or (tried and v.open == 0), text


@given(NUMBERS, NUMBERS, NUMBERS)
@example(3000, 2999, 50_000)
def test_cross_examination(examined: int, more: int, points: int) -> None:
    for overturned in {0, examined // 2, examined}:
        a = wording.Audit(examined + more, examined, points, overturned)
        text = wording.cross_examination(a)
        known = {a.proofs, a.examined, a.points, a.overturned}
        assert all(whole(n) in known for n in COUNT.findall(text)), text
        assert ("none broke" in text) == (examined > 0 and not overturned), text
        assert ("withdrawn" in text) == (overturned > 0), text


@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from([0.9, 0.99, 0.995, 0.9999]), st.booleans())
@example(5, 0, 1, 0.9999, False)
def test_noise(right: int, wrong: int, other: int, at: float, certified: bool) -> None:
    rows = right + wrong + other
    s = wording.Stability(rows, right + wrong, right, at, certified)
    known = {rows, right + wrong, right, 0, 1}
    shown = share(s.stable, s.rows)
    for text in (
        wording.noise(s, "the model", "0.912", shown + " records", True),
        wording.noise(s, "the model", "0.912", shown + " records", False),
        wording.measurements(s),
    ):
        assert not NEVER.search(text) and "proven" not in text
        assert ("certified" in text) <= certified, text
        levels = re.findall(r"(?:probability of at least |probability |is )([\d.]+)( %)?", text)
        said = [float(v) / (100 if unit else 1) for v, unit in levels]
        assert all(v in (0.912, at) or abs(v - at) < 1e-12 for v in said), text
        for n in COUNT.findall(re.sub(r"[\d.]+ %|0\.\d+", "", text)):
            assert whole(n) in known, text


@given(COUNTS, COUNTS, COUNTS)
def test_demo(a: wording.Verdicts, b: wording.Verdicts, c: wording.Verdicts) -> None:
    text = wording.addresses(a, b, c)
    read(text, parts(a) | parts(b) | parts(c), {b.proven, c.proven})
    text = wording.signs(a, b, "APGD (50 steps)")
    read(text, parts(a) | parts(b), set())
    made = re.search(r"([\d,]+) (?:more )?are made to say go", text)
    assert made and whole(made[1]) == a.broken, f"{text}: {a.wrong} said it from the start"


RATES = st.tuples(*[st.integers(0, 12)] * 3)


@given(RATES)
def test_demo_of_a_defence(right: tuple[int, int, int]) -> None:
    text = wording.defence((share(right[0], 12), share(right[1], 12), share(right[2], 12)))
    read(text, {*right, 12}, set())
    assert text.count("at most") == 3


@given(NUMBERS, NUMBERS)
@example(2999, 1)
def test_a_model_that_moves_and_bands_of_attackers(held: int, other: int) -> None:
    n = held + other
    text = wording.moving("The model", share(n, n) + " inputs", share(held, n))
    read(text, {held, n}, set())
    assert re.search(rf"at most {held:,} of {n:,}", text), text
    text = wording.coalitions("the model", share(held, n) + " bands of attackers", 3)
    read(text, {held, n, 3}, set())
    assert re.search(rf"at most {held:,} of {n:,}", text, re.I), text


@given(RATES)
def test_a_ladder_is_made_of_upper_bounds(right: tuple[int, int, int]) -> None:
    text = wording.rungs(tuple(share(k, 12) for k in right), "GMSA")
    read(text, {*right, 12}, set())
    assert text.count("at most") == 3


@given(NUMBERS, NUMBERS)
def test_a_sweep_is_between_upper_bounds(low: int, more: int) -> None:
    n = low + more + 1
    text = wording.over_runs(7, (share(low, n), "eps=1"), (share(low + more, n), "eps=0"))
    read(text.replace("eps=1", "").replace("eps=0", ""), {7, low, low + more, n}, set())
    assert "at most" in text


NAMES = ("one", "other")
POINTS = st.tuples(*[st.floats(-100, 100)] * 3).map(lambda t: tuple(sorted(t)))


@given(st.booleans(), st.booleans(), COUNTS, COUNTS, POINTS)
@example(True, True, NEARLY, wording.Verdicts(3000, 0, 0, 0), (1.0, 2.0, 3.0))
def test_ranking(
    attack: bool,
    question: bool,
    a: wording.Verdicts,
    b: wording.Verdicts,
    points: tuple[float, float, float],
) -> None:
    setting = wording.Setting(False, attack, question)
    text = wording.ranking(setting, NAMES, (a, b), points, 0.01)
    read(text, parts(a) | parts(b), set())
    open_ = a.open + b.open
    ranks = re.search(r"\b(higher|more rows|better|stronger)\b", text)
    if ranks:
        assert question and (attack or not open_), text
        low, value, high = points
        assert not low <= 0 <= high, text
        ahead = re.search(r"^(one|other) has|rows of (one|other)", text)
        assert ahead and (ahead[1] or ahead[2]) == (NAMES[0] if value > 0 else NAMES[1]), text
    if open_:
        for k, _, _, _ in SHARE.findall(text):
            assert re.search(rf"at most {k} of", text), text


@given(st.booleans(), POINTS)
def test_ranking_under_noise(question: bool, points: tuple[float, float, float]) -> None:
    text = wording.noise_ranking(wording.Setting(False, True, question), NAMES, points, 0.01)
    assert not NEVER.search(text)
    low, value, high = points
    if not question:
        assert text.startswith("No ranking") and "higher" not in text
    elif low <= 0 <= high:
        assert "No difference" in text and "higher" not in text
    else:
        assert text.startswith(NAMES[0] if value > 0 else NAMES[1]) and "higher" in text


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
@example(1, 0, 2999, 0)
def test_same_model(first: int, second: int, held: int, both: int) -> None:
    rows = first + second + held + both
    text = wording.same_model(NAMES, (first, second), held, rows)
    read(text, {first, second, held, rows, abs(first - second)}, set())
    assert f"at most {held:,} of {rows:,}" in text
    assert not re.search(r"\b(higher|better|more robust)\b", text)


@given(st.integers(0, 10**6), st.integers(1, 10**6))
@example(999_999, 1)
@example(1, 999_999)
def test_no_percentage_is_rounded_to_all_or_to_none(k: int, other: int) -> None:
    read(wording.percent(k, k + other), {k, k + other}, set())


def _measured(sd: float, shift: float = 0.0) -> du.Report:
    x = np.linspace(0, 1, 30).reshape(-1, 1).astype(np.float32)
    net = torch.nn.Linear(1, 2)
    net.weight.data = torch.tensor([[-5.0], [5.0]])
    net.bias.data = torch.tensor([2.5 + shift, -2.5 - shift])
    game = du.Nature(net, du.Normal(sd=sd), tolerance=0.05, draws=500)
    return du.evaluate(game, du.Dataset(x, (x[:, 0] > 0.5).astype(int)), progress=False)


def test_two_noises_do_not_rank_two_models() -> None:
    calm, loud = _measured(0.01), _measured(0.6)
    other = _measured(0.6, 2.0)
    for text in (comparison_page(calm, loud), str(calm.compare(loud))):
        assert "has a higher" not in text and "No ranking" in text
    assert "No ranking" not in loud.compare(other).sentence()


def test_bounds_from_draws_are_not_called_certified() -> None:
    report = _measured(0.1)
    assert {"sampled"} <= {part for kind in report.table["winner"] for part in kind.split("+")}
    assert not stability(report).certified


def test_a_model_that_moves_is_stated_as_an_upper_bound() -> None:
    ladder = pages.moving()
    assert "and at most" in headline(ladder.reports["transfer"])
    assert ladder_page(ladder.reports, ladder.flags).count("at most") >= 3
    assert "at most" in headline(pages.quota())
    assert pages.sweep().html().count("robust accuracy is at most") == 1
