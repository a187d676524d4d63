"""A network rounds its inputs to its own type before it computes: proofs know, in balls, too.

Each case has a row that only this rounding breaks; the oracle asks the network itself.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import durometer as du
from durometer.architectures.tables.tableinput import TableInput
from durometer.proofs.aten.rows import program_of
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain

QUICK = du.Bounds(alpha=0, splits=0, seconds=0.0)


class _Scores(nn.Module):
    """The first two inputs are the scores: nothing is computed but their rounding."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self.kept = nn.Parameter(torch.ones(1, dtype=kind))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2]


@pytest.mark.parametrize("space", [du.Linf(0.001), du.L2(0.0014), du.L1(0.002)])
def test_a_tie_that_only_bfloat16_makes_is_no_proof(space: Any) -> None:
    net, kind = _Scores(torch.bfloat16).eval(), torch.bfloat16
    torch.manual_seed(0)
    x = 0.5 + 0.5 * torch.rand(3000, 4)
    y = net(x.to(kind)).argmax(1)
    proven = du.evaluate(net, du.Dataset(x, y), space=space, attack=QUICK).table["verdict"]
    sure = torch.from_numpy((proven == "proven").to_numpy())
    rows = torch.arange(len(x))
    worst = torch.zeros_like(x)
    step = 0.00099  # in each of the two: inside all three balls
    worst[rows, y], worst[rows, 1 - y] = -step, step
    fallen = net((x + worst).to(kind)).argmax(1) != y
    assert int((fallen & sure).sum()) == 0
    assert int(sure.sum()) > 2500


def _stamped(kind: str) -> tuple[du.Schema, nn.Module, Tensor]:
    """Seconds since 1970 over an hour, of which single precision keeps every 128th."""
    start = 1.6e9
    schema = du.Schema([du.Feature("t", kind, start, start + 400), du.Feature("b", kind, 0, 400)])  # type: ignore[arg-type]
    torch.manual_seed(2)
    net = nn.Sequential(TableInput(schema), nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.randint(0, 401, (60, 2)).double()
    x[:, 0] += start
    with torch.no_grad():
        net[3].bias -= net(x.float()).mean(0)
    return schema, net, x


@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_large_numbers_of_a_table_are_rounded_before_they_are_scaled(
    p: float, seconds: float
) -> None:
    schema, net, x = _stamped("integer")
    y = net(x.float()).argmax(1)
    space = schema.space(eps=0.1, p=p)
    attack = du.Bounds(alpha=0, splits=0, seconds=seconds)
    report = du.evaluate(net, du.Dataset(x, y, schema=schema), space=space, attack=attack)
    assert "contradiction" not in {f.id for f in report.flags}
    steps = torch.tensor(list(itertools.product(range(-40, 41, 8), repeat=2))).double()
    for k in np.flatnonzero(report.table["verdict"] == "proven"):
        near = x[k] + steps
        inside = space.around(x[k : k + 1]).take(torch.zeros(len(near), dtype=torch.long))
        near = near[inside.contains(near)]
        assert bool((net(near.float()).argmax(1) == y[k]).all())


class _Nearest(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.interpolate(x[:, None], size=82, mode="nearest")[:, 0]


class _Bilinear(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        wide = functional.interpolate(x[:, None, None], size=(1, 1301), mode="bilinear")
        return wide.flatten(1)


class _Padded(nn.Module):
    """0.7 is another number in single precision."""

    def forward(self, x: Tensor) -> Tensor:
        return (functional.pad(x, (1, 0), value=0.7) - 0.699999988079071) * 1e7


class _Least(nn.Module):
    """So is 0.1, also as a tensor of one number beside others."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("least", torch.tensor(0.1, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (torch.maximum(x - 5, self.least) - 0.10000000149011612) * 1e9  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("net", "size"), [(_Nearest(), 2), (_Bilinear(), 500), (_Padded(), 3), (_Least(), 3)]
)
def test_answers_lie_in_the_bounds_of_their_point(net: nn.Module, size: int) -> None:
    torch.manual_seed(0)
    x = (torch.rand(10, size) > 0.5).float()
    program, point = program_of(net.eval(), x[:1]), x.double()
    one, eps = torch.ones(size).double(), torch.zeros(len(x), 1).double()
    network = Network(program, Domain(point, point, point, math.inf, eps, one, one * 0))
    network.prepare()
    low, high = network.bounds[len(program.operations) - 1]
    out = net(x).double().reshape(low.shape)
    assert bool(((out >= low) & (out <= high)).all())


def test_a_module_that_only_looks_compiled_is_read_as_it_is() -> None:
    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return -self._orig_mod(x)

    net = Around().eval()
    found = program_of(net, torch.rand(1, 3)).operations
    assert len(found) == 3


def test_a_table_input_behind_half_precision_is_refused() -> None:
    schema, net, x = _stamped("real")

    class Halved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net(x.to(torch.bfloat16).float())
            return out

    halved = Halved().eval()
    data = du.Dataset(x, halved(x.float()).argmax(1), schema=schema)
    with pytest.raises(du.Unsupported, match="coarser than single"):
        du.evaluate(halved, data, space=schema.space(eps=0.1, p=2.0), attack=QUICK)
