"""Ticks are round numbers in the problem's units; bar and pictures say what the spec says."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import durometer as du
from durometer.core.number_format import format_number, levels
from durometer.report.page import axis_scale, charts
from durometer.report.page.report import bar
from durometer.report.page.threat import pictures
from durometer.report.stats import wilson
from durometer.report.verdicts import verdicts

sys.path.insert(0, str(Path(__file__).parent))
import pages

sys.path.pop(0)


@settings(max_examples=200, deadline=None)
@given(
    st.floats(-1e3, 1e3), st.floats(1e-2, 1e6), st.integers(2, 10), st.sampled_from((1, 255))
)  # fmt: skip
def test_ticks_are_few_even_inside_and_say_what_they_are(
    low: float, span: float, most: int, per: int
) -> None:
    high = low + span
    found = axis_scale.ticks(low, high, most, per)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * span - 1e-9 * abs(low) <= v <= high + 1e-6 * span + 1e-9 * abs(high)
               for v in found)  # fmt: skip
    if len(found) > 2:
        assert np.ptp(np.diff(found)) <= 1e-6 * span
        digits = f"{np.diff(found)[0] * per:.4e}".replace(".", "").partition("e")[0].rstrip("0")
        assert digits in ("1", "2", "25", "5")


@pytest.mark.parametrize("steps", [1, 2, 4, 8, 16, 0.5])
def test_steps_of_a_pixel_are_written_as_such(steps: float) -> None:
    eps = steps / 255
    assert format_number(eps) == f"{steps:g}/255" == format_number(float(np.float32(eps)))
    assert f"at most {steps:g}/255" in du.Linf(eps).description


@pytest.mark.parametrize("eps", [0.1, 0.2, 0.03, 0.5, 1.0, 3.0, 0.0314, 0.123456])
def test_other_numbers_stay_decimals(eps: float) -> None:
    assert levels(eps) == 1 and format_number(eps) == f"{eps:g}"


def test_a_page_in_steps_of_a_pixel_has_no_long_decimals() -> None:
    page = pages.long().html()
    shown = re.findall(r'class="tick">([^<]*)</text>', page)
    assert "4/255" in shown or "2/255" in shown
    assert "8/255" in page and "0.0313" not in page.split("Row by row</h2>")[0]
    assert not any(re.fullmatch(r"0\.\d{4,}", t) for t in shown)


def test_histograms_hold_every_value_between_round_edges() -> None:
    values = np.random.default_rng(0).uniform(0, 8 / 255, 500)
    drawn = charts.histogram(values, "a", "b", per=255)
    counts = [int(n) for n in re.findall(r"<title>(\d+) rows from", drawn)]
    assert sum(counts) == 500
    ends = re.findall(r"rows from ([\d.]+)/255 to", drawn)
    assert len(ends) >= 8 and all(len(e) <= 4 for e in ends)


def test_one_curve_needs_no_legend_and_two_do() -> None:
    one = {"a": [(1.0, wilson(9, 10)), (1000.0, wilson(5, 10))]}
    assert "legend" not in charts.curves(one, "x", "y", log=True)
    both = charts.curves(one | {"b": one["a"]}, "x", "y", log=True)
    assert both.count('class="legend"') == 2 and ">100</text>" in both


@pytest.mark.parametrize("kind", ["table", "images", "groups", "quota", "long"])
def test_the_bar_counts_every_played_row_once(kind: str) -> None:
    report: du.Report = getattr(pages, kind)()
    counts = {k: n for k, (_, n) in verdicts(report).items()}
    t = report.table[report.table["skipped"] == ""]
    assert sum(counts.values()) == len(t)
    assert counts["broken"] + counts.get("wrong", 0) == int(t["success"].sum())
    assert counts.get("proven", 0) == int((t["verdict"] == "proven").sum())
    assert ("proven" in counts) == report.two_sided


def test_rows_that_nobody_tried_to_prove_are_not_called_safe() -> None:
    assert "no proof was tried" in bar(pages.images())
    assert "neither proven nor broken" in bar(pages.long())


def test_under_noise_the_bar_knows_sure_unsure_and_undecided() -> None:
    counts = {k: n for k, (_, n) in verdicts(pages.nature()).items()}
    t = pages.nature().table
    assert sum(counts.values()) == len(t)
    assert counts["proven"] == int((t["probability_low"] >= 0.99).sum()) > 0


SPACES = {
    "Linf": du.Linf(8 / 255), "L2": du.L2(0.5), "L1": du.L1(2), "L0": du.L0(3),
    "Patch": du.Patch("eyeglasses"), "Quantised": du.Quantised(du.Linf(4 / 255)),
}  # fmt: skip


@pytest.mark.parametrize("name", SPACES)
def test_each_space_has_a_picture_of_its_own(name: str) -> None:
    from durometer.core.serialization import to_dict

    game, attack = {"type": "Static"}, {"type": "PGD"}
    spec = du.Spec(space=to_dict(SPACES[name]), game=game, attack=attack)
    said = pictures(spec)
    assert said.count("<svg") == 3
    word = {"L0": "At most 3 features", "Patch": "eyeglasses", "Quantised": "4/255"}
    assert word.get(name, format_number(getattr(SPACES[name], "eps", 0))) in said
    others = {pictures(replace(spec, space=to_dict(s))) for k, s in SPACES.items() if k != name}
    assert said not in others


def test_the_pictures_follow_the_goal_and_the_game() -> None:
    assert "Only certain mistakes count: 3 of them" in pictures(pages.groups().spec)
    assert "2 of 2 people" in pictures(pages.quota().spec)
    assert "The model moves last" in pictures(pages.moving().reports["transfer"].spec)
    assert "Nobody chooses the noise" in pictures(pages.nature().spec)
    strange = du.Spec(space={"type": "my.own:Space"}, goal={"type": "my.own:Goal"})
    assert "my.own:Space" in pictures(strange) and "my.own:Goal" in pictures(strange)


def test_a_model_without_a_name_is_the_model_and_the_page_asks_for_one() -> None:
    page = pages.images().html()
    head = page.partition("<nav")[0]
    assert "<h1>The model classifies" in head and "du.wrap(model, name=...)" in head
    net, data = du.testing.toy()
    named = du.wrap(net, name="loan scorer")
    report = du.evaluate(named, data, space=du.Linf(0.1), attack=du.FGSM())
    head = report.html().partition("<nav")[0]
    assert "<h1>loan scorer classifies" in head and "name=..." not in head
    assert report.spec.model == "loan scorer" and report.spec.model_kind.startswith("torch ")
