"""One transductive game against a re-play written from the paper that shares no code."""

import numpy as np
import pytest
import torch
from tests.oracles import transductive as oracle

import durometer as du

START = (0.5, 0.5)


class Swing:
    """The oracle's defender as the package wants it, in torch."""

    stateful = True

    def start(self):
        return torch.tensor(START, dtype=torch.float64)

    def base(self, state):
        return self._made(torch.tensor([10.0, 0.0], dtype=torch.float64), state)

    def adapt(self, state, x, seed):
        after = 0.5 * state + 0.5 * x.mean(0)
        angle = 4 * x[:, 1].std(correction=0)
        return self._made(10 * torch.stack([angle.cos(), angle.sin()]), after), after

    def _made(self, weight, middle):
        def call(x):
            z = (x - middle) @ weight
            return torch.stack([-z / 2, z / 2], dim=1)

        return du.Classifier(call, "swing", True)


@pytest.mark.parametrize("average", [True, False], ids=["GMSA-AVG", "FPA"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_same_records(average, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(36) % 2
    x = rng.random((36, 2))
    x[:, 0] = 0.5 + np.where(y == 1, 1, -1) * (0.05 + 0.4 * x[:, 0])
    handed, answers, rehearsed = oracle.play(x, y, START, 12, 0.2, 8, 3, average)
    attack = (du.GMSA if average else du.FPA)(du.PGD(8, start="clean"), iterations=3)
    report = du.evaluate(
        du.Transductive(Swing(), batch=12),
        du.Dataset(torch.as_tensor(x), torch.as_tensor(y)),
        space=du.Linf(0.2),
        attack=attack,
    )
    c = report.records.columns
    np.testing.assert_allclose(report.adversarial, handed, atol=1e-9)
    np.testing.assert_array_equal(c["final"], answers)
    np.testing.assert_array_equal(c["success"], answers != y)
    np.testing.assert_array_equal(c["simulated"], rehearsed)
    np.testing.assert_array_equal(c["round"], np.repeat([0, 1, 2], 12))
    assert 0 < (answers == y).mean() < 1  # neither side wins everything
