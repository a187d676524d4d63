"""What a fork has seen, the problem it came from has seen: also that only invalid inputs reach."""

from dataclasses import dataclass

import pytest
import torch

import durometer as du
from durometer.extend import Needs


class Line(torch.nn.Module):
    def forward(self, x):
        return torch.stack([0.5 - x[:, 0], x[:, 0] - 0.5], 1)


@dataclass(frozen=True)
class TooFar:
    """Hands in a point beyond the ball, directly or by way of a fork."""

    forked: bool

    @property
    def needs(self):
        return Needs()

    def __call__(self, problem):
        rows = problem.undecided
        asked = problem.fork() if self.forked else problem
        asked.query(rows, torch.full((len(rows), 1), 0.9, dtype=torch.float64))
        if self.forked:
            problem.absorb(asked)


@pytest.mark.parametrize("forked", [False, True])
def test_a_goal_reached_by_invalid_inputs_only_is_counted_through_a_fork_too(forked):
    x = torch.tensor([[0.1], [0.2]], dtype=torch.float64)
    data = du.Dataset(x, [0, 0])
    report = du.evaluate(Line(), data, space=du.Linf(0.1), attack=TooFar(forked), progress=False)
    assert report.table["blocked"].all() and not report.table["success"].any()
