"""The prosecutor (studies/proofs/prosecute.py) with a fixed seed: no proven row falls, and what is
outside the list of operations is refused."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "proofs"))

from prosecution import play_networks, play_records, play_tables, play_text
from prosecution.networks import CONSTRUCTS
from prosecution.play_records import NETWORKS
from prosecution.play_text import TEXTS
from prosecution.tables import RELATIONS
from prosecution.tree_models import KINDS

REFUSED = {
    "rrelu", "softplus(beta < 0)", "clamp(high < low)", "round(decimals)", "floor_divide",
    "max.dim with its place", "view as another type", "mean of the batch", "branch on values",
    "branch on the batch", "noise", "dropout that stays on", "counts its calls", "bool cast",
    "whole arithmetic", "addmm(beta, alpha)", "scripted or traced",
}  # fmt: skip
SAMPLE = sorted({*REFUSED, *list(CONSTRUCTS)[::9], "in-place ReLU of a residual", "autocast",
                 "hook or replaced forward", "int64, then int8", "cancelling 1e6"})  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_no_proof_of_a_network_falls(name):
    count = play_networks.play(name, 1, rows=60, spaces=1, draws=60)
    assert (count.wrong, count.disputed) == (0, 0)
    assert bool(count.refused) >= (name in REFUSED)


@pytest.mark.parametrize("name", list(KINDS)[::2])
def test_no_proof_of_a_table_falls(name):
    count = play_tables.play(name, 1, count=40, near=150)
    assert (count.wrong, count.disputed) == (0, 0)


@pytest.mark.parametrize("name", NETWORKS)
def test_no_proof_of_a_network_on_records_falls(name):
    count = play_records.play(name, 1, count=30, near=150)
    assert (count.wrong, count.disputed) == (0, 0)


@pytest.mark.parametrize("name", TEXTS)
def test_no_proof_of_a_text_falls(name):
    count = play_text.play(name, 1, count=30)
    assert count.wrong == 0
    assert bool(count.refused) == (count.proven == 0)


def test_numbers_of_numpy_break_a_relation_like_others():
    """`numpy.False_` is not `False`: the prosecutor once took such records for valid ones."""
    record = (1.0, 1.0, 1.0, 0.0, 4.5)  # e <= a + 3
    assert RELATIONS["real"][1](*record) is False
    assert RELATIONS["real"][1](*np.array(record)) is False
