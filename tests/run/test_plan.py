"""The plan does not move: the same bits by one process, workers, shards and resumed runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.records import TIMES
from durometer.run.executors import Here
from durometer.run.job import Job
from durometer.run.merge import merge
from durometer.run.processes import Processes
from durometer.run.run import Run
from durometer.run.store import Store

ROWS = 4100  # 17 chunks of 256, two of them a turn
TESTS = Path(__file__).parent


def asked() -> tuple[torch.nn.Module, du.Dataset, dict[str, Any]]:
    """A network whose last digits depend on the width of a batch."""
    g = torch.Generator().manual_seed(0)
    sizes = (23, 67, 45, 7)
    layers: list[torch.nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
        layers[-2].weight.data = torch.randn(b, a, generator=g) / a**0.5  # type: ignore[union-attr]
        layers[-2].bias.data.zero_()  # type: ignore[union-attr, operator]
    net = torch.nn.Sequential(*layers[:-1])
    x = torch.rand(ROWS, sizes[0], generator=g)
    data = du.Dataset(x, net(x).argmax(1).detach())
    return net, data, {"space": du.Linf(0.03), "attack": du.APGD(6), "progress": False}


def bits(report: du.Report) -> dict[str, bytes]:
    """Everything that a row says, to the last digit, in the order of ids."""
    order = np.argsort(report.records.columns["id"])
    columns = {k: v for k, v in report.records.columns.items() if k not in TIMES}
    found = {k: repr(v[order].tolist()).encode() for k, v in columns.items()}
    assert report.adversarial is not None
    return found | {"adversarial": np.asarray(report.adversarial)[order].tobytes()}


def same(a: du.Report, b: du.Report) -> None:
    mine, theirs = bits(a), bits(b)
    assert [k for k in mine if mine[k] != theirs[k]] == []


@pytest.fixture(scope="module")
def whole() -> du.Report:
    net, data, how = asked()
    report = du.evaluate(net, data, **how)
    assert report.spec.turn == 2 and report.spec.chunks == 17
    return report


def test_two_workers_give_the_same_bits(whole: du.Report) -> None:
    net, data, how = asked()
    same(whole, du.evaluate(net, data, **how, run=Run(workers=2)))


def test_shards_give_the_same_bits(whole: du.Report, tmp_path: Path) -> None:
    net, data, how = asked()
    parts = [tmp_path / str(i) for i in range(3)]
    for i, part in enumerate(parts):
        du.evaluate(net, data, **how, run=Run(part, shard=(i + 1, 3)))
        assert Store(part).facts.unfinished is None
    same(whole, merge(parts, tmp_path / "all").report())


def test_a_run_that_was_cut_off_anywhere_gives_the_same_bits(
    whole: du.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the cut is inside a turn, and where a chunk of a turn was damaged."""
    net, data, how = asked()
    real = Here.map
    for cut in (1, 2, 7):

        def some(self: Here, job: Job, chunks: Any, cut: int = cut) -> Any:
            for number, one in enumerate(real(self, job, chunks)):
                if number == cut:
                    raise ConnectionResetError
                yield one

        folder = tmp_path / str(cut)
        with monkeypatch.context() as patch:
            patch.setattr(Here, "map", some)
            with pytest.raises(ConnectionResetError):
                du.evaluate(net, data, **how, run=Run(folder))
        assert len(Store(folder).done()) == cut
        (folder / "chunks" / "0.npz").write_bytes(b"damaged")
        same(whole, du.evaluate(net, data, **how, run=Run(folder, resume=True)))


def test_any_order_of_chunks_gives_the_same_bits(whole: du.Report) -> None:
    net, data, how = asked()
    attack, space = how["attack"], how["space"]
    job = Job(net, data, space, du.Untargeted(), attack, 0, 256, du.Budget(), True)
    job.prepare()
    parts = dict(Here().map(job, [16, 3, 8]))
    assert list(parts) == [16, 3, 8]
    parts[5] = job.play(5)
    for k, part in parts.items():
        mine = part.records.columns["margin"]
        theirs = whole.records.columns["margin"][256 * k : 256 * (k + 1)]
        assert mine.tolist() == theirs.tolist()


