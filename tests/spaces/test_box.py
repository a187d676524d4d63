"""Region.box: bounds that hold for every valid input, and are no wider than need be."""

import pytest
import torch

import durometer as du

X = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LEVELS = (X * 255).round() / 255
SPACES = {
    "Linf": (du.Linf(0.1), X), "L2": (du.L2(0.3), X), "L1": (du.L1(0.5), X), "L0": (du.L0(2), X),
    "quantised": (du.Quantised(du.Linf(8 / 255)), LEVELS),
    "quantised L2": (du.Quantised(du.L2(0.3)), LEVELS),
    "patch": (du.Patch(torch.eye(4).numpy()), X), "rectangle": (du.Rectangle(2, 2), X),
}  # fmt: skip


def spread(region, rows, draws=200):
    """Lowest and highest value of each feature among valid points at the region's edge."""
    stream = torch.Generator().manual_seed(1)
    low = high = None
    for k in range(draws):
        step = torch.randn(region.origin.shape, generator=stream, dtype=region.origin.dtype)
        if k % 2:  # single features, as far as they go
            step = torch.zeros_like(step)
            step[:, k // 4 % step.shape[1]] = k % 4 - 2
        x = region.decode(region.project(region.origin + 5 * region.eps * step)).double()
        valid = region.contains(x.to(region.decode(region.origin).dtype))
        x = torch.where(
            valid.reshape(-1, *[1] * (x.ndim - 1)), x, region.decode(region.origin).double()
        )
        low = x if low is None else low.minimum(x)
        high = x if high is None else high.maximum(x)
    return low, high


@pytest.mark.parametrize("name", SPACES)
def test_every_valid_point_lies_in_the_box(name):
    space, x = SPACES[name]
    region = space.around(x)
    low, high = region.box()
    assert low.shape == high.shape == x.shape
    seen_low, seen_high = spread(region, len(x))
    assert (seen_low >= low).all() and (seen_high <= high).all()
    assert (low <= x).all() and (x <= high).all()
    if name in ("Linf", "L2", "L1", "patch"):  # and the box is reached
        assert ((seen_low - low).abs().amax() < 0.05) and ((seen_high - high).abs().amax() < 0.05)


SCHEMA = du.Schema(
    [
        du.Feature("number", "integer", 0, 10),
        du.Feature("share", "real", 0, 1),
        du.Feature("grown", "integer", "original", 100),
        du.Feature("kind", "category", values=("a", "b", "c")),
        du.Feature("fixed", "real", 0, 1, mutable=False),
        du.Feature("red", "boolean", group="colour"),
        du.Feature("blue", "boolean", group="colour"),
    ],
    ["number <= grown"],
)
ROWS = torch.tensor([[3, 0.5, 20, 1, 0.7, 1, 0], [0, 0.0, 99, 2, 0.1, 0, 1]], dtype=torch.float64)


@pytest.mark.parametrize(("eps", "p", "count", "moves"), [
    (0.05, torch.inf, (3, 3), False), (0.25, 2, (1, 5), False), (1.5, 2, (0, 10), True),
    (1.0, 1, (0, 10), False), (2.0, 1, (0, 10), True), (1, 0, (0, 10), True),
    (0.5, 0, (3, 3), False),
])  # fmt: skip
def test_the_box_of_a_table(eps, p, count, moves):
    low, high = SCHEMA.space(eps=eps, p=p).around(ROWS).box()
    assert (low[0, 0], high[0, 0]) == count  # whole numbers, rounded inwards
    assert (low[:, 2] >= ROWS[:, 2] - 1e-5).all()  # may grow only
    assert (low[:, 4] == ROWS[:, 4]).all() and (high[:, 4] == ROWS[:, 4]).all()
    assert ((high - low)[:, 3] > 0).all() == moves and ((high - low)[:, 5:] > 0).all() == moves


def test_every_valid_record_lies_in_the_box_of_its_table():
    g = torch.Generator().manual_seed(0)
    x0 = ROWS[torch.randint(2, (20_000,), generator=g)]
    for eps, p in ((0.3, torch.inf), (0.4, 2), (2.2, 1), (2, 0)):
        x = torch.stack([
            torch.randint(0, 11, (len(x0),), generator=g), torch.rand(len(x0), generator=g),
            torch.randint(0, 101, (len(x0),), generator=g),
            torch.randint(0, 3, (len(x0),), generator=g),
            x0[:, 4], *(2 * [torch.randint(0, 2, (len(x0),), generator=g)]),
        ], 1).double()  # fmt: skip
        x[:, 6] = 1 - x[:, 5]
        x = torch.where(torch.rand(x.shape, generator=g) < 0.4, x0, x)
        region = SCHEMA.space(eps=eps, p=p).around(x0)
        valid = region.contains(x)
        low, high = region.box()
        assert valid.sum() > 30
        assert ((low <= x) & (x <= high)).all(1)[valid].all()
