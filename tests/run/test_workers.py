"""Workers that hang, and drivers that are killed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import durometer as du
from durometer.run import processes
from durometer.run.executors import Here
from durometer.run.job import Job
from durometer.run.processes import Processes
from durometer.run.watch import Watch

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
    # From the first answer on, after 2 seconds, peers took 2, 4 and 6: median 4, patience 80.
    assert watch.patience == 80 and watch.late() == []
    now[0] = 82.0
    assert watch.late() == []
    now[0] = 82.1
    assert watch.late() == [4] and watch.late() == []
    assert "chunk 4" in caplog.text and "peers' median" in caplog.text


def test_workers_that_take_a_minute_to_begin_are_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = Watch(least=10)
    for k in range(8):
        watch.begin(k)
    now[0] = 60.0  # a worker has begun to live, and plays a chunk in a tenth of a second
    for k in range(6):
        now[0] += 0.1
        watch.end(k)
    assert watch.patience == 10 and watch.late() == []


def test_a_worker_plays_several_chunks_at_once_where_one_process_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunk by chunk, two workers were slower than one process: 59 us a row against 10."""
    monkeypatch.syspath_prepend(str(TESTS))
    from job_for_tests import Notes, job

    _, data, how = job()
    asked = (data, how["space"], du.Untargeted(), how["attack"], 0, 3, du.Budget(), True)
    work = Job(Notes(tmp_path), *asked)
    work.prepare()
    alone = dict(Here().map(work, range(40)))
    (tmp_path / f"asked-{os.getpid()}").unlink()
    found = dict(Processes(2).map(work, range(40)))
    asked_for = " ".join(file.read_text() for file in tmp_path.glob("asked-*")).split()
    assert asked_for.count("15") >= 8  # 5 of 40 chunks, eight times
    assert sorted(found) == list(range(40))
    for k, part in found.items():
        for name in ("id", "success", "forwards", "final"):
            mine, theirs = (p.records.columns[name] for p in (alone[k], part))
            np.testing.assert_array_equal(mine, theirs)


def test_workers_are_started_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs seconds: what is still to be played is no reason to start new ones."""
    monkeypatch.syspath_prepend(str(TESTS))
    made: list[int] = []
    pool = processes.ProcessPoolExecutor

    def counted(*args: Any) -> Any:
        made.append(1)
        return pool(*args)

    monkeypatch.setattr(processes, "ProcessPoolExecutor", counted)
    from job_for_tests import job

    net, data, how = job()
    asked = (data, how["space"], du.Untargeted(), how["attack"], 0, 12, du.Budget())
    assert sorted(k for k, _ in Processes(2).map(Job(net, *asked), range(10))) == list(range(10))
    assert made == [1]


def test_a_hanging_worker_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(TESTS))
    monkeypatch.setattr("durometer.run.watch.LEAST", 0.5)
    monkeypatch.setattr(Watch, "__init__", _hasty(Watch.__init__))
    from job_for_tests import HangsOnce, job

    net, data, how = job()
    model = HangsOnce(net, str(tmp_path / "hung"), os.getpid())
    model.mark = data.x[9 * 12, 0]  # the last chunk: the others are its peers
    asked = (data, how["space"], du.Untargeted(), how["attack"], 0, 12, du.Budget())
    began = time.monotonic()
    got = dict(Processes(2).map(Job(model, *asked), range(10)))
    assert (tmp_path / "hung").exists() and time.monotonic() - began < 300
    assert "chunk 9 takes more than" in caplog.text and "chunk 9 is given to another" in caplog.text
    honest = Job(net, *asked)
    honest.prepare()
    for k, part in Here().map(honest, range(10)):
        np.testing.assert_array_equal(
            part.records.columns["distance"], got[k].records.columns["distance"]
        )


class TwoThings(Exception):
    """Pickled by what it says, which its own __init__ does not take."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


