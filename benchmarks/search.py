"""Search attacks: how much faster than one pymoo run per row, and how time and memory grow.

    python benchmarks/search.py [--rows 200] [--peer-rows 40] [--threads 2] [--smoke]

On the same MLP, rows of URL and parameters, in one run: the published MOEVA from pymoo's classes on
two processes (`one_by_one.py`) against ours on two threads; with every row played to the end, with
solved rows dropped, and CAA. Ratios of wall time and of CPU time: on a busy machine only the second
means anything. The reference points are computed before the clock starts, for both.
Then: processor time and peak memory for 200 to 10,000 rows under a stated budget, and what the
compiled sort gains over a sort in torch.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import one_by_one
import pymoo
import torch
from pairs import Pair, pair
from pymoo.functions import is_compiled

import durometer as du
from durometer import losses
from durometer.attacks.evolution.survival import fronts, reference_points
from durometer.core.streams import Stream, keys
from durometer.problem.problem import Problem
from durometer.problem.referee import Referee


def problem(p: Pair, keep: str, seed: int = 0, times: int = 1) -> Problem:
    """The rows of a pair, `times` over, as an attack sees them."""
    model = du.wrap(p.model)
    x, y, targets = p.data.x.repeat(times, 1), p.data.y.repeat(times), p.targets.repeat(times, 1)
    with torch.no_grad():
        clean = model.logits(x)
    stream = Stream(seed, keys(np.arange(len(x))))
    referee = Referee(targets, x.clone(), keep, model.slack)
    return Problem(model, p.space.around(x), referee, stream, y, clean, targets, losses.ce)


def clocked(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, wall seconds, CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = call()
    return answer, time.perf_counter() - wall, time.process_time() - cpu


def against_pymoo(p: Pair, moeva: du.MOEVA, points: np.ndarray, few: int) -> None:
    peer = {"generations": moeva.generations, "offspring": moeva.offspring}
    one_by_one.attack(p.model, p.data.x[:2], p.space, p.targets[:2], points, generations=2)
    n = len(p.data)
    some = torch.linspace(0, n - 1, min(few, n)).long()
    (broken, their_cpu), their_wall, _ = clocked(
        lambda: one_by_one.attack(p.model, p.data.x[some], p.space, p.targets[some], points, **peer)
    )
    print(f"pymoo {pymoo.__version__}, compiled: {is_compiled()}; {n} rows of {p.name}")
    if len(some) < n:
        times = n / len(some)
        their_cpu, their_wall = their_cpu * times, their_wall * times
        print(f"ESTIMATE: pymoo ran on {len(some)} of the rows only; its times are times {times:g}")
    print(f"{'':34s}{'robust':>7s}{'wall s':>8s}{'CPU s':>8s}   ratio wall, CPU")
    print(
        f"{'pymoo, one row at a time':34s}{1 - broken.mean():7.3f}{their_wall:8.1f}{their_cpu:8.1f}"
    )
    for name, keep in (
        ("MOEVA, every row to the end", "best"),
        ("MOEVA, solved rows dropped", "first"),
    ):
        view = problem(p, keep)
        _, wall, cpu = clocked(lambda view=view: moeva(view))
        robust = 1 - float(view.referee.solved.float().mean())
        print(f"{name:34s}{robust:7.3f}{wall:8.2f}{cpu:8.2f}   {their_wall / wall:.0f}x, "
              f"{their_cpu / cpu:.0f}x")  # fmt: skip
    view = problem(p, "first")
    _, first_wall, first_cpu = clocked(lambda: du.CAPGD()(view))
    left = (~view.referee.solved).numpy()
    (_, rest_cpu), rest_wall, _ = clocked(
        lambda: one_by_one.attack(p.model, p.data.x[left], p.space, p.targets[left], points, **peer)
    )
    view = problem(p, "first")
    _, wall, cpu = clocked(lambda: du.CAA(search=moeva)(view))
    theirs = first_wall + rest_wall, first_cpu + rest_cpu
    print(f"CAA on {n} rows: {wall:.2f} s, {cpu:.2f} CPU s; with pymoo on the {left.sum()} rows")
    print(f"that CAPGD leaves {theirs[0]:.1f} s, {theirs[1]:.1f} CPU s: {theirs[0] / wall:.0f}x, "
          f"{theirs[1] / cpu:.0f}x")  # fmt: skip


def growth(smoke: bool) -> None:
    """Processor time and peak memory of fresh processes, for more and more rows."""
    print("  rows  budget GB  CPU ms per row and generation  peak GB (before: a run of 4 rows)")
    sizes = (8, 16) if smoke else (200, 2_000, 10_000)
    for rows, budget in ((sizes[0], 2.0), *((rows, 0.5) for rows in sizes), (sizes[-1], 2.0)):
        command = [sys.executable, __file__, "--peak", str(budget), "--rows", str(rows)]
        print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")


def peak(rows: int, budget: float) -> None:
    p = pair("url/mlp", min(rows, 200), epochs=2)
    few = Pair(p.name, p.model, p.data.take(np.arange(4)), p.space)
    moeva = du.MOEVA(generations=6, memory=int(budget * 1e9))
    moeva(problem(few, "best"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    view = problem(p, "best", times=rows // len(p.data))
    _, _, cpu = clocked(lambda: moeva(view))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{len(view.y):6d}{budget:11.1f}{1e3 * cpu / len(view.y) / 5:31.2f}{after / 1e6:9.2f} "
          f"({before / 1e6:.2f})")  # fmt: skip


def sorting(rows: int) -> None:
    """Fronts of (rows, 306, 3): compiled staircase against a domination matrix in torch."""
    f = np.random.default_rng(0).random((rows, 306, 3)) * [1.0, 1.0, 0.1]
    f[np.random.default_rng(1).random((rows, 306)) < 0.7, 2] = 0.0

    def in_torch() -> None:
        t = torch.from_numpy(f)
        no_worse = (t[:, :, None] <= t[:, None]).all(3)
        dominates = (no_worse & (t[:, :, None] < t[:, None]).any(3)).float()
        above, rank = dominates.sum(1), torch.full(t.shape[:2], -1)
        front = 0
        while bool(((rank >= 0).sum(1) < 206).any()):
            members = (rank < 0) & (above == 0)
            rank[members] = front
            above -= (members.float()[:, None] @ dominates)[:, 0]
            front += 1

    _, _, compiled = clocked(lambda: [fronts(each, 206) for each in f])
    _, _, tensors = clocked(in_torch)
    print(f"fronts of 306 individuals: compiled {1e6 * compiled / rows:.0f} us per row, "
          f"torch {1e6 * tensors / rows:.0f} us: {tensors / compiled:.0f}x")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--peer-rows", type=int, help="pymoo on so few rows, and multiplied")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="a toy size, to see that it runs")
    parser.add_argument("--peak", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    rows = 6 if args.smoke else args.rows
    if args.peak:
        peak(args.rows, args.peak)
        return
    p = pair("url/mlp", rows, epochs=2 if args.smoke else 60)
    torch.set_num_threads(args.threads)
    moeva = du.MOEVA(generations=5, population=30, offspring=20) if args.smoke else du.MOEVA()
    points = np.array(reference_points(moeva.population - 3))
    du.MOEVA(generations=3, population=moeva.population)(problem(p, "first"))
    du.CAPGD(steps=1)(problem(p, "first"))
    against_pymoo(p, moeva, points, args.peer_rows or rows)
    growth(args.smoke)
    sorting(8 if args.smoke else 100)


if __name__ == "__main__":
    main()
