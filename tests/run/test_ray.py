"""On a real Ray cluster: two nodes on this machine, one worker killed, one node killed."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import durometer as du
from durometer.core.records import FIELDS, TIMES
from durometer.run.store import Store

TESTS = Path(__file__).parent
pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    here = str(TESTS)
    settings = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_enable_metrics_collection": "0",
        "RAY_worker_niceness": "0",  # at 15, its default, a busy machine starves the workers
        "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        patch.syspath_prepend(here)
        from ray.cluster_utils import Cluster

        size = {"num_cpus": 1, "object_store_memory": 100_000_000}
        made = Cluster(initialize_head=True, head_node_args=size | {"include_dashboard": False})
        made.add_node(**size)
        yield made
        import ray

        ray.shutdown()
        made.shutdown()


def evaluation(*further: torch.nn.Module, pause: float = 0.0) -> tuple[Any, Any, dict[str, Any]]:
    from job_for_tests import job

    net, data, how = job(pause)
    return torch.nn.Sequential(net, *further), data, how


def same(a: du.Report, b: du.Report) -> None:
    for name in FIELDS:
        if name not in TIMES:
            np.testing.assert_array_equal(a.records.columns[name], b.records.columns[name], name)
    assert a.adversarial is not None and b.adversarial is not None
    assert (a.adversarial == b.adversarial).all()


def test_the_same_records_as_here(cluster: Any, tmp_path: Path) -> None:
    net, data, how = evaluation()
    same(
        du.evaluate(net, data, **how),
        du.evaluate(net, data, **how, run=du.Run(tmp_path, ray=cluster.address)),
    )
    import ray

    assert not ray.is_initialized()  # what we connected to is let go
    assert cluster.list_all_nodes()  # and goes on


def test_a_killed_worker_is_replaced(cluster: Any, tmp_path: Path) -> None:
    from job_for_tests import Witness

    net, data, how = evaluation()
    whole = du.evaluate(net, data, **how)
    net, data, how = evaluation(Witness(tmp_path, kills=True))
    (tmp_path / "killed").touch()  # the driver looks at the model too, and must live
    job = _job(net, data, how)
    job.prepare()
    (tmp_path / "killed").unlink()
    parts = dict(du.Run(ray=cluster.address).executor.map(job, range(job.count)))
    assert (tmp_path / "killed").exists()
    assert sorted(parts) == list(range(10))
    for name in ("id", "success", "distance", "forwards"):
        joined = np.concatenate([parts[k].records.columns[name] for k in range(10)])
        np.testing.assert_array_equal(joined, whole.records.columns[name])


def _job(net: Any, data: du.Dataset, how: dict[str, Any]) -> Any:
    from durometer.run.job import Job

    return Job(net, data, how["space"], du.Untargeted(), how["attack"], 0, how["batch"],
               du.Budget())  # fmt: skip


def test_an_error_of_the_model_is_said_as_it_is(cluster: Any) -> None:
    from job_for_tests import Breaks

    net, data, how = evaluation(Breaks(os.getpid()))
    with pytest.raises(du.DurometerError, match="not where it was made") as said:
        du.evaluate(net, data, **how, run=du.Run(ray=cluster.address))
    assert "ray::" not in str(said.value)


def test_stops_early_and_leaves_the_cluster_idle(cluster: Any) -> None:
    net, data, how = evaluation()
    report = du.evaluate(net, data, **how, run=du.Run(ray=cluster.address, until=0.2))
    assert len(report.records) < len(data)


def test_workers_read_their_own_row_groups(cluster: Any, tmp_path: Path) -> None:
    from job_for_tests import Counted

    net, data, how = evaluation()
    (tmp_path / "data").mkdir()
    frame = pd.DataFrame(data.x.numpy(), columns=[f"f{i}" for i in range(8)])
    frame["y"] = data.y.numpy()
    frame.to_parquet(tmp_path / "data" / "d.parquet", row_group_size=24, index=False)
    files = Counted(tmp_path / "data", target="y")
    run = du.Run(tmp_path / "run", ray=cluster.address)
    whole = du.evaluate(net, du.Dataset(frame, target="y"), **how)
    same(whole, du.evaluate(net, files, **how, run=run))
    read = {p.name: p.read_text().splitlines() for p in tmp_path.glob("read-by-*")}
    assert f"read-by-{os.getpid()}" not in read
    assert sorted(line for lines in read.values() for line in lines) == [
        f"d.parquet:{group} 24" for group in range(5)
    ]


def test_an_error_that_cannot_be_sent_is_told_in_words(cluster: Any) -> None:
    from job_for_tests import Breaks

    net, data, how = evaluation(Breaks(os.getpid(), odd=True))
    job = _job(net, data, how)
    job.prepare()
    with pytest.raises(RuntimeError, match="TwoThings in a worker process: not where: it was made"):
        list(du.Run(ray=cluster.address).executor.map(job, range(2)))


def test_a_killed_node_is_done_without(cluster: Any, tmp_path: Path) -> None:
    from job_for_tests import Witness

    net, data, how = evaluation()
    whole = du.evaluate(net, data, **how)
    marks = tmp_path / "marks"
    marks.mkdir()
    net, data, how = evaluation(Witness(marks), pause=0.03)
    second = cluster.worker_nodes.copy().pop()
    seen: list[int] = []

    def kill() -> None:
        # Both nodes have begun and something is stored: then the second one goes, hard.
        until = time.monotonic() + 90
        while time.monotonic() < until:
            done = len(list((tmp_path / "run" / "chunks").glob("*.npz")))
            nodes = {p.name for p in marks.glob("node-*")} - {f"node-{os.getppid()}"}
            if done >= 2 and len(nodes) == 2:
                seen.append(done)
                cluster.remove_node(second, allow_graceful=False)
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    run = du.Run(tmp_path / "run", ray=cluster.address)
    report = du.evaluate(net, data, **how, run=run)
    killer.join()
    assert seen and seen[0] < 10, "the node was to be killed in the middle of the run"
    same(whole, report)
    assert sorted(Store(tmp_path / "run").done()) == list(range(10))


def test_no_cluster_is_said_in_a_sentence() -> None:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    net, data, how = evaluation()
    with pytest.raises(du.DurometerError, match="no Ray cluster at '127.0.0.1:9'"):
        du.evaluate(net, data, **how, run=du.Run(ray="127.0.0.1:9"))


def test_a_killed_driver_is_resumed_on_ray(cluster: Any, tmp_path: Path) -> None:
    """The driver is killed with chunks under way; the next one must not wait for its ghost."""
    import signal
    import subprocess

    net, data, how = evaluation()
    whole = du.evaluate(net, data, **how)
    code = (
        "import sys, torch; sys.path.insert(0, sys.argv[1])\n"
        "import durometer as du\nfrom job_for_tests import job\n"
        "net, data, how = job(0.05)\n"
        "net = torch.nn.Sequential(net)\n"
        "du.evaluate(net, data, **how, run=du.Run(sys.argv[2], ray=sys.argv[3]))\n"
    )
    words = [sys.executable, "-c", code, str(TESTS), str(tmp_path / "run"), cluster.address]
    driver = subprocess.Popen(words)
    until = time.monotonic() + 180
    while time.monotonic() < until and driver.poll() is None:
        if len(list((tmp_path / "run" / "chunks").glob("*.npz"))) >= 2:
            driver.send_signal(signal.SIGKILL)
            break
        time.sleep(0.02)
    assert driver.wait() == -9, "the driver was to be killed in the middle of the run"
    before = len(Store(tmp_path / "run").done())
    assert 1 <= before < 10  # the second may have been killed before the index knew it
    run = du.Run(tmp_path / "run", ray=cluster.address, resume=True)
    began = time.monotonic()
    same(whole, du.evaluate(net, data, **how, run=run))
    assert time.monotonic() - began < 150
    assert sorted(Store(tmp_path / "run").done()) == list(range(10))


def _hold(seconds: float) -> None:
    time.sleep(seconds)


def test_a_cluster_that_does_nothing_is_not_waited_for(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All processors are taken by somebody else for ever: the driver plays the chunks itself."""
    import ray

    monkeypatch.setattr("durometer.run.on_ray.SILENCE", 1.0)
    net, data, how = evaluation()
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        held = [
            ray.remote(num_cpus=1)(_hold).remote(600)
            for _ in range(int(ray.cluster_resources()["CPU"]))
        ]
        ray.wait(held, timeout=10)
        report = du.evaluate(net, data, **how, run=du.Run(tmp_path, ray=cluster.address))
        for task in held:
            ray.cancel(task, force=True)
    finally:
        ray.shutdown()
    assert len(report.records) == len(data)
    assert "is played here" in (tmp_path / "log.txt").read_text()
