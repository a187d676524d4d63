"""The run under test, and whether it is as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import durometer as du
from durometer.core.records import FIELDS, TIMES
from durometer.run.repair import repair
from durometer.run.store import Store

CHUNKS = 3


def job(chunks: int = CHUNKS) -> tuple[torch.nn.Module, du.Dataset, dict[str, Any]]:
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(20, 3)
    net.weight.data = torch.randn(3, 20, generator=g)
    net.bias.data.zero_()
    x = torch.rand(16 * chunks, 20, generator=g)
    data = du.Dataset(x, net(x).argmax(1).detach())
    return net, data, {"space": du.Linf(0.05), "attack": du.APGD(5), "batch": 16}


def run_of(folder: Path, executor: str, **more: Any) -> du.Run:
    where: dict[str, Any] = {"here": {}, "processes": {"workers": 2}, "ray": {"ray": "local"}}
    return du.Run(folder, resume=True, **where[executor], **more)


def play(folder: Path, executor: str = "here", chunks: int = CHUNKS, **more: Any) -> du.Report:
    """The run under test, saved."""
    net, data, how = job(chunks)
    report = du.evaluate(net, data, **how, run=run_of(folder, executor, **more), progress=False)
    report.save(folder)
    return report


def same(a: du.Report, b: du.Report) -> list[str]:
    """What is not as it would be had nothing happened."""
    found = []
    for name in FIELDS:
        if name not in TIMES:
            x, y = a.records.columns[name], b.records.columns[name]
            if len(x) != len(y) or not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
                found.append(f"column {name} differs")
    if not np.array_equal(a.adversarial, b.adversarial):
        found.append("handed-in inputs differ")
    for name in a.also:
        found += [f"{name}: {text}" for text in same(a.also[name], b.also[name])]
    return found


def finished(folder: Path) -> dict[int, int]:
    """Chunks that the index names, with the times their files were written."""
    try:
        done = Store(folder).done()
    except du.DurometerError:
        return {}
    return {
        k: Store(folder).chunk(k).stat().st_mtime_ns
        for k in done
        if Store(folder).chunk(k).exists()
    }


def resumed(folder: Path, whole: du.Report, executor: str) -> list[str]:
    """Go on in a folder as it was left, and compare."""
    before = finished(folder)
    try:
        report = play(folder, executor)
        loaded = du.Report.load(folder)
    except du.DurometerError as error:
        return [f"cannot be resumed: {error}"]
    except Exception as error:
        return [f"raw {type(error).__name__}: {error}"]
    found = same(whole, report) + same(whole, loaded)
    now = finished(folder)
    if sorted(now) != list(range(CHUNKS)):
        found.append(f"{len(now)} of {CHUNKS} chunks")
    again = [k for k, written in before.items() if now.get(k) != written]
    if again:
        found.append(f"chunks {again} were finished and played again")
    return found


def back(folder: Path, old: du.Report) -> list[str]:
    """Problems of the run that was not replaced."""
    net, data, how = job()
    try:
        repair(folder)
        run = du.Run(folder, resume=True)
        return same(old, du.evaluate(net, data, **how, seed=1, run=run, progress=False))
    except Exception as error:
        return [f"neither run is whole: {type(error).__name__}: {error}"]
