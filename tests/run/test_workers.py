"""Workers that hang, and drivers that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import assay as ay
from assay.run.executors import Here
from assay.run.job import Job
from assay.run.processes import Processes
from assay.run.watch import Watch

TESTS = Path(__file__).parent


def test_a_chunk_far_behind_its_peers_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = Watch(least=10)
    for k in range(5):
        watch.begin(k)
    for k in range(4):
        now[0] += 2
        watch.end(k)
    assert watch.late() == []  # peers took 2, 4, 6, 8 seconds: median 5, patience 100
    now[0] = 101.0
    assert watch.late() == [4] and watch.late() == []
    assert "chunk 4" in caplog.text and "peers' median" in caplog.text


class HangsOnce(torch.nn.Module):
    """Hangs the first time it is asked in a worker, and never again."""

    def __init__(self, net: torch.nn.Module, flag: str, home: int) -> None:
        super().__init__()
        self.net, self.flag, self.home = net, flag, home

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) == 12 and os.getpid() != self.home and x[0, 0] == self.mark:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                time.sleep(600)
        out: torch.Tensor = self.net(x)
        return out


def test_a_hanging_worker_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TESTS))
    monkeypatch.setattr("assay.run.watch.LEAST", 0.5)
    monkeypatch.setattr(Watch, "__init__", _hasty(Watch.__init__))
    from job_for_tests import job

    net, data, how = job()
    model = HangsOnce(net, str(tmp_path / "hung"), os.getpid())
    model.mark = data.x[9 * 12, 0]  # the last chunk: the others are its peers
    asked = (data, how["space"], ay.Untargeted(), how["attack"], 0, 12, ay.Budget())
    began = time.monotonic()
    got = dict(Processes(2).map(Job(model, *asked), range(10)))
    assert (tmp_path / "hung").exists() and time.monotonic() - began < 300
    honest = Job(net, *asked)
    honest.prepare()
    for k, part in Here().map(honest, range(10)):
        np.testing.assert_array_equal(
            part.records.columns["distance"], got[k].records.columns["distance"]
        )


def _hasty(init):  # type: ignore[no-untyped-def]
    def made(self: Watch, *args: object, **more: object) -> None:
        init(self, *args, **{"factor": 3, "least": 1.0, **more})

    return made


def test_a_killed_driver_leaves_no_copy_of_the_model_behind(tmp_path: Path) -> None:
    """It kills itself when its first chunk is finished, while both workers have the job."""
    code = f"""
        import os, signal, sys
        sys.path.insert(0, {str(TESTS)!r})
        import assay as ay
        from job_for_tests import job
        if __name__ == "__main__":
            from assay.run.job import Job
            from assay.run.processes import Processes
            net, data, how = job()
            made = Job(net, data, how["space"], ay.Untargeted(), how["attack"], 0, 12, ay.Budget())
            for k, part in Processes(2).map(made, range(10)):
                os.kill(os.getpid(), signal.SIGKILL)
    """
    (tmp_path / "driver.py").write_text(textwrap.dedent(code))
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run([sys.executable, tmp_path / "driver.py"], env=env, timeout=300)
    assert done.returncode == -9
    left = [p for p in (tmp_path / "tmp").rglob("*") if p.is_file()]
    assert left == []
