"""Fault test: runs killed with SIGKILL at random moments and resumed end with the same records.

Each run is a process of its own that is killed at a moment drawn uniformly over the length of an
undisturbed run, resumed, killed again, and at last left to finish. Then: every record equals the
undisturbed run's, every chunk is there exactly once, and no chunk that was finished before a kill
was touched again.

    python studies/faults.py                      30 runs, two kills each, in one process
    python studies/faults.py --workers 2 --runs 6     with worker processes, which die with the run

What a reader would get wrong: processes are forked from one that has imported everything, so that
the kills fall into the run and not into the seconds that importing torch takes.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import assay as ay
from assay.records import FIELDS, TIMES
from assay.run.store import Store

CHUNKS = 30


def job() -> tuple[torch.nn.Module, ay.Dataset, dict[str, Any]]:
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(20, 3)
    net.weight.data = torch.randn(3, 20, generator=g)
    net.bias.data.zero_()
    x = torch.rand(16 * CHUNKS, 20, generator=g)
    data = ay.Dataset(x, net(x).argmax(1).detach())
    return net, data, {"space": ay.Linf(0.05), "attack": ay.APGD(20), "batch": 16}


def play(folder: Path, workers: int) -> ay.Report:
    net, data, how = job()
    return ay.evaluate(net, data, **how, run=ay.Run(folder, resume=True, workers=workers))


def started(folder: Path, workers: int) -> int:
    """A process that plays the run; its id."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        code = 1
        try:
            play(folder, workers)
            code = 0
        finally:
            os._exit(code)
    return child


def ended(child: int, seconds: float) -> bool:
    """Wait so long, then kill; did it end by itself before?"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def finished(folder: Path) -> dict[int, int]:
    """Chunks that the index names, with the times their files were written."""
    try:
        done = Store(folder).done()
    except (ay.AssayError, sqlite3.Error):  # killed before there was an index
        return {}
    return {k: (folder / "chunks" / f"{k}.npz").stat().st_mtime_ns for k in done}


def problems(whole: ay.Report, folder: Path, before: list[dict[int, int]]) -> list[str]:
    """What is not as it would be had nothing happened."""
    found = []
    report = play(folder, 1)
    for name in FIELDS:
        if name not in TIMES:
            a, b = whole.records.columns[name], report.records.columns[name]
            if len(a) != len(b) or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                found.append(f"column {name} differs")
    if not np.array_equal(whole.adversarial, report.adversarial):
        found.append("handed-in inputs differ")
    if len(set(report.records.columns["id"].tolist())) != len(report.records):
        found.append("a row is there twice")
    now = finished(folder)
    if sorted(now) != list(range(CHUNKS)):
        found.append(f"{len(now)} of {CHUNKS} chunks")
    for state in before:
        again = [k for k, written in state.items() if now.get(k) != written]
        if again:
            found.append(f"chunks {again} were finished and played again")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(args.seed)
    bad = 0
    cut: list[int] = []
    with tempfile.TemporaryDirectory(prefix="assay-faults-") as scratch:
        play(Path(scratch) / "warm", 1)  # imports, once and for all
        start = time.monotonic()
        whole = play(Path(scratch) / "whole", args.workers)
        length = time.monotonic() - start
        for run in range(args.runs):
            folder, before = Path(scratch) / f"run{run}", []
            for kill in range(args.kills):
                while ended(started(folder, args.workers), rng.uniform(0, length)):
                    if kill:  # it ended before its second kill
                        break
                    shutil.rmtree(folder)
                else:
                    before.append(finished(folder))
                    cut.append(len(before[-1]))
            if not ended(started(folder, args.workers), 600):
                bad += 1
                print(f"run {run}: did not end")
                continue
            for text in problems(whole, folder, before):
                bad += 1
                print(f"run {run}: {text}")
    print(
        f"{args.runs} runs with {args.workers} worker(s), {len(cut)} kills, at which {min(cut)} to "
        f"{max(cut)} of {CHUNKS} chunks were finished (median {np.median(cut):g}); "
        f"{bad} problems"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
