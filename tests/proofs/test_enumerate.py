"""Enumeration decides every row it may list, and its proofs are those of plain strings."""

import pytest
import torch
from tests.oracles.sentences import neighbours
from tests.spaces.test_text import TABLE, TEXTS, broken_by_hand, data, score, space

import durometer as du
from durometer.attacks.sequences.substitute import Greedy
from durometer.model.text import strings
from durometer.proofs.enumerate import Enumerate
from durometer.spaces import token_ids


@pytest.mark.parametrize("most", [0.2, 0.4, 1.0])
def test_counts_and_lists_what_may_be_written(most):
    region = space(most).around(token_ids.encode(TEXTS))
    for i, text in enumerate(TEXTS):
        listed = token_ids.sentences(region.points(i))
        assert sorted(listed) == sorted(neighbours(text, TABLE, most))
        assert int(region.sizes()[i]) == len(listed)


@pytest.mark.parametrize("attack", [Enumerate(), du.Then(Greedy(), Enumerate())])
@pytest.mark.parametrize("most", [0.2, 0.4])
def test_every_row_is_broken_or_proven_and_rightly_so(attack, most):
    model = strings(score, "callable score")
    report = du.evaluate(model, data(), space=space(most), attack=attack, progress=False)
    expected = ["broken" if b else "proven" for b in broken_by_hand(most)]
    assert report.table["verdict"].tolist() == expected


def test_rows_with_too_many_points_stay_open():
    model = strings(score, "callable score")
    report = du.evaluate(model, data(), space=space(0.4), attack=Enumerate(3), progress=False)
    few = space(0.4).around(data().x).sizes().numpy() <= 3
    verdict = report.table["verdict"].to_numpy()
    assert set(verdict[few]) <= {"broken", "proven"} and (verdict[~few] == "open").all()


def test_a_point_within_rounding_of_a_tie_is_no_proof():
    class Tie(torch.nn.Module):
        reads_symbols = True

        def forward(self, x):
            odd = (x == token_ids.token_id("flick")).any(1).float()
            return torch.stack([torch.ones(len(x)), 0.5 + 0.5 * odd * (1 - 1e-7)], dim=1)

    from durometer.model.text import word_module

    three = du.Dataset(token_ids.encode(TEXTS), [0] * len(TEXTS))
    report = du.evaluate(
        word_module(Tie()), three, space=space(1.0), attack=Enumerate(), progress=False
    )
    tied = ["film" in text for text in TEXTS]
    assert (report.table["verdict"] == "open").tolist() == tied
