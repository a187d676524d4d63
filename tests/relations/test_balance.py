"""Balance: the compiled loop against its plain twin."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.balance import balance

from durometer.relations.balance import Balance, Flat


def clauses(rng: np.random.Generator, d: int, count: int) -> Flat:
    """Random clauses of one to three branches of up to four terms."""
    branches = rng.integers(1, 4, count)
    terms = rng.integers(0, 5, branches.sum())
    t, b = int(terms.sum()), int(branches.sum())
    starts = [np.concatenate([[0], np.cumsum(a)]).astype(np.int64) for a in (branches, terms)]
    places = rng.integers(0, d, t)
    past = rng.random(t) < 0.1
    owner = np.repeat(np.repeat(np.arange(count), branches), terms)
    touched = [np.unique(owner[(places == f) & ~past]) for f in range(d)]
    return Flat(
        clauses=starts[0],
        branches=starts[1],
        places=places,
        weights=rng.choice([-2.0, -1.0, 0.5, 1.0, 3.0], t),
        past=past,
        starts=rng.normal(size=b),
        both=rng.random(b) < 0.4,
        goals=rng.choice([0.0, 0.0, 1e-12, 1.0], b),
        slacks=rng.choice([np.nan, np.nan, 0.01], b),
        exact=rng.random(b) < 0.3,
        norms=rng.uniform(0.1, 5, b),
        shares=rng.choice([1.0, 4.0, 1e-6, 1e-12], t),
        free=(rng.random(t) < 0.8) & ~past,
        whole=(rng.random(d) < 0.4)[places],
        named=np.concatenate([[0], np.cumsum([len(a) for a in touched])]).astype(np.int64),
        naming=np.concatenate(touched).astype(np.int64),
    )


def records(
    rng: np.random.Generator, n: int, d: int, missing: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    x0 = np.round(rng.normal(size=(n, d)) * 3, 1)
    x = np.where(rng.random((n, d)) < 0.5, np.round(x0 + rng.normal(size=(n, d))), x0)
    if missing:
        x[rng.random((n, d)) < 0.1] = np.nan
    x, x0, low, high = (torch.from_numpy(a) for a in (x, x0, x0 - 4, x0 + 5))
    return x, x0, low, high


@given(
    st.integers(0, 40), st.integers(1, 6), st.integers(0, 6), st.booleans(),
    st.sampled_from([0.0, 1e-3, 0.4]), st.integers(0, 99),
)  # fmt: skip
def test_balanced_records_equal_those_of_the_plain_twin_to_the_last_bit(
    n: int, d: int, count: int, missing: bool, tolerance: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    flat, given = clauses(rng, d, count), records(rng, n, d, missing)
    theirs = given[0].numpy().copy()
    with np.errstate(invalid="ignore"):
        balance(theirs, *(a.numpy() for a in given[1:]), tolerance, flat)
    np.testing.assert_array_equal(Balance(flat)(*given, tolerance).numpy(), theirs)


def test_a_copy_and_one_sent_to_another_process_balance_the_same() -> None:
    rng = np.random.default_rng(1)
    used, given = Balance(clauses(rng, 6, 5)), records(rng, 30, 6, False)
    wanted = used(*given, 1e-3)
    copied, sent = copy.deepcopy(used), pickle.dumps(used)
    for array in vars(used.flat).values():
        array[:] = 0  # whoever still looked here would see nothing but zeros
    assert torch.equal(copied(*given, 1e-3), wanted)
    assert torch.equal(pickle.loads(sent)(*given, 1e-3), wanted)


def test_balanced_records_are_the_same_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    flat, given = clauses(rng, 6, 5), records(rng, 100, 6, False)
    alone = Balance(flat)(*given, 1e-3)
    assert not torch.equal(alone, given[0])
    monkeypatch.setattr("durometer.kernels.threads._FEW_NUMBERS", 1)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    assert torch.equal(Balance(flat)(*given, 1e-3), alone)
