"""What two workers bring, and what two could bring at most on this machine.

    python benchmarks/workers.py [--seconds 60] [--job tables|net|resnet|forest] [--ray] [--smoke]

Two workers cannot be faster than two processes that have nothing to do with each other: caches,
memory and the clock are shared. So that limit is measured in the same run:

    limit        time of the job alone / time of two such jobs side by side
    efficiency   time of the job alone / (2 x its time with two workers), start-up included

and the CPU seconds of all three, which tell what is lost to start-up and to sending (more CPU) from
what is lost to waiting (the same CPU, more time). The jobs:

    tables    phishing addresses and CAPGD, as in `scale.py`
    net       noise and APGD on a small CNN
    resnet    CIFAR-10's sample and the standard attack on a small ResNet: rows of unlike cost
    forest    phishing addresses and Graft on a random forest: no gradients, no wide batches

On Ray twice: with a cluster that is started for the run, and on one that is there already (its
workers begin anew for each run). Exit code 1 where the efficiency is below 0.85 of the limit on a
quiet machine; on a busy one nothing is judged.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from scale import job, phishing

import durometer as du
from durometer.architectures.images.resnet import ResNet
from durometer.run.executors import Executor, Here
from durometer.run.job import Job
from durometer.run.on_ray import Ray
from durometer.run.processes import Processes
from durometer.training import Standard, fit, fresh

AIM = 0.85
QUIET = 0.5  # load average of a minute: above, two workers do not have two cores
ROWS = {"tables": 250, "net": 64, "resnet": 8, "forest": 64}  # of a chunk

SPACES = {"net": du.Linf(0.01), "resnet": du.Linf(4 / 255)}
ATTACKS = {"net": (du.APGD(20),), "resnet": (du.Standard(proofs=False),),
           "forest": (du.Graft(200),)}  # fmt: skip
RUNNING = "Ray, running already"
CACHE = Path(os.environ.get("DUROMETER_CACHE") or Path.home() / ".cache" / "durometer")


def work(kind: str, rows: int) -> Job:
    if kind == "tables":
        return job(rows, ROWS[kind])
    asked = (du.Untargeted(), *ATTACKS[kind], 0, ROWS[kind], du.Budget(), True)
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        train = du.datasets.url().train
        forest = RandomForestClassifier(30, max_depth=8, random_state=0, n_jobs=1)
        forest.fit(train.x.numpy(), train.y.numpy())
        data = phishing(rows)
        made = Job(forest, data, data.schema.space(eps=0.5, p=2), *asked)
    else:
        net, x = network(kind), images(kind, rows)
        with torch.no_grad():
            y = torch.cat([net(some).argmax(1) for some in x.split(512)])
        made = Job(net, du.Dataset(x, y), SPACES[kind], *asked)
    made.prepare()
    return made


def network(kind: str) -> torch.nn.Module:
    if kind == "net":
        from lp_networks import cnn

        return fresh(cnn, 0).eval()
    net = fresh(partial(ResNet, (1, 1, 1), width=16), 0)
    file = CACHE / "workers-resnet.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    fit(net, du.datasets.cifar10().train, Standard(), epochs=2, seed=0, checkpoint=file)
    return net.eval().requires_grad_(False)


def images(kind: str, rows: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    if kind == "net":
        return torch.rand(rows, 1, 28, 28, generator=g)
    some = du.datasets.cifar10().test.x
    x = some[torch.arange(rows) % len(some)]
    return (x + torch.randn(x.shape, generator=g) / 50).clamp(0, 1)  # no two rows alike


def start_ray() -> None:
    import ray

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)


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
    options.add_argument("--job", choices=sorted(ROWS), default="tables")
    options.add_argument("--ray", action="store_true", help="two Ray workers too")
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--rows", type=int, default=0, help="instead of --seconds")
    options.add_argument("--child", help=argparse.SUPPRESS)
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.child:
        return child(given.child, given.rows)
    kind, rows = given.job, given.rows
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
        where |= {"Ray, started": Ray("local"), RUNNING: Ray("local")}
    made, missed = work(kind, rows), []
    for name, executor in where.items():
        if name == RUNNING:
            start_ray()
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
