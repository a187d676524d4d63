"""The compiled steps and projections against the same in torch, and against a sort."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.lp_ball import level_by_sorting

from durometer.core.errors import DurometerError
from durometer.kernels import native
from durometer.spaces import compiled
from durometer.spaces.lp import Lp


def cases(dtype, p, d=97, n=60):
    """Rows around origins of which some stand in corners of the box, at points of all sizes."""
    g = torch.Generator().manual_seed(0)
    x = torch.rand(n, d, generator=g, dtype=torch.float64)
    x[::3] = x[::3].round()
    z = x + torch.randn(n, d, generator=g).double() * torch.logspace(-3, 1, n)[:, None]
    z[1::4, ::2] = x[1::4, ::2]
    region = Lp(p, {0.0: 5.0, 1.0: 1.5, 2.0: 0.4}[p]).around(x.to(dtype))
    return region, z.to(dtype), torch.randn(n, d, generator=g).to(dtype)


def in_torch(monkeypatch):
    monkeypatch.setattr(compiled, "serves", lambda *tensors: False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_compiled_projection_is_the_one_in_torch(p, dtype, monkeypatch):
    region, z, _ = cases(dtype, p)
    found = region.project(z)
    in_torch(monkeypatch)
    assert float((found - region.project(z)).abs().max()) < 3e-6
    assert bool(region.contains(found).all())
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [0.0, 1.0])
def test_a_compiled_step_on_few_features_is_the_one_in_torch(p, dtype, monkeypatch):
    region, z, grad = cases(dtype, p)
    z, step = region.project(z), torch.linspace(0.1, 2, len(z), dtype=dtype)
    found = region.ascend(z, grad, step)
    in_torch(monkeypatch)
    wanted = region.ascend(z, grad, step)
    assert torch.equal(found != z, wanted != z)
    assert torch.allclose(found, wanted, atol=1e-6 if dtype == torch.float32 else 1e-13)


def test_without_a_compiled_library_torch_does_it(monkeypatch):
    def missing():
        raise DurometerError("the compiled kernels are missing")

    region, z, _ = cases(torch.float32, 1.0)
    found = region.project(z)
    native.built.cache_clear()
    monkeypatch.setattr(native, "load", missing)
    try:
        assert not compiled.serves(z)
        assert float((region.project(z) - found).abs().max()) < 3e-6
    finally:
        native.built.cache_clear()


def test_of_gradients_that_are_equal_as_many_are_followed_as_of_others():
    region, z, _ = cases(torch.float32, 1.0)
    z = region.project(z)
    moved = (region.ascend(z, torch.ones_like(z), torch.full((len(z),), 0.3)) != z).sum(1)
    changed = (z != region.origin).sum(1)
    free = (z < 1 - 1e-5).sum(1)
    wanted = (changed / 1.5).clamp(1, 0.2 * z.shape[1]).long().minimum(free)
    assert torch.equal(moved, wanted)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_every_row_may_have_a_box_of_its_own(p):
    region, z, grad = cases(torch.float64, p)
    low, high = region.origin - 0.1, region.origin + torch.linspace(0, 1, len(z))[:, None]
    whole = replace(region, low=low, high=high)
    found, step = whole.project(z), torch.ones(len(z), dtype=torch.float64)
    moved = whole.ascend(found, grad, step)
    for i in range(len(z)):
        at = slice(i, i + 1)
        alone = replace(region, origin=region.origin[at], low=low[at], high=high[at])
        assert torch.equal(alone.project(z[at]), found[at])
        assert torch.equal(alone.ascend(found[at], grad[at], step[at]), moved[at])


def test_more_threads_project_the_same(monkeypatch):
    region, z, grad = cases(torch.float32, 1.0)
    alone = region.project(z), region.ascend(z, grad, torch.ones(len(z)))
    monkeypatch.setattr("durometer.kernels.threads._FEW_NUMBERS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    both = region.project(z), region.ascend(z, grad, torch.ones(len(z)))
    assert torch.equal(alone[0], both[0])
    assert torch.equal(alone[1], both[1])


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_what_is_no_number_stays_none_and_harms_nobody_else(p):
    region, z, grad = cases(torch.float32, p)
    clean = region.project(z)
    z[3, 5] = torch.nan
    found = region.project(z)
    assert bool(found[3, 5].isnan())
    others = [i for i in range(len(z)) if i != 3]
    assert torch.equal(found[others], clean[others])
    grad[0] = torch.nan
    if p == 1.0:
        assert torch.equal(region.ascend(clean, grad, torch.ones(len(z)))[0], clean[0])


def test_a_row_without_features_has_nothing_to_project():
    region = Lp(1.0, 0.5).around(torch.zeros(3, 0))
    assert region.project(torch.zeros(3, 0)).shape == (3, 0)
    assert region.ascend(torch.zeros(3, 0), torch.zeros(3, 0), torch.ones(3)).shape == (3, 0)


@settings(max_examples=100)
@given(st.integers(0, 2**31), st.integers(1, 60), st.floats(0.05, 4))
def test_an_l1_projection_is_the_one_by_sorting(seed, d, eps):
    rng = np.random.default_rng(seed)
    origin = np.round(rng.random(d), 1)
    z = origin + np.round(rng.normal(0, 1, d) * rng.choice([0.01, 0.3, 3.0]), 2)
    a = np.abs(z - origin)
    room = np.where(z > origin, 1 - origin, np.where(z < origin, origin, 0.0))
    c = np.minimum(a, room)
    t = level_by_sorting(a, c, eps) if c.sum() > eps else 0.0
    wanted = origin + np.sign(z - origin) * np.clip(a - t, 0, c)
    found = Lp(1.0, eps).around(torch.tensor(origin)[None]).project(torch.tensor(z)[None])
    assert np.abs(found[0].numpy() - wanted).max() < 1e-9
