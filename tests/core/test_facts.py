"""Facts: there and back, counted, and refused where a field is of another kind."""

import json
from dataclasses import fields

import pytest

from durometer.core.facts import COUNTED, Facts

FULL = Facts(
    classes=3, half="float16", score=0.5, left_out=("a",), other_scale=(0.1, 0.9), random=True,
    tolerance=1e-3, gradients=4, broke_down=(10, "ValueError: no"), unfinished=(1, 2),
    versions=({"torch": "1"}, {"torch": "2"}), all_rows=7,
)  # fmt: skip


@pytest.mark.parametrize("facts", [Facts(), FULL])
def test_there_and_back(facts: Facts) -> None:
    assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


def test_what_says_nothing_is_not_written() -> None:
    assert Facts().to_json() == {}
    assert Facts.from_json({"of another version": 1}) == Facts()


def test_counts_are_added() -> None:
    twice = FULL.plus({"gradients": 2, "misled": 1}).plus({"gradients": 1})
    assert (twice.gradients, twice.misled, twice.classes) == (7, 1, 3)
    assert set(COUNTED) <= {f.name for f in fields(Facts)}


@pytest.mark.parametrize(
    "table",
    [
        {"classes": "3"}, {"classes": True}, {"training": 1}, {"saturated": "x"}, {"half": 2},
        {"score": []}, {"left_out": "abc"}, {"left_out": [1]}, {"other_scale": [1]},
        {"unfinished": [1, "2"]}, {"broke_down": [1, 2]}, {"versions": ["a"]}, {"classes": None},
    ],
)  # fmt: skip
def test_another_kind_is_refused_by_its_name(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(table))):
        Facts.from_json(table)
