"""Chunks played at once: the same records and facts as one by one, by chunk, and no more memory."""

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.records import FIELDS, TIMES
from durometer.run import batch_size
from durometer.run.executors import Here
from durometer.run.job import Job

NET = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 5)).double()


def data(rows):
    g = torch.Generator().manual_seed(1)
    x = torch.rand(rows, 12, generator=g, dtype=torch.float64)
    with torch.no_grad():
        y = NET(x).argmax(1)
    return du.Dataset(x, y)


@pytest.fixture(autouse=True)
def weights():
    g = torch.Generator().manual_seed(0)
    for p in NET.parameters():
        p.data = torch.randn(p.shape, generator=g, dtype=p.dtype)


def job(attack, rows=700, widen=True):
    made = Job(NET, data(rows), du.Linf(0.05), du.Untargeted(), attack, 3, 16, du.Budget(), widen)
    made.prepare()
    return made


def same(a, b):
    """All that is counted or decided is equal; a network's last digit may hang on the batch."""
    for name, (kind, _) in FIELDS.items():
        one, other = a.records.columns[name], b.records.columns[name]
        if kind.startswith("float") and name not in TIMES:
            np.testing.assert_allclose(one, other, rtol=1e-9, err_msg=name)
        elif name not in TIMES:
            assert np.array_equal(one, other), name
    np.testing.assert_allclose(a.records.adversarial, b.records.adversarial, rtol=1e-9)
    assert a.facts == b.facts


@pytest.mark.parametrize(
    "attack",
    [du.APGD(8), du.AutoAttack(steps=6, targets=3, queries=30), du.Then(du.FGSM(), du.Graft(60))],
    ids=str,
)
def test_chunks_played_at_once_are_the_chunks_played_one_by_one(attack):
    wide = dict(Here().map(job(attack), range(44)))
    narrow = dict(Here().map(job(attack, widen=False), range(44)))
    assert list(wide) == list(narrow) == list(range(44))
    for k in narrow:
        same(wide[k], narrow[k])
    assert sum(len(part.records) for part in wide.values()) == 700
    won = sum(int(part.records.columns["success"].sum()) for part in wide.values())
    assert 0 < won < 700  # or there was nothing to tell apart


def test_a_wide_batch_asks_the_model_less_often():
    calls = []
    hook = NET.register_forward_hook(lambda *_: calls.append(1))
    list(Here().map(job(du.APGD(8), widen=False), range(44)))
    narrow = len(calls)
    calls.clear()
    list(Here().map(job(du.APGD(8)), range(44)))
    hook.remove()
    assert len(calls) < narrow / 3


def test_who_names_a_batch_gets_it_and_a_run_that_may_stop_early_is_not_widened(monkeypatch):
    seen = []
    monkeypatch.setattr(Job, "at_once", property(lambda self: seen.append(self.widen) or 1))
    ask = {"space": du.Linf(0.05), "attack": du.FGSM(), "progress": False}
    du.evaluate(NET, data(20), **ask)
    du.evaluate(NET, data(20), batch=8, **ask)
    du.evaluate(NET, data(20), run=du.Run(until=0.2), **ask)
    assert list(dict.fromkeys(seen)) == [True, False] and seen[-1] is False


def test_memory_bounds_the_width(monkeypatch):
    model = du.wrap(NET)
    x = data(4).x
    kept = batch_size.kept_by_autograd(model, x)
    assert 0 < kept <= 4 * (12 + 2 * 16 + 5) * 8 + 4 * 16  # what one would count by hand
    per_row = kept / 4 + 16 * 12 * 8
    monkeypatch.setattr(batch_size, "MEMORY", int(100 * per_row))
    assert batch_size.rows_at_once(model, x) in (99, 100)
    assert batch_size.rows_at_once(du.wrap(lambda x: x[:, :3]), x) == 1
    assert not any(p.grad is not None for p in NET.parameters())


def test_multiplications_are_those_one_would_count_by_hand():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, groups=2), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 10)
    )
    x = torch.rand(3, 2, 8, 8)
    by_hand = 4 * 6 * 6 * (3 * 3) + 4 * 6 * 6 * 10
    assert batch_size.multiplications(du.wrap(net), x) == by_hand
    up = torch.nn.Sequential(torch.nn.ConvTranspose2d(2, 3, 3), torch.nn.Flatten())
    assert batch_size.multiplications(du.wrap(up), x) == 2 * 8 * 8 * (3 * 3 * 3)
    assert batch_size.multiplications(du.wrap(lambda x: x.flatten(1)), x) == 1


def test_chunks_of_a_network_that_computes_much_are_small(monkeypatch):
    """256 rows of a convolutional network took minutes, and a kill lost all of them."""
    made = Job(NET, data(700), du.Linf(0.05), du.Untargeted(), du.FGSM(), widen=True)
    made.prepare()
    assert made.size == 256
    each = batch_size.multiplications(du.wrap(NET), data(2).x)
    for rows, size, turn in ((5, 16, 1), (70, 64, 1), (300, 256, 1), (4096, 256, 2)):
        monkeypatch.setattr(batch_size, "WORK", rows * each)
        made = Job(NET, data(4096), du.Linf(0.05), du.Untargeted(), du.FGSM(), widen=True)
        made.prepare()
        assert (made.size, made.at_once) == (size, turn)
        named = Job(NET, data(700), du.Linf(0.05), du.Untargeted(), du.FGSM(), batch=100)
        named.prepare()
        assert named.size == 100
