"""One number per row: a probability is decided at 0.5, a score at 0, a label is none."""

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du
from durometer.core.errors import DurometerError

X = np.random.default_rng(0).uniform(size=(60, 2))
DATA = du.Dataset(X, (X[:, 0] > 0.5).astype(int))
ASKED = {"space": du.Linf(0.01), "attack": du.Square(3)}


def clean(model, attack=None):
    asked = ASKED | ({} if attack is None else {"attack": attack})
    return du.evaluate(model, DATA, **asked).metric("clean").value


class Steep(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.last = last

    def forward(self, x):
        return self.last(50 * (x[:, :1] - 0.5))


@pytest.mark.parametrize(
    "model",
    [lambda x: np.asarray(x)[:, 0], lambda x: x[:, :1], Steep(nn.Sigmoid())],
    ids=["array", "column", "sigmoid"],
)
def test_a_probability_that_nobody_called_one_is_asked_about(model):
    """It was taken for a score: everything was class 1, without a word."""
    with pytest.raises(DurometerError, match="all between 0 and 1.*answers='probabilities'"):
        clean(model)
    assert clean(du.wrap(model, answers="probabilities")) == 1.0
    assert clean(du.wrap(model, answers="logits")) < 0.7  # its owner insists


def test_scores_and_labels():
    assert clean(Steep(nn.Identity())) == 1.0
    assert clean(lambda x: np.asarray(x)[:, 0] - 0.5) == 1.0
    for kind in (int, bool, float):
        above = lambda x, kind=kind: (np.asarray(x)[:, 0] > 0.5).astype(kind)  # noqa: E731
        assert clean(above, du.Ray(3)) == 1.0
    with pytest.raises(DurometerError, match="answers 2, which is none of the classes 0, 1"):
        clean(lambda x: 2 * (np.asarray(x)[:, 0] > 0.5).astype(int))


def test_lists_are_read_as_tuples_or_as_rows():
    def two(x):
        return torch.stack([0.5 - x[:, 0], x[:, 0] - 0.5], 1)

    assert clean(lambda x: [two(x), x.repeat(1, 2)]) == clean(lambda x: list(two(x))) == 1.0
