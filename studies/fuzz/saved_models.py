"""Files of models, with damage: what still loads is wrapped, read as trees, and attacked.

Pickles are left out: reading one runs what is in it, damaged or not (docs/project/guarantees.md).
Files of text (XGBoost's JSON, LightGBM's) are also mangled as text, so that they parse and mean
nonsense.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from files import damaged
from texts import Rng, mangled

import durometer as du
from durometer.config.models import Model

FORESTS = ("m.json", "m.ubj", "m.txt", "m.cbm")
SORTS = (*FORESTS, "m.onnx", "m.pt", "m.pt2")
TEXTS = ("m.json", "m.txt")


def rows() -> du.Dataset:
    x = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
    return du.Dataset(x, torch.arange(12) % 2)


def valid(folder: Path) -> None:
    """One valid file of each sort."""
    import catboost
    import lightgbm
    import xgboost

    data = rows()
    x, y = np.tile(data.x.numpy(), (4, 1)), np.tile(data.y.numpy(), 4)
    boosted = xgboost.XGBClassifier(n_estimators=3, max_depth=2, n_jobs=1).fit(x, y)
    for name in FORESTS[:2]:
        boosted.save_model(folder / name)
    light = lightgbm.LGBMClassifier(n_estimators=3, num_leaves=3, verbose=-1, n_jobs=1).fit(x, y)
    light.booster_.save_model(folder / "m.txt")
    cat = catboost.CatBoostClassifier(
        iterations=3, depth=2, verbose=False, thread_count=1, allow_writing_files=False
    )
    cat.fit(x, y).save_model(str(folder / "m.cbm"))
    net = torch.nn.Linear(4, 2).eval()
    torch.jit.trace(net, data.x).save(str(folder / "m.pt"))
    size = torch.export.Dim("n", min=2, max=4096)
    exported = torch.export.export(net, (data.x,), dynamic_shapes=({0: size},))
    torch.export.save(exported, folder / "m.pt2")
    _graph(folder / "m.onnx")


def _graph(path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def model(rng: Rng) -> dict[str, Any]:
    return {"name": rng.choice(SORTS), "seed": rng.randrange(2**32), "kind": rng.randrange(7)}


def play_model(what: dict[str, Any], folder: Path) -> None:
    rng = random.Random(what["seed"])
    with tempfile.TemporaryDirectory(prefix="durometer-fuzz-") as made:
        path = Path(shutil.copy(folder / what["name"], made))
        if what["kind"] > 4 and what["name"] in TEXTS:
            path.write_text(mangled(path.read_text(), rng), encoding="utf-8")
        else:
            content = bytearray(path.read_bytes())
            path.write_bytes(damaged(content, what["kind"] % 5, rng))
        loaded = Model(path=path.name).load(Path(made))
        if what["name"] in FORESTS:
            from durometer.trees import read

            read(loaded.source)
        du.evaluate(loaded, rows(), space=du.Linf(0.1), attack=du.Square(2), progress=False)
