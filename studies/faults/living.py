"""Faults of living processes: killed at random moments, two at once, no memory, a worker hangs."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import torch
from play import CHUNKS, job, play, run_of, same

import durometer as du
from durometer.run import watch


def started(
    folder: Path, workers: int, chunks: int, force: bool = False, executor: str = ""
) -> int:
    """A process that plays the run; its id."""
    where = executor or ("processes" if workers > 1 else "here")
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        code = 1
        try:
            play(folder, where, chunks, force=force)
            code = 0
        except du.DurometerError as error:
            code = 2 if "another process is writing" in str(error) else 1
            if code == 1:
                traceback.print_exc()
        except Exception:
            traceback.print_exc()
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
    with tempfile.TemporaryDirectory(prefix="durometer-faults-") as scratch:
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


def workers_of(driver: int) -> list[int]:
    """The processes below a driver that play: spawned workers, or Ray's."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
            names[int(entry.name)] = (entry / "cmdline").read_text()
        except (OSError, ValueError):
            continue

    def below(pid: int) -> bool:
        while pid > 1:
            pid = parents.get(pid, 0)
            if pid == driver:
                return True
        return False

    playing = ("spawn_main", "ray::")
    return [p for p in parents if below(p) and any(n in names[p] for n in playing)]


def struck(runs: int, executor: str, rng: random.Random) -> tuple[str, list[str]]:
    """A worker of a living run is killed or stopped at a random moment; the run must not care."""
    problems: list[str] = []
    fired = {signal.SIGKILL: 0, signal.SIGSTOP: 0}
    chunks = 12
    with tempfile.TemporaryDirectory(prefix="durometer-faults-") as scratch:
        whole = play(Path(scratch) / "whole", chunks=chunks)
        start = time.monotonic()
        # In a process of its own: what is forked after Ray was here falls over Ray's threads.
        os.waitpid(started(Path(scratch) / "warm", 2, chunks, executor=executor), 0)
        length = time.monotonic() - start
        for run in range(runs):
            folder = Path(scratch) / f"run{run}"
            driver = started(folder, 2, chunks, executor=executor)
            found: list[int] = []
            until = time.monotonic() + length
            while not found and time.monotonic() < until:
                time.sleep(0.01)
                found = workers_of(driver)
            time.sleep(rng.uniform(0, 0.8 * length))
            found = workers_of(driver)
            if found:
                kind = rng.choice([signal.SIGKILL, signal.SIGSTOP])
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(found), kind)
                    fired[kind] += 1
            if not ended(driver, 180):
                problems.append(f"run {run}: the driver hung")
            try:
                problems += [f"run {run}: {t}" for t in same(whole, play(folder, chunks=chunks))]
            except Exception as error:
                problems.append(f"run {run}: {type(error).__name__}: {error}")
    said = f"{runs} runs on {executor}: {fired[signal.SIGKILL]} workers killed"
    return f"{said}, {fired[signal.SIGSTOP]} stopped", problems


def in_pairs(pairs: int, rng: random.Random) -> list[str]:
    """Two processes on one folder, the second (also with --force) at a random moment."""
    problems = []
    with tempfile.TemporaryDirectory(prefix="durometer-faults-") as scratch:
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


def without_memory(runs: int, rng: random.Random) -> tuple[str, list[str]]:
    """A limit of the address space a little above what is in use, and then resumed without."""
    problems: list[str] = []
    ended_as = {0: 0, 1: 0, 2: 0}
    with tempfile.TemporaryDirectory(prefix="durometer-faults-") as scratch:
        whole = play(Path(scratch) / "whole")
        for run in range(runs):
            folder, extra = Path(scratch) / f"run{run}", int(rng.uniform(0, 4e7))
            child = os.fork()
            if child == 0:
                os._exit(_limited(folder, extra))
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            ended_as[code if code >= 0 else 2] += 1
            if code == 1:
                problems.append(f"run {run}: a raw error with {extra} bytes more")
            try:
                problems += [f"run {run}: {t}" for t in same(whole, play(folder))]
            except Exception as error:
                problems.append(f"run {run}: {type(error).__name__}: {error}")
    said = f"{runs} runs short of memory: {ended_as[0]} finished or ended in a sentence"
    return f"{said}, {ended_as[2]} were ended by a library or the system", problems


def _limited(folder: Path, extra: int) -> int:
    """0: finished, or refused in a sentence; 1: a raw error; 2: no memory even to say so."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        play(folder)
    except du.DurometerError:
        return 0
    except MemoryError:
        return 2
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1)) if os.geteuid() == 0 else None
        print(f"{type(error).__name__}: {error}", flush=True)
        return 1
    return 0


class HangsOnce(torch.nn.Module):
    """Hangs the first time it is asked about a row elsewhere than where it was made."""

    def __init__(self, net: torch.nn.Module, flag: Path, row: torch.Tensor) -> None:
        super().__init__()
        self.net, self.flag, self.home = net, str(flag), os.getpid()
        self.register_buffer("row", row)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # As many rows as a chunk has: the model is also looked at with a few of them.
        if os.getpid() != self.home and len(x) == 16 and torch.equal(x[0], self.row):
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                time.sleep(600)
        out: torch.Tensor = self.net(x)
        return out


def hanging(executor: str) -> tuple[str, list[str]]:
    """The worker with the last chunk hangs: it is named, and another one plays the chunk."""
    chunks, problems = 8, []
    with tempfile.TemporaryDirectory(prefix="durometer-faults-") as scratch:
        folder = Path(scratch) / "run"
        net, data, how = job(chunks)
        whole = du.evaluate(net, data, **how)
        model = HangsOnce(net, Path(scratch) / "hung", data.x[16 * (chunks - 1)])
        made = watch.Watch.__init__

        def hasty(self: Any, *args: Any, **more: Any) -> None:
            made(self, *args, **{"factor": 20, "least": 2.0, **more})

        watch.Watch.__init__ = hasty  # type: ignore[method-assign]
        try:
            report = du.evaluate(model, data, **how, run=run_of(folder, executor), progress=False)
            problems += same(whole, report)
        finally:
            watch.Watch.__init__ = made  # type: ignore[method-assign]
        log = (folder / "log.txt").read_text()
        if not (Path(scratch) / "hung").exists():
            problems.append("nobody hung")
        for text in (f"chunk {chunks - 1} takes more than", f"chunk {chunks - 1} is given"):
            if text not in log:
                problems.append(f"the log does not say '{text}'")
    return f"a hanging worker, on {executor}", problems
