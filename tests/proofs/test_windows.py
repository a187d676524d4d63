"""CROWN on windows equals a backward pass on whole tensors that shares no code with it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from durometer.proofs.aten.program import Curve, Program
from durometer.proofs.aten.rows import program_of
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain

_FLOAT_ERROR = 1e-9


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        h = self.second(torch.relu(self.norm(self.first(x))))
        return torch.relu(h - 0.5 * x)


def _plain() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 4, stride=2, padding=1),
        nn.ReLU(), nn.Conv2d(5, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3),
    )  # fmt: skip


def _padded() -> nn.Module:
    return nn.Sequential(
        nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(2, 4, 3, stride=(1, 2)), nn.LeakyReLU(0.1),
        nn.Conv2d(4, 4, 3, dilation=2, padding=2), nn.Tanh(), nn.Conv2d(4, 2, (2, 3)),
        nn.ReLU(), nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip


def _deep() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.ReLU(), Residual(4), Residual(4),
        nn.Conv2d(4, 4, 3, groups=2), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.LazyLinear(3),
    )  # fmt: skip


def _dense_bounds(program: Program, network: Network) -> dict[int, tuple[Tensor, Tensor]]:
    """Bounds of what goes into each curve, by a plain backward pass through the same lines."""
    found = {}
    for op in program.operations:
        if not isinstance(op, Curve):
            continue
        at = op.inputs[0]
        size = math.prod(program.operations[at].shape)
        n = len(network.domain.centre)
        eye = torch.eye(size, dtype=torch.float64)
        tops = []
        for sign in (1.0, -1.0):
            weight = (sign * eye).reshape(1, size, *program.operations[at].shape)
            tops.append(_top(program, network, at, weight.expand(n, *weight.shape[1:])))
        found[at] = (-tops[1], tops[0])
    return found


def _top(program: Program, network: Network, at: int, weight: Tensor) -> Tensor:
    carried = {at: weight}
    n, m = weight.shape[:2]
    const = torch.zeros(n, m, dtype=torch.float64)
    for k in range(at, 0, -1):
        if k not in carried:
            continue
        w, op = carried.pop(k), program.operations[k]
        if isinstance(op, Curve):
            line = network.relaxations[k]
            parts = [
                torch.where(w > 0, w * line.upper_slope[:, None], w * line.lower_slope[:, None])
            ]
            bias = torch.where(w > 0, w * line.upper_bias[:, None], w * line.lower_bias[:, None])
            const += bias.flatten(2).sum(2)
        else:  # the gradient of an affine map is its transpose
            sources = [torch.zeros(n * m, *program.operations[i].shape) for i in op.inputs]
            sources = [s.double().requires_grad_() for s in sources]
            out = op.apply(*sources)
            flat = w.reshape(n * m, *op.shape)
            parts = list(torch.autograd.grad((out * flat).sum(), sources))
            parts = [p.reshape(n, m, *p.shape[1:]) for p in parts]
            const += (out.detach() * flat).flatten(1).sum(1).reshape(n, m)
        for i, part in zip(op.inputs, parts, strict=True):
            carried[i] = carried.get(i, 0.0) + part
    low, high = (side[:, None] for side in network.domain.box)
    final = carried[0].reshape(n, m, -1)
    return const + torch.where(final > 0, final * high, final * low).sum(2)


def _domain(n: int, size: int, eps: float) -> Domain:
    x = torch.rand(n, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    one = torch.ones(size, dtype=torch.float64)
    eps_ = torch.full((n, 1), eps, dtype=torch.float64)
    return Domain(x, x - eps, x + eps, math.inf, eps_, one, 0 * one)


@pytest.mark.parametrize("build", [_plain, _padded, _deep])
def test_windows_give_the_bounds_of_whole_tensors(build):
    torch.manual_seed(0)
    net = build().double().eval()
    x = torch.rand(1, 2, 8, 8, dtype=torch.float64)
    net(x)
    program = program_of(net, x)
    held = _domain(3, 128, 0.03)
    network = Network(program, held)
    with torch.no_grad():
        network.prepare()
    unstable = 0
    for at, (low, high) in _dense_bounds(program, network).items():
        down, up = (side.flatten(1) for side in network.bounds[at])
        # never looser than either method, never tighter than the better of the two
        op = program.operations[at]
        plain = op.interval(*(network.bounds[i] for i in op.inputs))
        best = torch.maximum(low, plain[0].flatten(1)), torch.minimum(high, plain[1].flatten(1))
        open_ = (plain[0].flatten(1) < 0) & (plain[1].flatten(1) > 0)
        unstable += int(open_.sum())
        assert float((down - best[0])[open_].abs().sum()) < _FLOAT_ERROR * (1 + open_.sum())
        assert float((up - best[1])[open_].abs().sum()) < _FLOAT_ERROR * (1 + open_.sum())
    assert unstable > 100


@pytest.mark.parametrize("build", [_plain, _padded, _deep])
def test_no_point_is_outside_the_bounds(build):
    torch.manual_seed(0)
    net = build().double().eval()
    net(torch.rand(1, 2, 8, 8, dtype=torch.float64))
    held = _domain(2, 128, 0.05)
    network = Network(program_of(net, torch.rand(1, 2, 8, 8, dtype=torch.float64)), held)
    with torch.no_grad():
        network.prepare()
        spec = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], dtype=torch.float64)
        top = network.highest(spec.expand(2, 2, 3).reshape(2, 2, 1, 3))
        for row in range(2):
            signs = torch.randint(0, 2, (500, 128)) * 2.0 - 1
            point = (held.centre[row] + 0.05 * signs).reshape(-1, 2, 8, 8)
            assert bool(((net(point) @ spec.T) <= top[row]).all())
