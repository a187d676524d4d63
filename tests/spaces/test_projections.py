"""Projections are exact: onto ball and box at once, and onto a plane inside a box; by scipy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from durometer.attacks.fab import to_plane
from durometer.spaces.lp import Lp

NUMBER = st.floats(-3, 3).map(lambda v: round(v, 3))


@st.composite
def boxed_points(draw):
    """origin inside a box that may be open, and any point z."""
    n = draw(st.integers(1, 5))
    rows = [draw(st.tuples(NUMBER, NUMBER, NUMBER)) for _ in range(n)]
    low, origin, high = (np.array(v) for v in zip(*(sorted(r) for r in rows), strict=True))
    open_low = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    open_high = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    low, high = np.where(open_low, -np.inf, low), np.where(open_high, np.inf, high)
    z = np.array(draw(st.lists(NUMBER, min_size=n, max_size=n))) * 2
    eps = draw(st.floats(0.05, 3).map(lambda v: round(v, 3)))
    return low, origin, high, z, eps


def nearest_by_scipy(origin, low, high, z, eps, p):
    """The squared distance from z to ball and box; d = plus - minus for L1."""
    v, n = z - origin, len(z)
    lo, hi = low - origin, high - origin
    if p == 2.0:
        result = minimize(
            lambda d: ((d - v) ** 2).sum(), np.zeros(n), jac=lambda d: 2 * (d - v),
            bounds=list(zip(lo, hi, strict=True)), method="SLSQP",
            constraints={"type": "ineq", "fun": lambda d: eps**2 - d @ d, "jac": lambda d: -2 * d},
            options={"maxiter": 100, "ftol": 1e-12},
        )  # fmt: skip
        return result.fun
    result = minimize(
        lambda q: ((q[:n] - q[n:] - v) ** 2).sum(), np.zeros(2 * n), method="SLSQP",
        jac=lambda q: np.concatenate([2 * (q[:n] - q[n:] - v), -2 * (q[:n] - q[n:] - v)]),
        bounds=[*zip(np.zeros(n), np.maximum(hi, 0), strict=True),
                *zip(np.zeros(n), np.maximum(-lo, 0), strict=True)],
        constraints={"type": "ineq", "fun": lambda q: eps - q.sum(),
                     "jac": lambda q: -np.ones(2 * n)},
        options={"maxiter": 100, "ftol": 1e-12},
    )  # fmt: skip
    return result.fun


@pytest.mark.parametrize("p", [1.0, 2.0])
@settings(max_examples=40)
@given(boxed_points())
def test_projection_is_the_nearest_point_of_ball_and_box(p, problem):
    low, origin, high, z, eps = problem
    space = Lp(p, eps, torch.tensor(low), torch.tensor(high))
    region = space.around(torch.tensor(origin)[None])
    got = region.project(torch.tensor(z)[None])
    assert bool(region.contains(got))
    assert np.abs(region.project(got) - got).max() < 1e-9
    ours = ((got[0].numpy() - z) ** 2).sum()
    assert ours <= nearest_by_scipy(origin, low, high, z, eps, p) * (1 + 1e-5) + 1e-6


@given(boxed_points())
def test_linf_projection_is_both_clips(problem):
    low, origin, high, z, eps = problem
    region = Lp(math.inf, eps, torch.tensor(low), torch.tensor(high)).around(
        torch.tensor(origin)[None]
    )
    wanted = np.clip(np.clip(z, origin - eps, origin + eps), low, high)
    assert np.array_equal(region.project(torch.tensor(z)[None])[0].numpy(), wanted)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_projection_of_a_batch_is_the_projection_of_each_row(p):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(40, 30, generator=generator).double()
    x[::3] = x[::3].round()
    z = x + torch.randn(40, 30, generator=generator).double() * torch.linspace(0, 3, 40)[:, None]
    region = Lp(p, 0.8).around(x)
    alone = torch.cat([region.take(torch.tensor([i])).project(z[i : i + 1]) for i in range(40)])
    assert torch.allclose(region.project(z), alone, atol=1e-12)


def plane_by_scipy(z, w, change, low, high, p):
    """The smallest p norm of d with <w, d> = change inside the box, or None where there is none."""
    n = len(z)
    lo, hi = low - z, high - z
    clean = [(a if np.isfinite(a) else None, b if np.isfinite(b) else None)
             for a, b in zip(lo, hi, strict=True)]  # fmt: skip
    if p == 2.0:
        if plane_by_scipy(z, w, change, low, high, 1.0) is None:
            return None
        result = minimize(
            lambda d: d @ d, np.clip(np.zeros(n), lo, hi), jac=lambda d: 2 * d, bounds=clean,
            constraints={"type": "eq", "fun": lambda d: w @ d - change, "jac": lambda d: w},
            method="SLSQP", options={"maxiter": 100, "ftol": 1e-14},
        )  # fmt: skip
        return math.sqrt(result.fun) if result.success else math.inf
    extra = n if p == 1.0 else 1  # |d_i| <= t_i, or |d_i| <= t
    eye = np.eye(n)
    t = -eye if p == 1.0 else -np.ones((n, 1))
    result = linprog(
        np.concatenate([np.zeros(n), np.ones(extra)]),
        A_ub=np.block([[eye, t], [-eye, t]]), b_ub=np.zeros(2 * n),
        A_eq=np.concatenate([w, np.zeros(extra)])[None], b_eq=[change],
        bounds=[*clean, *[(0, None)] * extra],
    )  # fmt: skip
    return result.fun if result.status == 0 else None


@st.composite
def planes(draw):
    low, z, high, w, _ = draw(boxed_points())
    return low, z, high, w / 2, draw(NUMBER)


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@settings(max_examples=40)
@given(planes())
@example((np.zeros(2), np.zeros(2), np.ones(2), np.array([1.0, 1.0]), 2.0))  # just reachable
@example((np.zeros(2), np.zeros(2), np.ones(2), np.array([1.0, 1.0]), 3.0))  # out of reach
@example((np.zeros(2), np.zeros(2), np.ones(2), np.zeros(2), 1.0))  # a flat model
def test_step_to_the_plane_is_the_smallest_one(p, problem):
    low, z, high, w, change = problem
    args = [torch.tensor(np.asarray(v)[None], dtype=torch.float64) for v in (z, w)]
    d = to_plane(*args, torch.tensor([change], dtype=torch.float64),
                 torch.tensor(low)[None], torch.tensor(high)[None], p)[0].numpy()  # fmt: skip
    assert np.isfinite(d).all()
    assert (z + d >= low - 1e-9).all()
    assert (z + d <= high + 1e-9).all()
    best = plane_by_scipy(z, w, change, low, high, p)
    if best is None:
        reach = np.where(w == 0, 0.0, np.where(w * change > 0, high - z, low - z))
        assert abs(w @ d) >= abs(w @ reach) - 1e-9  # as far as the box allows
        return
    assert w @ d == pytest.approx(change, abs=1e-6)
    assert np.linalg.norm(d, p) <= best * (1 + 1e-5) + 1e-6


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_a_projection_of_single_precision_is_that_of_double_and_not_of_its_neighbours(p):
    g = torch.Generator().manual_seed(0)
    origin = torch.rand(40, 300, generator=g)
    z = origin + torch.randn(40, 300, generator=g) * torch.logspace(-3, 1, 40)[:, None]
    eps = {1.0: 4.0, 2.0: 0.5, math.inf: 0.03}[p]
    region = Lp(p, eps).around(origin)
    found = region.project(z)
    assert bool(region.contains(found).all())
    exact = Lp(p, eps).around(origin.double()).project(z.double())
    assert float((found - exact).abs().max()) < 3e-6
    alone = torch.cat([region.take(torch.tensor([i])).project(z[i : i + 1]) for i in range(40)])
    assert torch.equal(found, alone)


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_who_is_inside_is_the_same_by_the_quick_way_and_by_the_exact_one(p):
    """The quick look in single precision against distances in double, around the very edge."""
    g = torch.Generator().manual_seed(0)
    origin = torch.rand(2000, 30, generator=g) * 0.4 + 0.3
    d = torch.randn(2000, 30, generator=g, dtype=torch.float64)
    region = Lp(p, 0.1).around(origin)
    edge = 0.1 + region.rounding() * torch.linspace(-3, 3, 2000, dtype=torch.float64)
    d = d / torch.linalg.vector_norm(d, p, dim=1, keepdim=True) * edge[:, None]
    x = (origin.double() + d).float()
    x[::50, 3], x[25::50, 3] = -0.01, torch.nan  # outside the box, and nowhere
    far = torch.linalg.vector_norm(x.double() - origin.double(), p, dim=1)
    wanted = (far <= 0.1 + region.rounding()) & ((x >= 0) & (x <= 1)).all(1)
    assert 0 < int(wanted.sum()) < 2000
    assert torch.equal(region.contains(x), wanted)
