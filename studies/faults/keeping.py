"""What it costs to keep a run, and how much work a kill loses.

    python studies/faults/keeping.py                              the cost, and 50 kills
    python studies/faults/keeping.py --job trees --rows 2000 --kills 10
    python studies/faults/keeping.py --smoke

The job is played kept and not kept, in turns, each in a process of its own; printed is the ratio of
processor seconds. Then one run is killed (SIGKILL) at random moments and resumed, again and again,
until it has been killed so often; what a kill loses is what the process had computed since it last
finished a chunk, in processor seconds. A run that ends is compared with the undisturbed one and
begun anew.

What a reader would get wrong: a turn is the least that can be kept. What is lost is bounded by the
plan (an eighth of the rows), not by a clock, so a job of an hour may lose minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from same_bits import JOBS, digests

TICK = os.sysconf("SC_CLK_TCK")


def play(name: str, rows: int, folder: Path | None) -> dict[str, Any]:
    """The job in this process; processor seconds of it, at each chunk that was kept."""
    import torch

    import durometer as du
    from durometer.run.store import Store

    torch.set_num_threads(1)
    job = JOBS[name](rows)
    write = Store.write
    if folder is not None:
        clock = folder.with_suffix(".clock")

        def noted(self: Store, k: int, part: Any) -> None:
            write(self, k, part)
            clock.write_text(str(time.process_time()))

        clock.write_text(str(time.process_time()))
        Store.write = noted  # type: ignore[method-assign]
    run = du.Run() if folder is None else du.Run(folder, resume=folder.exists())
    began = time.process_time()
    report = du.evaluate(job.pop("target"), job.pop("data"), **job, run=run, progress=False)
    return {"seconds": time.process_time() - began, "digests": digests(report),
            "turns": -(-report.spec.chunks // report.spec.turn)}  # fmt: skip


def child(*words: Any) -> subprocess.Popen[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    line = [sys.executable, __file__, "--play", *map(str, words)]
    return subprocess.Popen(line, env=env, stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    said, _ = process.communicate()
    if process.returncode:
        raise SystemExit("the job failed")
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def spent(pid: int) -> float:
    """Processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def cost(name: str, rows: int, repeats: int, scratch: Path) -> dict[str, Any]:
    """The job kept and not kept, turn about; the last kept one."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for k in range(repeats):
        for kept in (False, True):
            found = told(child(name, rows, scratch / f"cost{k}" if kept else "-"))
            times[kept].append(found["seconds"])
    ratio = statistics.median(times[True]) / statistics.median(times[False])
    print(f"{name}, {rows} rows, {found['turns']} turns: "
          f"{', '.join(f'{t:.1f}' for t in times[False])} CPU-s not kept, "
          f"{', '.join(f'{t:.1f}' for t in times[True])} kept; ratio of medians {ratio:.3f}",
          flush=True)  # fmt: skip
    return found


def killed(
    name: str, rows: int, kills: int, seconds: float, whole: list[str], scratch: Path
) -> tuple[list[float], int]:
    """What each kill lost; how many runs that went on to their end differ."""
    lost: list[float] = []
    different = begun = 0
    folder = scratch / "killed0"
    while len(lost) < kills:
        process = child(name, rows, folder)
        clock, until = folder.with_suffix(".clock"), None
        clock.unlink(missing_ok=True)
        while process.poll() is None:
            if clock.exists() and until is None:  # it has begun to play
                until = spent(process.pid) + random.uniform(0, seconds / 2)
            if until is not None and spent(process.pid) >= until:
                lost.append(spent(process.pid) - float(clock.read_text() or 0))
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(0.005)
        if process.returncode != -signal.SIGKILL:
            different += told(process)["digests"] != whole
            begun += 1
            folder = scratch / f"killed{begun}"
    while (process := child(name, rows, folder)) and told(process)["digests"] != whole:
        return lost, different + 1
    return lost, different


def main() -> int:
    """Both figures."""
    if sys.argv[1:2] == ["--play"]:
        name, rows, folder = sys.argv[2:]
        found = play(name, int(rows), None if folder == "-" else Path(folder))
        print(json.dumps(found))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--job", choices=list(JOBS), default="network")
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    if asked.smoke:
        asked.job, asked.rows, asked.repeats, asked.kills = "trees", 300, 1, 1
    random.seed(asked.seed)
    with tempfile.TemporaryDirectory(prefix="durometer-keeping-") as place:
        found = cost(asked.job, asked.rows, asked.repeats, Path(place))
        lost, different = killed(
            asked.job, asked.rows, asked.kills, found["seconds"], found["digests"], Path(place)
        )
    print(f"{len(lost)} kills: lost at most {max(lost):.1f} CPU-s, "
          f"median {statistics.median(lost):.1f}; {different} runs differ")  # fmt: skip
    return different


if __name__ == "__main__":
    sys.exit(main())
