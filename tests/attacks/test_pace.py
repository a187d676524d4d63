"""A search that was cut off on its way says so; one that stands still does not."""

import numpy as np
import pytest
import torch

import durometer as du


class Slope(torch.nn.Module):
    """Class 1 where the mean exceeds 0.5: every step towards it gains the same."""

    def forward(self, x):
        score = 20 * (x.flatten(1).mean(1) - 0.5)
        return torch.stack([-score, score], dim=1)


SCHEMA = du.Schema([du.Feature(f"f{i}", "real", 0, 1) for i in range(4)])
CASES = {
    "APGD on its way": (du.APGD(5, step=0.06, start="clean"), du.Linf(0.6), True),
    "APGD at the wall": (du.APGD(20, start="clean"), du.Linf(0.1), False),
    "MOEVA on its way": (du.MOEVA(16, offspring=8, population=16), SCHEMA.space(eps=1, p=2), True),
    "MOEVA at the wall": (du.MOEVA(60, offspring=8, population=16), SCHEMA.space(eps=0.1), False),
}


@pytest.mark.parametrize("name", CASES)
def test_still_improving_is_said_of_searches_that_were_cut_off(name):
    attack, space, expected = CASES[name]
    data = du.Dataset(np.full((20, 4), 0.2), np.zeros(20, dtype=int), schema=SCHEMA)
    report = du.evaluate(Slope(), data, space=space, attack=attack)
    assert report.metric("broken").value == 0
    assert ("still-improving" in {f.id for f in report.flags}) == expected
