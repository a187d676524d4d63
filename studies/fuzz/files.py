"""Files of data and of runs, with damage."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from texts import Rng

import durometer as du
from durometer.config.sources import Data


def damaged(content: bytearray, kind: int, rng: Rng) -> bytearray:
    """Cut, flipped, lengthened, shortened or zeroed at a few places."""
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(content)) if content else 0
        if kind == 0:
            content = content[:at]
        elif kind == 1 and content:
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            content[at:at] = rng.randbytes(rng.choice((1, 8, 500)))
        elif kind == 3:
            del content[at : at + rng.choice((1, 4, 64))]
        elif content:
            content[at : at + 8] = bytes(8)
    return content


def valid(folder: Path) -> None:
    """One valid file of each sort."""
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(4, 2)
    net.weight.data = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1]])
    net.bias.data.zero_()
    x = torch.rand(12, 4, generator=g)
    np.savez(folder / "d.npz", x=x.numpy(), y=np.arange(12) % 2)
    frame = "\n".join(["p,q,r,s,y", *(",".join(f"{v:.3f}" for v in row) + ",1" for row in x)])
    (folder / "d.csv").write_text(frame)
    import pandas as pd

    pd.read_csv(folder / "d.csv").to_parquet(folder / "d.parquet")
    data = du.Dataset(x, net(x).argmax(1).detach())
    run = du.Run(folder / "run")
    report = du.evaluate(net, data, space=du.Linf(0.3), attack=du.FGSM(), batch=6, run=run)
    report.save(folder / "run")


SORTS = (
    *("d.npz", "d.csv", "d.parquet", "run/spec.json", "run/records.parquet", "run/facts.json"),
    *("run/adversarial.npz", "run/examples.npz", "run/index.sqlite", "run/chunks/0.npz"),
    "run/fingerprint.json",
)


def file(rng: Rng) -> dict[str, Any]:
    return {"name": rng.choice(SORTS), "seed": rng.randrange(2**32), "kind": rng.randrange(5)}


def play_file(what: dict[str, Any], folder: Path) -> None:
    from durometer.run.repair import repair
    from durometer.run.store import Store

    rng = random.Random(what["seed"])
    with tempfile.TemporaryDirectory(prefix="durometer-fuzz-") as made:
        copy = Path(made) / "copy"
        shutil.copytree(folder, copy)
        path = copy / what["name"]
        path.write_bytes(damaged(bytearray(path.read_bytes()), what["kind"], rng))
        asked: tuple[Callable[[], Any], ...] = (
            lambda: du.Report.load(copy / "run"),
            lambda: Store(copy / "run").report(),
            lambda: repair(copy / "run"),
        )
        if what["name"].startswith("d."):
            asked = (lambda: Data(path=what["name"]).load(copy),)
        if what["name"] == "d.parquet":
            asked = (*asked, lambda: in_parts(path))
        said = 0
        for ask in asked:  # each by itself: a sentence of the first must not hide the others
            try:
                ask()
            except du.DurometerError:
                said += 1
        if said == len(asked):
            raise du.DurometerError("all of them were refused")


def in_parts(path: Path) -> None:
    """The same file as data larger than memory."""
    data = du.Parquet(path, target="y", rows=5)
    for k in range(len(data.parts)):
        data.part(k)
    _ = data.hash, data.head()
