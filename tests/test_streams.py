"""A draw depends on (seed, example id, number of draws of that example) and on nothing else."""

import numpy as np
import pytest
import torch
from scipy import stats

from durometer.core.streams import Stream, keys

IDS = torch.arange(1000, 1256)
KINDS = ("uniform", "normal", "exponential", "sign", "order", "bits")


def draws(ids, batch, kind, seed=3):
    """Three draws of five numbers for each id, in batches; id -> draws."""
    found = {}
    for start in range(0, len(ids), batch):
        part = ids[start : start + batch]
        stream, rows = Stream(seed, part), torch.arange(len(part))
        values = torch.stack([getattr(stream, kind)(rows, 5) for _ in range(3)], dim=1)
        found |= dict(zip(part.tolist(), values, strict=True))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_same_draws_for_any_batch_and_order(kind):
    whole = draws(IDS, 256, kind)
    shuffled = IDS[torch.from_numpy(np.random.default_rng(0).permutation(256))]
    for ids, batch in ((IDS, 1), (IDS, 7), (IDS.flip(0), 256), (shuffled, 7), (IDS[::3], 50)):
        part = draws(ids, batch, kind)
        assert all(torch.equal(part[i], whole[i]) for i in part)


def test_a_row_counts_its_own_draws():
    """Rows that draw at different times see the same numbers: solved neighbours change nothing."""
    together, apart = Stream(0, IDS[:4]), Stream(0, IDS[:4])
    rows = torch.arange(4)
    first, second = together.uniform(rows, 3), together.uniform(rows, 3)
    assert torch.equal(apart.uniform(torch.tensor([2]), 3)[0], first[2])
    assert torch.equal(apart.uniform(torch.tensor([2]), 3)[0], second[2])
    assert torch.equal(apart.uniform(torch.tensor([3, 0]), 3), first[[3, 0]])


def test_seed_and_id_and_draw_all_matter():
    row = torch.tensor([0])
    a = Stream(0, torch.tensor([5]))
    values = [a.uniform(row, 4), a.uniform(row, 4), Stream(1, torch.tensor([5])).uniform(row, 4)]
    values += [Stream(0, torch.tensor([6])).uniform(row, 4)]
    flat = torch.cat(values).flatten().tolist()
    assert len(set(flat)) == len(flat)


def test_no_global_state_is_read_or_changed():
    before = torch.get_rng_state()
    torch.manual_seed(1)
    a = Stream(0, IDS).normal(torch.arange(9), 9)
    torch.manual_seed(2)
    b = Stream(0, IDS).normal(torch.arange(9), 9)
    torch.set_rng_state(before)
    assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("kind", "law"),
    [("uniform", stats.uniform()), ("normal", stats.norm()), ("exponential", stats.expon())],
)
def test_numbers_follow_their_law(kind, law):
    """Across ids, across draws and across positions: the three ways in which a hash could fail."""
    stream = Stream(7, torch.arange(20000))
    rows = torch.arange(20000)
    across_ids = getattr(stream, kind)(rows, 1)[:, 0]
    one = Stream(7, torch.tensor([1]))
    across_draws = torch.cat([getattr(one, kind)(torch.tensor([0]), 1)[0] for _ in range(2000)])
    across_places = getattr(one, kind)(torch.tensor([0]), 20000)[0]
    for sample in (across_ids, across_draws, across_places):
        assert stats.kstest(sample.numpy(), law.cdf).pvalue > 1e-3
    correlation = np.corrcoef(across_places[:-1].numpy(), across_places[1:].numpy())[0, 1]
    assert abs(correlation) < 0.03


def test_uniform_stays_inside_the_open_interval_and_integers_below_high():
    stream, rows = Stream(0, torch.arange(1000)), torch.arange(1000)
    u = stream.uniform(rows, 1000)
    assert float(u.min()) > 0
    assert float(u.max()) < 1
    high = torch.arange(1, 1001)[:, None]
    drawn = stream.integers(rows, 50, high)
    assert bool(((drawn >= 0) & (drawn < high)).all())
    assert bool(drawn[999].unique().numel() > 40)


