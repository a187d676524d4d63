"""Goals with thousands of classes: the same answers as pair by pair, without walking the pairs."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import durometer as du


def pair_by_pair(relation, count, names):
    """The matrix as its definition says, one pair after the other: the oracle."""
    matrix = torch.zeros(count, count, dtype=torch.bool)
    for source, wanted in relation.items():
        s = names.index(source) if isinstance(source, str) and source in names else int(source)
        for t in wanted:
            matrix[s, names.index(t) if isinstance(t, str) else t] = True
    return matrix


def product_of_differences(logits, targets):
    """MDMUL as published, by an (n, C, C) table: the oracle."""
    short = (logits[:, None, :] - logits[:, :, None]).relu()
    short = (short * ~targets[:, None, :]).sum(2)
    return -(short.clamp_min(1e-12).log() * targets).sum(1)


@st.composite
def relations(draw):
    count = draw(st.integers(2, 9))
    names = [f"c{i}" for i in range(count)]
    names[0] = "1"  # a name that is a number names its class, and no index
    relation = {}
    for s in draw(st.sets(st.integers(0, count - 1), min_size=1)):
        key = draw(st.sampled_from([names[s]] if s < 2 else [s, str(s), names[s]]))
        others = draw(st.sets(st.sampled_from([c for c in range(count) if c != s])))
        relation[key] = [draw(st.sampled_from([t, names[t]])) for t in sorted(others)]
    return count, names, relation


@settings(max_examples=60, deadline=None)
@given(relations())
def test_a_relation_is_read_as_its_pairs_say(case):
    count, names, relation = case
    goal = du.Group(relation)
    truth = pair_by_pair(relation, count, names)
    assert torch.equal(goal.allowed(count, names), truth)
    y = torch.arange(count).repeat(2).flip(0)
    rows = goal.targets(y, torch.zeros(2 * count, count), torch.arange(2 * count), names)
    assert torch.equal(rows, truth[y])


@pytest.mark.parametrize(
    ("relation", "text"),
    [
        ({0: [1, True]}, "True: expected an index or a name"),
        ({0: [1, 7]}, "class 7, but the model has classes 0..3"),
        ({0: [1, -1]}, "class -1"),
        ({0: [1, 2.5]}, "2.5"),
        ({0: ["a", "e"]}, "'e'"),
        ({0: ["b", "a"]}, "its own target"),
        ({0: "b"}, "must be a list"),
    ],
)
def test_a_wrong_class_is_still_refused(relation, text):
    with pytest.raises(du.DurometerError, match=text):
        du.Group(relation).allowed(4, ["a", "b", "c", "d"])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.booleans())
def test_mdmul_is_the_product_over_all_pairs(seed, count, coarse):
    g = torch.Generator().manual_seed(seed)
    logits = 5 * torch.randn(4, count, generator=g, dtype=torch.float64)
    logits = logits.round() if coarse else logits  # ties, and differences of exactly 0
    targets = torch.rand(4, count, generator=g) < torch.rand(4, 1, generator=g)
    targets[0], targets[1] = True, False  # everything, and nothing, is a success
    found = value_and_grad(du.losses.mdmul, logits, targets)
    truth = value_and_grad(product_of_differences, logits, targets)
    torch.testing.assert_close(found, truth, rtol=1e-9, atol=1e-9)


def value_and_grad(loss, logits, targets):
    z = logits.clone().requires_grad_()
    value = loss(z, targets)
    return value.detach(), torch.autograd.grad(value.sum(), z)[0]


def test_mdmul_in_single_precision_keeps_its_digits_near_success():
    g = torch.Generator().manual_seed(0)
    logits = 10 + 20 * torch.rand(8, 500, generator=g, dtype=torch.float64)
    targets = torch.rand(8, 500, generator=g) < 0.5
    best = logits.masked_fill(targets, 0).amax(1)
    logits[:, 0], targets[:, 0] = best - 1e-4, True  # one target is nearly there
    exact = product_of_differences(logits.float().double(), targets)
    torch.testing.assert_close(
        du.losses.mdmul(logits.float(), targets).double(), exact, rtol=1e-5, atol=0
    )


def test_mdmul_bears_classes_that_are_ruled_out():
    """A model may answer with log-probabilities: -inf for a class that cannot be."""
    logits = torch.tensor([[3.0, 1.0, 2.0, -torch.inf]])
    targets = torch.tensor([[False, True, True, False]])
    found = value_and_grad(du.losses.mdmul, logits, targets)
    without = value_and_grad(du.losses.mdmul, logits[:, :3], targets[:, :3])
    assert torch.equal(found[0], without[0])
    assert torch.equal(found[1], torch.nn.functional.pad(without[1], (0, 1)))


def test_thousands_of_classes_are_read_at_once_and_take_no_table_of_their_square():
    count = 5000
    y = torch.arange(64) * (count // 64)
    half = {int(s): [(int(s) + 1 + t) % count for t in range(count // 2)] for s in y}
    goal = du.Group({s: half.get(s, [0]) for s in range(1, count)} | {0: half[0]})
    began = time.process_time()
    mask = goal.targets(y, torch.zeros(64, count), torch.arange(64))
    assert time.process_time() - began < 1.0  # pair by pair: more, 160,000 of them
    assert (mask.sum(1) == count // 2).all() and not mask[torch.arange(64), y].any()
    logits = torch.randn(64, count, generator=torch.Generator().manual_seed(0))
    value, grad = value_and_grad(du.losses.mdmul, logits, mask)  # as a table: 6 GB at 5,000
    assert value.isfinite().all() and grad.isfinite().all() and (grad != 0).any(1).all()


def test_a_group_of_a_thousand_classes_is_attacked_and_said_in_a_sentence():
    count = 1000
    names = tuple(f"k{i}" for i in range(count))
    net = du.training.fresh(lambda: torch.nn.Linear(20, count), seed=0)
    x = torch.rand(40, 20, generator=torch.Generator().manual_seed(0))
    data = du.Dataset(x, net(x).argmax(1).detach(), classes=names)
    goal = du.Group({s: [t for t in names[:100] if t != s] for s in names})
    began = time.process_time()
    report = du.evaluate(
        net, data, space=du.Linf(0.05), goal=goal, attack=du.Escalation(2), batch=20, progress=False
    )
    assert time.process_time() - began < 10
    assert report.table["success"].any()
    assert len(goal.description) < 1000 and "and 994 more" in goal.description


def test_one_target_per_row_is_not_read_anew_for_every_batch():
    class Counted(list):
        reads = 0

        def __getitem__(self, i):
            Counted.reads += 1
            return super().__getitem__(i)

    goal = du.Targeted(Counted([2, "b", np.int64(0)] * 1000))
    mask = goal.targets(
        torch.zeros(4, dtype=torch.long), torch.zeros(4, 3), torch.tensor([5, 4, 3, 9]), "abc"
    )
    assert Counted.reads == 4
    assert mask.int().argmax(1).tolist() == [0, 1, 2, 2] and not mask[0].any()
