"""A Ray that is silent, or whose calls never return: a stub in its place, the driver as it is."""

from __future__ import annotations

import logging
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import durometer as du
from durometer.run import on_ray
from durometer.run.job import Job
from durometer.run.timeouts import TimedCalls, TimedOut

TESTS = Path(__file__).parent


class Stub(types.ModuleType):
    """Plays a chunk when it is waited for; `hangs` names calls that never return."""

    def __init__(self, *hangs: str, silent: bool = False, processors: int = 2) -> None:
        super().__init__("ray")
        self.hangs, self.silent, self.processors = hangs, silent, processors
        self.exceptions = types.SimpleNamespace(RayTaskError=LookupError, RayError=IndexError)
        self.up, self.given, self.calls = False, {}, list[str]()

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self.hangs:
            threading.Event().wait(600)

    def is_initialized(self) -> bool:
        return self.up

    def init(self, **options: Any) -> None:
        self._called("init")
        self.up = True

    def shutdown(self) -> None:
        self._called("shutdown")
        self.up = False

    def put(self, value: Any) -> Any:
        self._called("put")
        return value

    def remote(self, **options: Any) -> Callable[[Any], Any]:
        def made(function: Any) -> Any:
            def give(*args: Any) -> int:
                self._called("remote")
                self.given[len(self.given)] = args
                return len(self.given) - 1

            return types.SimpleNamespace(remote=give)

        return made

    def wait(self, some: list[int], num_returns: int, timeout: float) -> tuple[list[int], Any]:
        self._called("wait")
        if self.silent:
            time.sleep(timeout)
            return [], some
        return some[:1], some[1:]

    def get(self, reference: Any) -> Any:
        self._called("get")
        if not isinstance(reference, int):
            return reference  # the job
        shared, name, k = self.given[reference]
        return on_ray._play_remote(shared, name, k)

    def cluster_resources(self) -> dict[str, float]:
        self._called("cluster_resources")
        return {"CPU": self.processors} if self.processors else {}

    def nodes(self) -> list[dict[str, Any]]:
        self._called("nodes")
        return [{"Alive": True}]

    def cancel(self, reference: Any, force: bool) -> None:
        self._called("cancel")


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TESTS))
    short = {"CONNECT": 0.5, "SILENCE": 0.3, "ANSWER": 0.2, "POLL": 0.05, "ALONE": 0.01}
    for name, seconds in short.items():
        monkeypatch.setattr(on_ray, name, seconds)


def played(
    stub: Stub, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str = "auto"
) -> tuple[du.Report, str]:
    from job_for_tests import job

    monkeypatch.setitem(sys.modules, "ray", stub)
    net, data, how = job()
    report = du.evaluate(net, data, **how, run=du.Run(folder, resume=True, ray=where))
    whole = du.evaluate(net, data, **how)
    for name in ("id", "success", "distance", "forwards", "final"):
        np.testing.assert_array_equal(report.records.columns[name], whole.records.columns[name])
    return report, (folder / "log.txt").read_text()


def test_a_cluster_that_answers_plays_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = Stub()
    _, log = played(stub, tmp_path, monkeypatch)
    assert "played here" not in log and len(stub.given) == 10
    assert stub.calls.count("init") == stub.calls.count("shutdown") == 1


def test_a_cluster_that_gives_nothing_back_is_named_and_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = Stub(silent=True)
    _, log = played(stub, tmp_path, monkeypatch)
    assert log.count("is played here") == 10
    assert "no chunk came back from Ray for 0 s (1 nodes, 2 processors" in log
    assert stub.calls.count("cancel") == 4  # what it was given is called off