def test_the_last_number_below_one_stays_below_one_in_float32(monkeypatch):
    stream, row = Stream(0, torch.arange(1)), torch.arange(1)
    monkeypatch.setattr(
        "durometer.core.streams.built", lambda: False
    )  # from the bits, not compiled
    monkeypatch.setattr(stream, "bits", lambda rows, size: torch.full((len(rows), size), -1))
    for dtype in (torch.float32, torch.float16):
        u = stream.uniform(row, 1, dtype)
        assert float(u) < 1
        assert int(u * 40) == 39  # as a place among 40: not one past the end


def test_order_is_a_permutation_and_all_are_equally_likely():
    stream, rows = Stream(0, torch.arange(6000)), torch.arange(6000)
    orders = stream.order(rows, 3)
    assert torch.equal(orders.sort(1).values, torch.arange(3).expand(6000, 3))
    counts = (orders * torch.tensor([9, 3, 1])).sum(1).unique(return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_ids_of_any_kind_have_keys():
    assert torch.equal(keys(np.array([3, -1])), torch.tensor([3, -1]))
    names = keys(np.array(["a", "b", "a"]))
    assert names[0] == names[2] != names[1]
    assert torch.equal(keys(["a"]), keys(np.array(["a"], dtype=object)))


def test_two_purposes_never_share_a_draw():
    rows = torch.arange(1000)
    drawn = {
        purpose: Stream(3, rows, purpose=purpose).uniform(rows, 1)[:, 0].numpy()
        for purpose in ("attack", "sample", "split", "holdout", "until", "gate", "target")
    }
    for a, x in drawn.items():
        for b, y in drawn.items():
            assert a == b or abs(np.corrcoef(x, y)[0, 1]) < 0.12


def test_rows_that_were_sampled_are_not_attacked_with_the_number_that_chose_them():
    import durometer as du

    data = du.Dataset(torch.zeros(2000, 1), [0] * 2000)
    kept = data.sample(100, seed=0)
    from durometer.core.streams import keys

    start = Stream(0, keys(kept.ids)).uniform(torch.arange(100), 1)
    assert 0.35 < float(start.mean()) < 0.65  # it was below 0.05 for every row


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_numbers_drawn_by_a_kernel_are_those_of_torch(dtype, monkeypatch):
    rows, ids = torch.tensor([4, 0, 2]), torch.tensor([3, -9, 2**62, 0, 17])
    streams = [Stream(5, ids) for _ in range(2)]
    drawn = [streams[0].uniform(rows, size, dtype) for size in (7, 0, 3)]
    monkeypatch.setattr("durometer.core.streams.built", lambda: False)
    for first, size in zip(drawn, (7, 0, 3), strict=True):
        assert torch.equal(first, streams[1].uniform(rows, size, dtype))


def test_a_part_goes_on_by_itself_and_shares_nothing():
    rows = torch.arange(9)
    alone, after = Stream(0, IDS[:9]), Stream(0, IDS[:9])
    after.uniform(rows, 5)  # what others draw does not move it
    first = alone.part("a").bits(rows, 3)
    assert torch.equal(first, after.part("a").bits(rows, 3))
    second = alone.part("a").bits(rows, 3)  # it goes on, it does not begin again
    drawn = (first, second, alone.part("b").bits(rows, 3), Stream(0, IDS[:9]).bits(rows, 3))
    words = torch.cat([d.flatten() for d in drawn])
    assert len(words.unique()) == words.numel()
    back = Stream(0, IDS[:9])
    back.learn(alone)  # as after a stay on another device
    assert torch.equal(
        back.part("a").bits(rows, 3), alone.to(torch.device("cpu")).part("a").bits(rows, 3)
    )
