"""What two workers bring, and what two could bring at most on this machine.

    python benchmarks/workers.py [--seconds 60] [--net] [--ray] [--smoke]

Two workers cannot be faster than two processes that have nothing to do with each other: caches,
memory and the clock are shared. So that limit is measured in the same run:

    limit        time of the job alone / time of two such jobs side by side
    efficiency   time of the job alone / (2 x its time with two workers), start-up included

and the CPU seconds of all three, which tell what is lost to start-up and to sending (more CPU) from
what is lost to waiting (the same CPU, more time). The job: phishing addresses and CAPGD, as in
`scale.py`, or with `--net` images and APGD on a small CNN. Exit code 1 where the efficiency is
below 0.85 of the limit on a quiet machine; on a busy one nothing is judged.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from lp_networks import cnn
from scale import job

import assay as ay
from assay.run.executors import Executor, Here
from assay.run.job import Job
from assay.run.processes import Processes
from assay.training import fresh

AIM = 0.85
QUIET = 0.5  # load average of a minute: above, two workers do not have two cores
ROWS = {"tables": 250, "net": 64}  # of a chunk


def work(kind: str, rows: int) -> Job:
    if kind == "tables":
        return job(rows, ROWS[kind])
    net = fresh(cnn, 0).eval()
    x = torch.rand(rows, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = net(x).argmax(1)
    asked = (ay.Linf(0.01), ay.Untargeted(), ay.APGD(20), 0, ROWS[kind], ay.Budget(), True)
    made = Job(net, ay.Dataset(x, y), *asked)
    made.prepare()
    return made


def spent() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def timed(executor: Executor, made: Job) -> tuple[float, float]:
    """Wall and CPU seconds."""
    began, before = time.perf_counter(), spent()
    for _ in executor.map(made, range(made.count)):
        pass
    took = time.perf_counter() - began
    time.sleep(0.5)  # workers that have ended are counted when they are gone
    return took, spent() - before


def side_by_side(kind: str, rows: int, count: int) -> tuple[float, float]:
    """Processes that each play the whole job and know nothing of each other: the slowest's wall
    seconds, and the CPU seconds of all, from the moment when all are ready."""
    line = [sys.executable, str(Path(__file__).resolve()), "--child", kind, "--rows", str(rows)]
    children = [
        subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()  # ready
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [tuple(map(float, child.communicate()[0].split())) for child in children]
    return max(wall for wall, _ in said), sum(cpu for _, cpu in said)


def child(kind: str, rows: int) -> int:
    made = work(kind, rows)
    print("ready", flush=True)
    sys.stdin.readline()
    print(*timed(Here(), made))
    return 0


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--seconds", type=float, default=60.0, help="of the job in one process")
    options.add_argument("--net", action="store_true", help="a network instead of a table")
    options.add_argument("--ray", action="store_true", help="two Ray workers too")
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--rows", type=int, default=0, help="instead of --seconds")
    options.add_argument("--child", help=argparse.SUPPRESS)
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.child:
        return child(given.child, given.rows)
    kind, rows = "net" if given.net else "tables", given.rows
    if given.smoke:
        rows = 2 * ROWS[kind]
    if not rows:
        some = work(kind, 4 * ROWS[kind])
        timed(Here(), some)
        rate = 4 * ROWS[kind] / timed(Here(), some)[1]
        rows = max(8, round(rate * given.seconds / ROWS[kind])) * ROWS[kind]
    load = os.getloadavg()[0]
    print(f"{kind}, {rows} rows, chunks of {ROWS[kind]}; load {load:.1f}", flush=True)
    alone, cpu = side_by_side(kind, rows, 1)
    print(f"{'alone':22s}{alone:8.1f} s {cpu:8.1f} CPU-s", flush=True)
    both, cpus = side_by_side(kind, rows, 2)
    limit = alone / both
    print(
        f"{'two of it, each whole':22s}{both:8.1f} s {cpus:8.1f} CPU-s   limit {limit:.2f}",
        flush=True,
    )
    where: dict[str, Executor] = {"2 workers": Processes(2)}
    if given.ray:
        from assay.run.on_ray import Ray

        where["Ray, local"] = Ray("local")
    made, missed = work(kind, rows), []
    for name, executor in where.items():
        wall, used = timed(executor, made)
        reached = alone / (2 * wall)
        said = f"efficiency {reached:.2f}, {reached / limit:.2f} of the limit"
        print(f"{name:22s}{wall:8.1f} s {used:8.1f} CPU-s   {said}", flush=True)
        missed += [name] if reached / limit < AIM else []
    if load > QUIET or given.smoke:
        print(f"not judged: {'a smoke run' if given.smoke else f'the load was {load:.1f}'}")
        return 0
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
