"""Questions about whole networks, against all pairs of valid records: no code is shared."""

import itertools

import numpy as np
import pytest
import torch

import durometer as du

RELATIONS = {
    "a <= b": lambda a, b, c: a <= b,
    "if c == 1 then a >= 2": lambda a, b, c: c != 1 or a >= 2,
    "a * b <= 4": lambda a, b, c: a * b <= 4,
}


def network(seed, outputs):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(3, 8), (torch.nn.ReLU(), torch.nn.Tanh())[seed % 2],
        torch.nn.Linear(8, outputs),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_all_pairs_of_small_networks(seed):
    outputs = (2, 3, 1)[seed % 3]
    net = network(seed, outputs)
    texts = list(RELATIONS)[: seed % 4]
    schema = du.Schema(
        [du.Feature("a", "integer", 0, 4), du.Feature("b", "integer", 0, 4),
         du.Feature("c", "category", values=(0, 1, 2))],
        texts,
    )  # fmt: skip
    every = itertools.product(range(5), range(5), range(3))
    x = np.array([r for r in every if all(RELATIONS[t](*r) for t in texts)], dtype=float)
    with torch.no_grad():
        raw = net(torch.from_numpy(x).float()).double().numpy()
    score = {1: raw, 2: raw[:, 1:] - raw[:, :1], 3: raw}[outputs]
    score = np.hstack([-score, score]) if score.shape[1] == 1 else score
    label = score.argmax(axis=1)
    top = np.sort(score, axis=1)
    lead = np.abs(score[:, 0]) if outputs < 3 else top[:, -1] - top[:, -2]
    k = score.shape[1] - 1
    for of in ([0], [2]):
        rest = [i for i in range(3) if i not in of]
        same = (x[:, None, rest] == x[None, :, rest]).all(axis=2)
        i, j = np.nonzero(same)
        true = (score[i, k] - score[j, k]).max()
        names = ["abc"[c] for c in of]
        answer = du.influence(net, schema, of=names, label=k, gap=1e-3)
        assert answer.status == "proven", answer
        assert answer.low == pytest.approx(true, abs=2e-3)
        assert answer.low <= true + 1e-5 and answer.high >= true - 1e-5
        strength = np.where(label[i] != label[j], np.minimum(lead[i], lead[j]), -np.inf).max()
        answer = du.flips(net, schema, of=names)
        assert answer.status == ("found" if strength > 0 else "proven"), (strength, answer)
        if strength > 0:
            beyond = du.flips(net, schema, of=names, margin=strength + 0.01)
            assert beyond.status == "proven", (strength, beyond)
    steps = (x[:, None, 1:] == x[None, :, 1:]).all(axis=2) & (x[:, None, 0] <= x[None, :, 0])
    i, j = np.nonzero(steps)
    fall = (score[i, k] - score[j, k]).max()
    most, least = fall + 0.01, fall - 1e-3
    assert du.monotone(net, schema, in_="a", label=k, tolerance=most).status == "proven"
    if least > 0:
        assert du.monotone(net, schema, in_="a", label=k, tolerance=least).status == "found"


def test_reals_are_bounded_from_both_sides():
    net = network(3, 2)
    schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "abc"], ["a <= b"])
    answer = du.influence(net, schema, of=["a"], seconds=5)
    rng = np.random.default_rng(1)
    x = rng.random((200_000, 3))
    y = x.copy()
    y[:, 0] = rng.random(len(x))
    good = (x[:, 0] <= x[:, 1]) & (y[:, 0] <= y[:, 1])
    with torch.no_grad():
        one, two = (net(torch.from_numpy(v[good]).float()).numpy() for v in (x, y))
    moved = (one[:, 1] - one[:, 0]) - (two[:, 1] - two[:, 0])
    assert answer.high >= moved.max() - 1e-6
    assert answer.low >= 0.98 * moved.max()
    assert answer.high - answer.low < 0.1 * answer.high


def test_what_has_no_bounds_or_is_not_read_is_named():
    net = network(0, 2)
    endless = du.Schema([du.Feature(n, "real") for n in "abc"])
    with pytest.raises(du.Unsupported, match="has no bounds"):
        du.influence(net, endless, of=["a"])
    schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "abc"])
    sorting = torch.nn.Sequential(torch.nn.Linear(3, 2))
    sorting.forward = lambda x: x.sort(dim=1).values[:, :2]
    with pytest.raises(du.Unsupported):
        du.influence(sorting, schema, of=["a"])
