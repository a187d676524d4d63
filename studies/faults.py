"""Fault campaign: whatever happens to a run, no record is lost, changed, or made twice.

    python studies/faults.py                        every point, in this process
    python studies/faults.py --executor processes   the same with two worker processes
    python studies/faults.py --executor ray         the same on a Ray cluster of this machine
    python studies/faults.py --random 30            SIGKILLs at random moments, in real processes
    python studies/faults.py --pairs 40             two processes that start at random moments
    python studies/faults.py --every 7              every seventh point only (CI)

A run (evaluate, save; also in place of another) touches the disk at points that `fault_layer`
enumerates. At each: a kill, a kill in the middle of the write, a power cut, a full disk, a disk
error. Then the run is resumed, must end with the records and inputs of an undisturbed one, and must
have played no finished chunk again; what fails must fail with a sentence.

What a reader would get wrong: for kills nobody is killed. The folder is copied just before each
point of one run, and each copy is resumed; `--random` is the check of that by real SIGKILLs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))

from fault_layer import Layer

import assay as ay
from assay.records import FIELDS, TIMES
from assay.run import processes
from assay.run.repair import repair
from assay.run.store import Store

CHUNKS = 3


def job(chunks: int = CHUNKS) -> tuple[torch.nn.Module, ay.Dataset, dict[str, Any]]:
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(20, 3)
    net.weight.data = torch.randn(3, 20, generator=g)
    net.bias.data.zero_()
    x = torch.rand(16 * chunks, 20, generator=g)
    data = ay.Dataset(x, net(x).argmax(1).detach())
    return net, data, {"space": ay.Linf(0.05), "attack": ay.APGD(5), "batch": 16}


def run_of(folder: Path, executor: str, **more: Any) -> ay.Run:
    where: dict[str, Any] = {"here": {}, "processes": {"workers": 2}, "ray": {"ray": "local"}}
    return ay.Run(folder, resume=True, **where[executor], **more)


def play(folder: Path, executor: str = "here", chunks: int = CHUNKS, **more: Any) -> ay.Report:
    """The run under test, saved."""
    net, data, how = job(chunks)
    report = ay.evaluate(net, data, **how, run=run_of(folder, executor, **more), progress=False)
    report.save(folder)
    return report


def same(a: ay.Report, b: ay.Report) -> list[str]:
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
    except ay.AssayError:
        return {}
    return {
        k: Store(folder).chunk(k).stat().st_mtime_ns
        for k in done
        if Store(folder).chunk(k).exists()
    }


def resumed(folder: Path, whole: ay.Report, executor: str) -> list[str]:
    """Go on in a folder as it was left, and compare."""
    before = finished(folder)
    try:
        report = play(folder, executor)
        loaded = ay.Report.load(folder)
    except ay.AssayError as error:
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


class Campaign:
    """Points, faults and problems, counted."""

    def __init__(self, executor: str, every: int, offset: int) -> None:
        self.executor, self.every, self.offset = executor, every, offset
        self.kinds: Counter[str] = Counter()
        self.covered: Counter[str] = Counter()
        self.problems: list[str] = []

    def wanted(self, k: int) -> bool:
        return k % self.every == self.offset % self.every

    def left(self, folder: Path, whole: ay.Report, old: ay.Report | None) -> list[str]:
        """Problems of a folder as it was left: the run in it, or the one it was to replace."""
        copy = folder.with_name("copy")
        if old is not None:
            shutil.copytree(folder, copy)
        found = resumed(folder, whole, self.executor)
        if old is not None:
            if found:
                found = back(copy, old)
            shutil.rmtree(copy)
        return found

    def kills(self, scratch: Path, whole: ay.Report, old: ay.Report | None) -> int:
        """Snapshots at every point of one run, each resumed."""
        name = "run" if old is None else "force"
        folder, shots = scratch / name, scratch / f"{name}-shots"
        shots.mkdir()
        if old is not None:
            shutil.copytree(scratch / "old", folder)
        layer = Layer(folder)
        layer.snapshots, layer.wanted = shots, self.wanted
        with layer.installed():
            play(folder, self.executor, force=old is not None)
        for shot in sorted(shots.iterdir()):
            k, kind = int(shot.name.split("-")[0]), shot.name.split("-")[1]
            self.kinds[kind] += 1
            self.covered[layer.points[k].split()[0]] += 1
            for text in self.left(shot, whole, old):
                self.problems.append(f"{name}, {kind} at {k} ({layer.points[k]}): {text}")
            shutil.rmtree(shot)
        return len(layer.points)

    def errors(self, scratch: Path, whole: ay.Report, old: ay.Report | None, points: int) -> None:
        """An error of the disk at every point: a sentence, and then resumed."""
        name = "run" if old is None else "force"
        for k in filter(self.wanted, range(points)):
            for kind in ("ENOSPC", "EIO"):
                folder = scratch / f"{name}-{kind}"
                shutil.rmtree(folder, ignore_errors=True)
                if old is not None:
                    shutil.copytree(scratch / "old", folder)
                layer = Layer(folder)
                layer.at = (k, kind)
                try:
                    with layer.installed():
                        play(folder, self.executor, force=old is not None)
                except ay.AssayError:
                    pass
                except Exception as error:
                    self.problems.append(f"{name}, {kind} at {k}: raw {error!r}")
                if len(layer.points) <= k:
                    continue
                self.kinds[kind] += 1
                self.covered[layer.points[k].split()[0]] += 1
                for text in self.left(folder, whole, old):
                    self.problems.append(f"{name}, {kind} at {k} ({layer.points[k]}): {text}")

    def go(self) -> None:
        with tempfile.TemporaryDirectory(prefix="assay-faults-") as made:
            scratch = Path(made)
            whole = play(scratch / "whole", "here")
            net, data, how = job()
            old = ay.evaluate(net, data, **how, seed=1, run=ay.Run(scratch / "old"), progress=False)
            old.save(scratch / "old")
            # A replacement is the driver's own work: the same whoever plays.
            for before in (None, old) if self.executor == "here" else (None,):
                points = self.kills(scratch, whole, before)
                self.errors(scratch, whole, before, points)
                print(f"{'run' if before is None else 'force'}: {points} points", flush=True)


def back(folder: Path, old: ay.Report) -> list[str]:
    """Problems of the run that was not replaced."""
    net, data, how = job()
    try:
        repair(folder)
        run = ay.Run(folder, resume=True)
        return same(old, ay.evaluate(net, data, **how, seed=1, run=run, progress=False))
    except Exception as error:
        return [f"neither run is whole: {type(error).__name__}: {error}"]


# -- real processes


def started(folder: Path, workers: int, chunks: int, force: bool = False) -> int:
    """A process that plays the run; its id."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        code = 1
        try:
            play(folder, "processes" if workers > 1 else "here", chunks, force=force)
            code = 0
        except ay.AssayError as error:
            code = 2 if "another process is writing" in str(error) else 1
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