def test_turns_depend_on_the_question_alone(whole: du.Report) -> None:
    net, data, how = asked()
    sizes = {}
    for rows in (200, 2000, 4100, 40_000, 400_000):
        many = du.Dataset(data.x[:1].expand(rows, -1), data.y[:1].expand(rows))
        job = Job(net, many, how["space"], du.Untargeted(), how["attack"], 0, 256, widen=True)
        job.prepare()
        sizes[rows] = job.at_once
        turns = job.turns(range(job.count))
        assert [k for turn in turns.values() for k in turn] == list(range(job.count))
        assert job.turns([job.count - 1]).popitem() == turns.popitem()
        assert rows < 2000 or len(turns) >= 7  # a kill loses an eighth
    assert sizes == {200: 1, 2000: 1, 4100: 2, 40_000: 16, 400_000: 16}


def test_a_kept_run_writes_chunks_as_it_goes(tmp_path: Path) -> None:
    net, data, how = asked()
    seen = []

    class Looks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(len(list((tmp_path / "chunks").glob("*.npz"))))
            out: torch.Tensor = self.net(x)
            return out

    du.evaluate(Looks(), data, **how, run=Run(tmp_path))
    assert sorted(set(seen)) == [0, *range(2, 17, 2)]


# -- workers that are stopped


def _stop_one(folder: Path) -> int:
    """Wait until a worker has said that it plays, and stop it."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        found = [int(p.name.partition("-")[2]) for p in folder.glob("asked-*")]
        found = [pid for pid in found if pid != os.getpid()]
        if found:
            os.kill(found[0], signal.SIGSTOP)
            return found[0]
        time.sleep(0.05)
    raise AssertionError("no worker began")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_stopped_worker_does_not_hang_a_small_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from durometer.run import processes

    monkeypatch.syspath_prepend(str(TESTS))
    monkeypatch.setattr(processes, "STOPPED", 2.0)
    from job_for_tests import Notes, job

    _, data, how = job()
    work = Job(Notes(tmp_path), data, how["space"], du.Untargeted(), how["attack"], 0, 40)
    work.prepare()
    for file in tmp_path.glob("asked-*"):
        file.unlink()
    stopper = threading.Thread(target=_stop_one, args=(tmp_path,), daemon=True)
    stopper.start()
    found = dict(Processes(2).map(work, range(3)))
    assert sorted(found) == [0, 1, 2]


DRIVER = """
import sys, time, torch
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import durometer as du
from durometer.run.job import Job
from durometer.run.processes import Processes
from job_for_tests import Notes, job
_, data, how = job(0.2)
work = Job(Notes(Path(sys.argv[1])), data, how["space"], du.Untargeted(), how["attack"], 0, 1)
work.prepare()
list(Processes(2).map(work, range(120)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends them")
def test_a_stopped_worker_ends_with_its_driver(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path), str(TESTS)])
    try:
        until = time.monotonic() + 120
        pids: list[int] = []
        while time.monotonic() < until and not pids:
            named = [int(p.name.partition("-")[2]) for p in tmp_path.glob("asked-*")]
            pids = [pid for pid in named if pid != driver.pid]
            time.sleep(0.05)
        os.kill(pids[0], signal.SIGSTOP)
    finally:
        driver.kill()
        driver.wait()
    until = time.monotonic() + 20
    while time.monotonic() < until and Path(f"/proc/{pids[0]}").exists():
        time.sleep(0.1)
    state = Path(f"/proc/{pids[0]}/stat")
    alive = state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
    if alive:
        os.kill(pids[0], signal.SIGKILL)
    assert not alive
