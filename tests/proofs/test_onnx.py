"""ONNX files are proven through their graph: for any number of rows or for one, no other file."""

import numpy as np
import pytest
import torch
from torch import nn

import durometer as du

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


class Small(nn.Module):
    def __init__(self, softmax=False):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.Linear(4 * 3 * 3, 3)
        self.softmax = softmax

    def forward(self, x):
        h = self.conv(x).relu()
        out = self.out(h.flatten(1))
        return out.softmax(1) if self.softmax else out


def saved(tmp_path, module, rows=None, name="net"):
    """A file made for any number of rows, or for `rows` of them."""
    path = tmp_path / f"{name}.onnx"
    axes = None if rows else {"x": {0: "n"}, "logits": {0: "n"}}
    torch.onnx.export(
        module.eval(), torch.zeros(rows or 1, 1, 6, 6), str(path), input_names=["x"],
        output_names=["logits"], dynamic_axes=axes, dynamo=False,
    )  # fmt: skip
    return path


def rows(module, n=24):
    x = torch.rand(n, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    return du.Dataset(x, module(x).argmax(1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", [None, 1])
@pytest.mark.parametrize("softmax", [False, True])
def test_files_are_proven_like_their_modules_and_no_proof_falls(tmp_path, batch, softmax):
    torch.manual_seed(3)
    module = Small(softmax).eval()
    data, space = rows(module), du.Linf(0.25)
    path = saved(tmp_path, module, batch)
    answers = {"answers": "probabilities"} if softmax else {}
    file = du.evaluate(du.wrap(path, **answers), data, space=space, progress=False)
    own = du.evaluate(du.wrap(module, **answers), data, space=space, progress=False)
    proven = (file.table["verdict"] == "proven").to_numpy()
    assert 0 < proven.sum() < len(data)
    assert (proven == (own.table["verdict"] == "proven").to_numpy()).all()
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    draw = torch.Generator().manual_seed(2)
    for k in np.flatnonzero(proven):
        for j in range(60):
            move = 2 * torch.rand(1, 1, 6, 6, generator=draw) - 1
            x = (data.x[k : k + 1] + 0.25 * (move.sign() if j % 2 else move)).clamp(0, 1)
            assert session.run(None, {"x": x.numpy()})[0].argmax() == int(data.y[k])


@pytest.mark.filterwarnings("ignore")
def test_a_graph_for_one_row_answers_many(tmp_path):
    module = Small().eval()
    model = du.wrap(saved(tmp_path, module, 1))
    x = torch.rand(5, 1, 6, 6)
    assert torch.allclose(model.logits(x), module(x), atol=1e-5)
    report = du.evaluate(
        du.wrap(saved(tmp_path, module, 1), gradients=True), rows(module), space=du.Linf(0.2),
        attack=du.PGD(5), progress=False,
    )  # fmt: skip
    assert report.counts("verdict").get("broken", 0) > 0


@pytest.mark.filterwarnings("ignore")
def test_a_file_that_was_replaced_is_not_read(tmp_path):
    torch.manual_seed(4)
    module = Small().eval()
    model = du.wrap(saved(tmp_path, module))
    saved(tmp_path, Small().eval())
    with pytest.raises(du.Unsupported, match="not the file any more"):
        du.evaluate(model, rows(module), space=du.Linf(0.01), attack=du.Bounds(), progress=False)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_that_joins_rows_is_refused(tmp_path):
    class Joined(Small):
        def forward(self, x):
            return super().forward(x) + super().forward(x).mean(0)

    module = Joined().eval()
    model = du.wrap(saved(tmp_path, module))
    with pytest.raises(du.Unsupported, match="rows"):
        du.evaluate(model, rows(module), space=du.Linf(0.01), attack=du.Bounds(), progress=False)