class Held(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (TwoThings("licence", "expired"), RuntimeError, "TwoThings in a worker .*licence: expired"),
        (Held("no more"), RuntimeError, "Held in a worker process: no more"),
        (ConnectionResetError(104, "reset by peer"), ConnectionResetError, "reset by peer"),
        (du.DurometerError("wrong"), du.DurometerError, "wrong"),
    ],
)
def test_an_error_that_cannot_be_sent_is_told_in_words(
    error: Exception, kind: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver would take it for a worker that died, and start four more."""

    def play(chunks: tuple[int, ...]) -> None:
        raise error

    monkeypatch.setattr(processes, "_job", types.SimpleNamespace(play_at_once=play))
    with pytest.raises(kind, match=said) as raised:
        processes._play((0,))
    sent = pickle.loads(pickle.dumps(raised.value))
    assert type(sent) is kind and str(sent) == str(raised.value)
    assert kind is not RuntimeError or "in play" in sent.__notes__[0]


def _hasty(init):  # type: ignore[no-untyped-def]
    def made(self: Watch, *args: object, **more: object) -> None:
        init(self, *args, **{"factor": 3, "least": 1.0, **more})

    return made


def test_a_killed_driver_leaves_no_copy_of_the_model_behind(tmp_path: Path) -> None:
    """It kills itself when its first chunk is finished, while both workers have the job."""
    code = f"""
        import os, signal, sys
        sys.path.insert(0, {str(TESTS)!r})
        import durometer as du
        from job_for_tests import job
        if __name__ == "__main__":
            from durometer.run.job import Job
            from durometer.run.processes import Processes
            net, data, how = job()
            made = Job(net, data, how["space"], du.Untargeted(), how["attack"], 0, 12, du.Budget())
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


def _script(folder: Path, code: str, **env: str) -> str:
    """What a script says; it has no `if __name__ == "__main__"`."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    path = os.pathsep.join([str(folder), str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, folder / "script.py"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": path, **env}, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_begin_at_the_same_time(tmp_path: Path) -> None:
    """With a job that does not fit into a pipe, the second began when the first had read it all.

    Here each waits, before its first import, until there is another one.
    """
    code = f"""
        import os, pathlib, sys, time
        folder = pathlib.Path({str(tmp_path)!r})
        if any("spawn_main" in word for word in sys.orig_argv):
            (folder / f"begun-{{os.getpid()}}").touch()
            until = time.monotonic() + 60
            while len(list(folder.glob("begun-*"))) < 2:
                time.sleep(0.01)
                if time.monotonic() > until:
                    os._exit(1)
    """
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(code))
    said = _script(tmp_path, """
        import torch
        import durometer as du
        from job_for_tests import job
        net, data, how = job()
        net.register_buffer("large", torch.zeros(100_000))
        print(len(du.evaluate(net, data, **how, run=du.Run(workers=2)).records))
    """)  # fmt: skip
    assert said.split() == ["120"] and len(list(tmp_path.glob("begun-*"))) == 2


def test_a_script_is_not_run_again_by_its_workers(tmp_path: Path) -> None:
    """Without `if __name__ == "__main__"` it ended after 40 s with "out of memory?"; and what a
    script imports costs each worker seconds."""
    said = _script(tmp_path, """
        import torch
        import durometer as du
        from job_for_tests import job
        print("begun")
        class Mine(torch.nn.Module):  # of the script: sent by value
            def forward(self, x):
                return x.flip(1)
        net, data, how = job()
        net = torch.nn.Sequential(net, Mine())
        alone = du.evaluate(net, data, **how)
        both = du.evaluate(net, data, **how, run=du.Run(workers=2))
        print((alone.records.columns["distance"] == both.records.columns["distance"]).sum(),
              (both.records.columns["success"]).sum(), __file__, __spec__)
    """)  # fmt: skip
    begun, equal, won, file, spec = said.split()
    assert begun == "begun" and int(won) > 0 and file.endswith("script.py") and spec == "None"
    assert int(equal) == int(won)  # a row that held out has no distance


def test_a_worker_makes_numbers_of_the_same_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TESTS))
    from job_for_tests import Doubts, job

    _, data, how = job()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        asked = (data, how["space"], du.Untargeted(), how["attack"], 0, 12, du.Budget())
        made = Job(Doubts(), *asked)
        made.prepare()
        alone = dict(Here().map(made, range(10)))
        both = dict(Processes(2).map(made, range(10)))
    finally:
        torch.set_default_dtype(before)
    for k, part in both.items():
        mine, theirs = (p.records.columns["margin"] for p in (alone[k], part))
        np.testing.assert_array_equal(mine, theirs)


def test_a_worker_does_not_import_what_few_jobs_need() -> None:
    """Each of these costs every worker up to a second; a job that needs one brings it along."""
    code = (
        "import sys, durometer.run.processes; print(*{m.partition('.')[0] for m in sys.modules}, "
    )
    code += "*(m for m in sys.modules if m.count('.') == 1))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(said.stdout.split())
    assert "torch" in found  # or nothing was listed
    assert not found & {"scipy.stats", "scipy.optimize", "pandas", "sklearn", "ray", "rich"}
