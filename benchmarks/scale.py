"""Running at scale: worker processes and Ray against one process, overhead, writing, memory.

    python benchmarks/scale.py              all but the large run
    python benchmarks/scale.py --large      100,000 rows of phishing data, and the memory they take
    python benchmarks/scale.py --growth --rows 1000000    a cheap model on a million rows x 60

The same job (phishing addresses, CAPGD) is played in-process, by two worker processes and on a Ray
cluster of two workers on this machine. Start-up (imports, sending the job) is told apart from the
pace afterwards, since a long run pays it once. All times here are wall times, the thing that more
workers are for: on a machine that others use too, read the ratios and repeat.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import durometer as du
from durometer.core.records import FIELDS, TIMES, Records
from durometer.core.streams import Stream, keys
from durometer.demo.models import url_net
from durometer.run.executors import Executor, Here
from durometer.run.job import Chunk, Job
from durometer.run.on_ray import Ray
from durometer.run.processes import Processes
from durometer.run.store import Store


def phishing(rows: int, seed: int = 0) -> du.Dataset:
    """The bundled addresses, repeated with noise that keeps types, bounds and relations."""
    test = du.datasets.url().test
    index = torch.arange(rows) % len(test)
    x, ids = test.x[index].clone(), np.arange(rows)
    space = test.schema.space(eps=0.02, p=2)
    for at in torch.arange(min(len(test), rows), rows).split(8192):  # the first copy stays as it is
        near = space.around(x[at])
        drawn = near.decode(near.random(Stream(seed, keys(ids[at.numpy()])), torch.arange(len(at))))
        good = near.contains(drawn)
        x[at[good]] = drawn[good].to(x.dtype)
    return du.Dataset(x, test.y[index], ids, test.schema, test.classes, "phishing, with noise")


def job(rows: int, batch: int, steps: int = 10) -> Job:
    data = phishing(rows)
    space = data.schema.space(eps=0.2, p=2)
    made = Job(url_net(), data, space, du.Untargeted(), du.CAPGD(steps), 0, batch, du.Budget())
    made.prepare()
    return made


def timed(executor: Executor, work: Job) -> tuple[float, float, list[Chunk]]:
    """Seconds to the first result, from there to the last, and the parts in order."""
    start = time.perf_counter()
    first, parts = 0.0, {}
    for k, part in executor.map(work, range(work.count)):
        first = first or time.perf_counter() - start
        parts[k] = part
    whole = time.perf_counter() - start
    return first, whole - first, [parts[k] for k in sorted(parts)]


def same(a: list[Chunk], b: list[Chunk]) -> bool:
    one, other = (Records.concat(p.records for p in parts) for parts in (a, b))
    return all(
        np.array_equal(one.columns[f], other.columns[f], equal_nan=kind.startswith("float"))
        for f, (kind, _) in FIELDS.items()
        if f not in TIMES
    )


def places(with_ray: bool) -> dict[str, Executor]:
    found: dict[str, Executor] = {"in-process": Here(), "2 processes": Processes(2)}
    try:
        import ray
    except ImportError:
        print("Ray is not installed here: pip install 'durometer[ray]'")
        return found
    if with_ray:
        # At Ray's own niceness of 15 a busy machine would make the comparison unfair.
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        start = time.perf_counter()
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        print(f"a Ray cluster of two workers started in {time.perf_counter() - start:.1f} s")
        found["Ray, 2 workers"] = Ray("local")
    return found


def speed(where: dict[str, Executor], rows: int, batch: int, repeats: int) -> None:
    work = job(rows, batch)
    print(f"\n{rows} rows of phishing data in {work.count} chunks, CAPGD(10), best of {repeats}:")
    print(f"{'':<16}{'to first':>10}{'rows/s after':>14}{'ratio':>8}  same records")
    base, truth = 0.0, None
    for name, executor in where.items():
        tries = [timed(executor, work) for _ in range(repeats)]
        first, rest, parts = min(tries, key=lambda t: t[1])
        pace = (rows - batch) / rest
        truth, base = truth or parts, base or pace
        line = f"{name:<16}{first:>8.1f} s{pace:>14.0f}{pace / base:>8.2f}  "
        print(line + str(same(truth, parts)))


def overhead(where: dict[str, Executor], chunks: int, repeats: int) -> None:
    """Chunks of one row and next to no work: what is left is handing out and fetching."""
    net = torch.nn.Linear(4, 2)
    data = du.Dataset(torch.rand(chunks, 4, generator=torch.Generator().manual_seed(0)),
                      torch.zeros(chunks))  # fmt: skip
    work = Job(net, data, du.Linf(0.01), du.Untargeted(), du.FGSM(), 0, 1, du.Budget())
    work.prepare()
    print(f"\n{chunks} chunks of one row, one step each, best of {repeats}:")
    alone = 0.0
    for name, executor in where.items():
        rest = min(timed(executor, work)[1] for _ in range(repeats))
        each = 1000 * rest / (chunks - 1)
        alone = alone or each
        print(f"{name:<16}{each:>8.2f} ms per chunk ({each - alone:+.2f} against in-process)")


def writing(rows: int, repeats: int) -> None:
    print("\ndurable writing (file and folder synced, then the index):")
    for size in (256, 4096):
        part = Chunk(Records.of(size, np.random.default_rng(0).random((size, 63))), {})
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder))
            best = 0.0
            with store.held(du.Spec(chunks=1), resume=False):
                for _ in range(repeats):
                    start = time.perf_counter()
                    for k in range(max(1, rows // size)):
                        store.write(k, part)
                    spent = time.perf_counter() - start
                    best = max(best, max(1, rows // size) * size / spent)
        print(f"chunks of {size:>5} rows x 63 features: {best:>9,.0f} records/s")


def large(rows: int) -> int:
    """A whole run with store, report and page; the most memory it ever had."""
    net, start, spent = url_net(), time.perf_counter(), time.process_time()
    data = phishing(rows)
    made = time.process_time() - spent
    with tempfile.TemporaryDirectory() as folder:
        space = data.schema.space(eps=0.2, p=2)
        report = du.evaluate(net, data, space=space, attack=du.CAPGD(5), batch=1024,
                             run=du.Run(folder))  # fmt: skip
        report.save(folder)
        size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
        page = (Path(folder) / "report.html").stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"\n{rows:,} rows of phishing data with noise, CAPGD(5), kept in a folder: robust "
        f"{report.metric('robust')}, left out {(report.table['skipped'] != '').sum()}; "
        f"{time.process_time() - spent:.0f} CPU-s ({made:.0f} of them to make the data), "
        f"{time.perf_counter() - start:.0f} s; peak memory {peak:.2f} GB; folder "
        f"{size / 1e6:.0f} MB, page {page / 1e3:.0f} kB"
    )
    return int(peak > 2.0)


def growth(rows: int) -> int:
    """A cheap model on `rows` x 60: what evaluation, text and page cost, and the most memory."""
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Linear(60, 2)
    net.weight.data, net.bias.data = torch.randn(2, 60, generator=g), torch.zeros(2)
    x = torch.rand(rows, 60, generator=g)
    data = du.Dataset(x, net(x).argmax(1).detach())
    spent = [time.process_time()]
    report = du.evaluate(
        net, data, space=du.Linf(0.05), attack=du.FGSM(), batch=4096, progress=False
    )
    spent.append(time.process_time())
    str(report)
    spent.append(time.process_time())
    with tempfile.TemporaryDirectory() as folder:
        report.save(folder)
    spent.append(time.process_time())
    played, said, saved = np.diff(spent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(
        f"{rows:,} rows x 60: evaluate {played:.1f}, text {said:.1f}, folder and page {saved:.1f} "
        f"CPU-s; peak memory {peak:.2f} GB"
    )
    return int(peak > 2.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="toy sizes, without Ray")
    parser.add_argument("--large", action="store_true", help="only the run of 100,000 rows")
    parser.add_argument("--growth", action="store_true", help="only a cheap model on many rows")
    parser.add_argument("--rows", type=int, default=100_000, help="of the large run, or the growth")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.growth:
        return growth(given.rows)
    if given.large:
        return large(given.rows)
    where = places(with_ray=not given.smoke)
    small = given.smoke
    speed(where, *((120, 30, 1) if small else (6000, 250, 3)))
    overhead(where, *((10, 1) if small else (300, 3)))
    writing(*((512, 1) if small else (20_000, 3)))
    return large(500) if small else 0


if __name__ == "__main__":
    sys.exit(main())