def at_random(runs: int, workers: int, rng: random.Random) -> tuple[int, list[str]]:
    """Killed twice at random moments of a longer run, and resumed."""
    problems: list[str] = []
    kills, chunks = 0, 30
    with tempfile.TemporaryDirectory(prefix="assay-faults-") as scratch:
        play(Path(scratch) / "warm", chunks=chunks)
        start = time.monotonic()
        whole = play(Path(scratch) / "whole", chunks=chunks)
        length = time.monotonic() - start
        for run in range(runs):
            folder = Path(scratch) / f"run{run}"
            for _ in range(2):
                kills += not ended(started(folder, workers, chunks), rng.uniform(0, length))
            try:
                problems += [f"run {run}: {t}" for t in same(whole, play(folder, chunks=chunks))]
            except Exception as error:
                problems.append(f"run {run}: {type(error).__name__}: {error}")
    return kills, problems


def in_pairs(pairs: int, rng: random.Random) -> list[str]:
    """Two processes on one folder, the second (also with --force) at a random moment."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="assay-faults-") as scratch:
        start = time.monotonic()
        whole = play(Path(scratch) / "whole")
        length = time.monotonic() - start
        for pair in range(pairs):
            folder = Path(scratch) / f"pair{pair}"
            first = started(folder, 1, CHUNKS)
            time.sleep(rng.uniform(0, length))
            second = started(folder, 1, CHUNKS, force=rng.random() < 0.5)
            codes = [os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in (first, second)]
            if 1 in codes:
                problems.append(f"pair {pair}: a process failed: {codes}")
            try:
                problems += [f"pair {pair}: {t}" for t in same(whole, play(folder))]
            except Exception as error:
                problems.append(f"pair {pair}: {type(error).__name__}: {error}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executor", choices=("here", "processes", "ray"), default="here")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng, began = random.Random(args.seed), time.process_time()
    if args.random:
        kills, problems = at_random(args.random, args.workers, rng)
        said = f"{args.random} runs with {args.workers} worker(s), {kills} kills"
    elif args.pairs:
        problems = in_pairs(args.pairs, rng)
        said = f"{args.pairs} pairs of processes"
    else:
        if args.executor == "processes":  # this process has no threads: workers start in no time
            processes.START = "fork"
            multiprocessing.set_start_method("fork", force=True)
        if args.executor == "ray":
            import ray

            os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
            ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        campaign = Campaign(args.executor, args.every, args.seed)
        campaign.go()
        problems = campaign.problems
        faults = sum(campaign.kinds.values())
        said = (
            f"{args.executor}: {faults} faults ({dict(campaign.kinds)}) at {dict(campaign.covered)}"
        )
    for text in problems:
        print(text)
    print(f"{said}; {time.process_time() - began:.0f} CPU-s; {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