@pytest.mark.parametrize("call", ["wait", "get", "remote", "cluster_resources"])
def test_calls_that_never_return_are_not_waited_for(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    _, log = played(Stub(call), tmp_path, monkeypatch)
    assert log.count("it does not answer: chunk") == 10 and time.monotonic() - began < 30


@pytest.mark.parametrize("call", ["cancel", "shutdown"])
def test_an_end_that_hangs_loses_nothing(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = Stub(call, silent=call == "cancel")
    report, log = played(stub, tmp_path, monkeypatch)
    assert len(report.records) == 120 and "TimedOut" in log


@pytest.mark.parametrize("call", ["init", "put"])
def test_a_cluster_that_cannot_be_reached_is_a_sentence(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        du.DurometerError, match=r"at 'auto' does not answer .* resume without --ray"
    ):
        played(Stub(call), tmp_path, monkeypatch)
    played(Stub(), tmp_path, monkeypatch)  # and is resumed where it answers


def test_a_driver_plays_while_its_own_cluster_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the end; what it has played is in the folder, and not given to the cluster."""

    class Starts(Stub):
        def init(self, **options: Any) -> None:
            until = time.monotonic() + 60
            while len(list((tmp_path / "chunks").glob("*.npz"))) < 3 and time.monotonic() < until:
                time.sleep(0.001)
            super().init(**options)

    monkeypatch.setattr(on_ray, "CONNECT", 60.0)
    monkeypatch.setattr("durometer.run.job.Job.play_at_once", _slowly(Job.play_at_once))
    stub = Starts()
    played(stub, tmp_path, monkeypatch, "local")
    given = [args[2] for args in stub.given.values()]
    assert given == [(k,) for k in range(len(given))] and 1 <= len(given) <= 7
    assert stub.calls.count("init") == stub.calls.count("shutdown") == 1


def test_on_a_small_machine_the_driver_goes_on_playing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of one worker: each would import torch first."""

    class Waits(Stub):  # gives something back only after the driver has played three more
        def init(self, **options: Any) -> None:
            self.options = options
            super().init(**options)

        def wait(self, some: list[int], num_returns: int, timeout: float) -> tuple[list[int], Any]:
            if len(list((tmp_path / "chunks").glob("*.npz"))) < 5:
                return [], some
            return super().wait(some, num_returns, timeout)

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(on_ray, "SILENCE", 1.0)  # a turn of the driver's own is no silence
    monkeypatch.setattr("durometer.run.job.Job.play_at_once", _slowly(Job.play_at_once, 0.3))
    stub = Waits(processors=1)
    _, log = played(stub, tmp_path, monkeypatch, "local")
    given = [args[2] for args in stub.given.values()]
    assert stub.options["num_cpus"] == 1 and "is played here" not in log
    assert given == [(k,) for k in range(len(given))] and 2 <= len(given) <= 5


def test_on_a_large_machine_it_hands_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 32)
    stub = Stub(processors=32)
    monkeypatch.setattr(on_ray, "_meanwhile", lambda *_: iter(()))
    played(stub, tmp_path, monkeypatch, "local")
    assert len(stub.given) == 10


def _slowly(play: Any, seconds: float = 0.05) -> Any:
    def made(self: Job, chunks: Any) -> Any:
        time.sleep(seconds)
        return play(self, chunks)

    return made


def test_a_run_that_ends_before_its_cluster_has_started_lets_it_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Stub):
        def init(self, **options: Any) -> None:
            until = time.monotonic() + 60
            while len(list((tmp_path / "chunks").glob("*.npz"))) < 10 and time.monotonic() < until:
                time.sleep(0.001)
            super().init(**options)

    monkeypatch.setattr(on_ray, "CONNECT", 60.0)
    monkeypatch.setattr(on_ray, "ANSWER", 60.0)
    stub = Slow()
    played(stub, tmp_path, monkeypatch, "local")
    assert not stub.up and stub.calls == ["init", "shutdown"]


def test_an_error_of_the_model_while_the_cluster_starts_lets_it_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: Job, chunks: Any) -> Any:
        raise ZeroDivisionError("the model's own")

    monkeypatch.setattr("durometer.run.job.Job.play_at_once", breaks)
    monkeypatch.setattr(on_ray, "ANSWER", 60.0)
    stub = Stub()
    stub.init = lambda **options: time.sleep(0.2) or Stub.init(stub)  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError, match="the model's own"):
        played(stub, tmp_path, monkeypatch, "local")
    assert stub.calls == ["init", "shutdown"] and not stub.up


def test_a_cluster_without_a_processor_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(du.DurometerError, match="1 nodes, none of them with a processor"):
        played(Stub(silent=True, processors=0), tmp_path, monkeypatch)


def test_a_late_chunk_is_given_out_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Chunk 9 never comes back the first time; with peers to compare with, nobody waits for it."""
    caplog.set_level(logging.WARNING, "durometer.run")
    monkeypatch.setattr(on_ray, "SILENCE", 60.0)
    monkeypatch.setattr("durometer.run.watch.Watch.patience", property(
        lambda watch: 0.3 if len(watch.took) >= 8 else None))  # fmt: skip

    class Loses(Stub):
        def wait(self, some: list[int], num_returns: int, timeout: float) -> Any:
            lost = [r for r, args in self.given.items() if args[2] == (9,)][:1]
            some = [r for r in some if r not in lost]
            time.sleep(0 if some else timeout)
            return some[:1], []

    stub = Loses()
    _, log = played(stub, tmp_path, monkeypatch)
    assert "chunk 9 takes more than" in log and "chunk 9 is given out once more" in log
    assert [args[2] for args in stub.given.values()].count((9,)) == 2 and "played here" not in log


def test_a_call_goes_on_and_what_it_gives_late_is_dropped() -> None:
    ask, free = TimedCalls(), threading.Event()
    with pytest.raises(TimedOut):
        ask(0.05, lambda: free.wait(60))
    with pytest.raises(TimedOut):
        ask(0.05, lambda: 3)
    free.set()
    assert ask(5, lambda: 4) == 4
    with pytest.raises(ZeroDivisionError):
        ask(5, lambda: 1 // 0)
