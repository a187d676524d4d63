"""Graft's single changes: the same as if all were written out, at a price linear in features."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import durometer as du
from durometer.attacks.graft import Moves
from durometer.core.streams import Stream

SCHEMA = du.Schema(
    [
        du.Feature("amount", "real", 0, 1),
        du.Feature("kind", "category", values=("u", "v", "w", "x")),
        du.Feature("number", "integer", 0, 10),
        du.Feature("fixed", "real", 0, 1, mutable=False),
        du.Feature("red", "boolean", group="colour"),
        du.Feature("green", "boolean", group="colour"),
        du.Feature("blue", "boolean", group="colour"),
    ]
)
RECORDS = torch.tensor(
    [[0.5, 0, 7, 0.2, 1, 0, 0], [0, 3, 0, 1, 0, 0, 1], [1, 1, 10, 0, 0, 1, 0]], dtype=torch.float64
)
IMAGES = torch.tensor([[0.0, 0.3, 1.0, 0.6], [1.0, 0.0, 0.0, 0.8]]).reshape(2, 1, 2, 2)
CASES = [
    *((SCHEMA.space(eps=e, p=p), RECORDS)
      for p, e in ((0, 2), (1, 0.3), (2, 0.3), (2, 2.0), (math.inf, 0.1))),
    *((space, IMAGES) for space in (du.L0(2), du.L1(0.4), du.L2(0.2), du.Linf(0.1))),
    (du.Quantised(du.L2(0.2), levels=11), IMAGES),
    (du.Patch(torch.tensor([[1, 0], [0, 1]])), IMAGES),
]  # fmt: skip


class Only:
    """As much of a problem as moves ask for."""

    def __init__(self, n):
        self.random = Stream(0, torch.arange(n))


def written_out(region, reach, most):
    """Every move of a row as a whole vector, by loops."""
    origin = region.origin
    blocks = [places.tolist() for places in getattr(region, "blocks", ())]
    held = {j for places in blocks for j in places}
    numbers = [j for j in range(origin.shape[1]) if j not in held]
    steps = [1.0, -1.0]
    if region.p == 0 and numbers:
        between = max(0, most // len(numbers) - 2) // 2
        steps += [s * (k + 1) / (between + 1) for k in range(between) for s in (1.0, -1.0)]
    rows = []
    for here in origin:
        moves = []
        for step in steps:
            for j in numbers:
                change = torch.zeros_like(here)
                change[j] = reach * step
                moves.append(change)
        for places in blocks:
            for j in places:
                change = torch.zeros_like(here)
                change[places] = 0.0 - here[places]
                change[j] = here[places].max() - here[j]
                moves.append(change)
        rows.append(torch.stack(moves))
    return torch.stack(rows)


@pytest.mark.parametrize(("space", "x"), CASES, ids=lambda c: str(c)[:30])
def test_moves_are_those_of_the_whole_vectors(space, x):
    region = space.around(x)
    n, reach = len(x), region.eps if region.p > 0 else 1.0
    whole = written_out(region, reach, 40)
    count = whole.shape[1]
    moves = Moves.of(Only(n), torch.arange(n), region, reach, 40)
    order = Stream(0, torch.arange(n)).part("Graft").order(torch.arange(n), count)
    every = torch.ones(n, dtype=torch.bool)
    asked = moves.changes(every, 0, count)
    for i in range(n):
        one = region.take(torch.tensor([i]))
        lead = [
            bool(whole[i, j].abs().sum() > 0)
            if region.p == 0
            else bool((one.project(one.origin + whole[i, j]) != one.origin).any())
            for j in range(count)
        ]
        assert sum(lead) == int(moves.count[i]) > 0
        first = [j for j in order[i].tolist() if lead[j]]
        rest = [j for j in order[i].tolist() if not lead[j]]
        assert torch.equal(asked[i], whole[i, first + rest])
    kept = moves.take(torch.tensor([False, True] + [False] * (n - 2)))
    assert torch.equal(kept.changes(every[:1], 3, 2)[0], asked[1, 3:5])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts memory as Linux does")
def test_two_thousand_features_take_less_than_half_a_gigabyte():
    code = r"""
import re, torch, durometer as du
torch.set_num_threads(1)
x = torch.rand(12, 2000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
net = torch.nn.Linear(2000, 3).double()
schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(2000)])
data = du.Dataset(x, net(x).argmax(1))
du.evaluate(net, data, space=schema.space(eps=1e-4), attack=du.Graft(150), progress=False)
print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 0.6e9  # of which torch and the package take 0.25e9
