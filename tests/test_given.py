"""What is handed over as data: refused in a sentence, or taken as it is, and never changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import durometer as du

X, Y = torch.rand(8, 4, generator=torch.Generator().manual_seed(0)), torch.zeros(8).long()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: du.Dataset(np.ma.masked_less(X.numpy(), 0.5), Y), "masked"),
        (lambda: du.Dataset(X, np.ma.masked_array(Y.numpy(), [1] + [0] * 7)), "masked"),
        (lambda: du.Dataset(X.bfloat16(), Y), "bfloat16"),
        (lambda: du.Dataset(X.to(torch.float8_e4m3fn), Y), "float8"),
        (lambda: du.Dataset(X.to("meta"), Y), "meta"),
        (lambda: du.Dataset(X.to_sparse(), Y), "to_dense"),
        (lambda: du.Dataset(torch.tensor(1.0), Y), r"shape \(\)"),
        (lambda: du.Dataset(X, Y.to(torch.complex64)), "complex"),
        (lambda: du.Dataset(X, Y, ids=[1, "a", 2, 3, 4, 5, 6, 7]), "numbers and text"),
        (lambda: du.Dataset(X, Y, ids=[None] * 8), "ids hold None"),
        (lambda: du.Dataset(X, Y, ids=[[1]] * 8), r"ids hold \[1\]"),
        (lambda: du.Dataset(X, Y, classes=3), "classes=3"),
        (lambda: du.Dataset(X, Y, classes="ab"), "classes='ab'"),
        (lambda: du.Dataset(X, Y, schema=3), "schema=3"),
        (lambda: du.Dataset(X, Y).take("a"), "rows 'a'"),
        (lambda: du.Dataset(X, Y).where(y=[None]), "class None"),
        (lambda: du.Report.load(3), r"load\(3\)"),
        (lambda: du.Run(workers=1.5).check(), "workers=1.5"),
        (lambda: du.Run(until="x").check(), "until='x'"),
        (lambda: du.Run(shard="ab").check(), "shard='ab'"),
        (lambda: du.Run(out=3).check(), "out=3"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(du.DurometerError, match=said):
        make()


def test_a_masked_array_without_masked_values_is_an_array() -> None:
    assert torch.equal(du.Dataset(np.ma.masked_array(X.numpy()), Y).x, X)


class Wipes(torch.nn.Module):
    """Changes its input in place, behind autograd's back."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.net.weight.data = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
        self.net.bias.data.zero_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.net(x)
        x.data.mul_(0)
        return out


def test_a_module_that_changes_its_input_changes_nobodys_data() -> None:
    net = Wipes()
    x = X.clone()
    data = du.Dataset(x, net.net(x).argmax(1))
    how: dict[str, Any] = {"space": du.Linf(0.1), "attack": du.PGD(5)}
    report = du.evaluate(net, data, **how)
    assert torch.equal(x, X) and torch.equal(data.x, X)
    honest = du.evaluate(net.net, data, **how)
    assert report.metric("clean").value == 1.0
    assert report.metric("robust") == honest.metric("robust")


def test_a_scaler_that_does_not_copy_changes_nobodys_data() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (200, 4))
    y = (x[:, 0] > 3).astype(int)
    robust = []
    for copy in (True, False):
        model = make_pipeline(StandardScaler(copy=copy), LogisticRegression()).fit(x.copy(), y)
        truth = model.score(x.copy(), y)
        data = du.Dataset(x[:60], y[:60])
        before = data.hash
        report = du.evaluate(
            model, data, space=du.Linf(0.3, low=-9, high=15), attack=du.Square(queries=50)
        )
        assert report.metric("clean").value == pytest.approx(truth, abs=0.05)
        assert data.hash == before
        assert "not-deterministic" not in {f.id for f in report.flags}
        robust.append(report.metric("robust").value)
    assert robust[0] == robust[1]


def test_a_function_of_arrays_that_changes_its_input_changes_nobodys_data() -> None:
    def wipes(rows: np.ndarray) -> np.ndarray:
        out = np.stack([rows[:, 0], rows[:, 1]], 1)
        rows[:] = 0
        return out

    data = du.Dataset(X.numpy().copy(), (X[:, 1] > X[:, 0]).long())
    report = du.evaluate(wipes, data, space=du.Linf(0.01), attack=du.Square(queries=5))
    assert torch.equal(data.x, X)
    assert report.metric("clean").value == 1.0
