"""Runs that survive: kill -9 at any moment, resume, shards, locks, full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core.records import FIELDS, TIMES, Records
from durometer.run.executors import Here
from durometer.run.job import Chunk
from durometer.run.merge import merge, report_of
from durometer.run.processes import Processes
from durometer.run.store import Store

TESTS = Path(__file__).parent


def small(pause: float = 0.0) -> tuple[torch.nn.Module, du.Dataset, dict[str, object]]:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from job_for_tests import job

    return job(pause)


def same(a: du.Report, b: du.Report) -> None:
    for name in FIELDS:
        if name in TIMES:
            continue
        x, y = a.records.columns[name], b.records.columns[name]
        if x.dtype.kind == "f":
            np.testing.assert_array_equal(x, y, err_msg=name)
        else:
            assert (x == y).all(), name
    assert a.adversarial is not None and b.adversarial is not None
    assert (a.adversarial == b.adversarial).all()


def test_stored_records_are_the_records(tmp_path: Path) -> None:
    net, data, how = small()
    plain = du.evaluate(net, data, **how)
    kept = du.evaluate(net, data, **how, run=du.Run(tmp_path / "run"))
    same(plain, kept)
    again = du.evaluate(net, data, **how, run=du.Run(tmp_path / "run", resume=True))
    same(plain, again)


def test_killed_at_random_moments_and_resumed() -> None:
    """A few runs of the fault study: it fails if a record differs, is lost or made twice."""
    study = TESTS.parents[1] / "studies" / "faults" / "run.py"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    for words in (["--random", "2"], ["--pairs", "2"], ["--every", "29"]):
        done = subprocess.run(
            [sys.executable, str(study), *words], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "; 0 problems" in done.stdout


def test_a_torn_chunk_is_not_believed(tmp_path: Path) -> None:
    net, data, how = small()
    whole = du.evaluate(net, data, **how, run=du.Run(tmp_path))
    store = Store(tmp_path)
    store.index.forget(3)
    (tmp_path / "chunks" / "3.npz").write_bytes(b"half a fil")
    (tmp_path / "chunks" / f"4.npz.{'0f' * 8}.tmp").write_bytes(b"left over")
    same(whole, du.evaluate(net, data, **how, run=du.Run(tmp_path, resume=True)))
    assert not list((tmp_path / "chunks").glob("*.tmp"))


def test_another_run_is_refused_with_the_difference(tmp_path: Path) -> None:
    net, data, how = small()
    du.evaluate(net, data, **how, run=du.Run(tmp_path))
    with pytest.raises(du.DurometerError, match="already holds a run"):
        du.evaluate(net, data, **how, run=du.Run(tmp_path))
    with pytest.raises(du.DurometerError, match=r"seed: 0 there, 1 now"):
        du.evaluate(net, data, **how, seed=1, run=du.Run(tmp_path, resume=True))
    with pytest.raises(du.DurometerError, match="data_hash"):
        du.evaluate(net, data.take(range(90)), **how, run=du.Run(tmp_path, resume=True))
    net[0].weight.data += 1  # type: ignore[index, union-attr, operator]
    with pytest.raises(du.DurometerError, match="model_hash"):
        du.evaluate(net, data, **how, run=du.Run(tmp_path, resume=True))


def test_shards_merge_to_exactly_the_whole(tmp_path: Path) -> None:
    net, data, how = small()
    whole = du.evaluate(net, data, **how)
    folders = [tmp_path / f"part{i}" for i in (1, 2, 3)]
    for i, folder in enumerate(folders, 1):
        du.evaluate(net, data, **how, run=du.Run(folder, shard=(i, 3)))
    with pytest.raises(du.DurometerError, match=r"3 of 10 chunks are in none"):
        merge(folders[:2], tmp_path / "gap")
    merge(folders, tmp_path / "whole")
    same(whole, du.evaluate(net, data, **how, run=du.Run(tmp_path / "whole", resume=True)))
    store = Store(tmp_path / "whole")
    joined = Records.concat(store.read(k) for k in store.done())
    assert (joined.columns["id"] == whole.records.columns["id"]).all()


def test_two_writers_are_kept_apart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with (
        store.held(du.Spec(data="a"), resume=False),
        pytest.raises(du.DurometerError, match="another process is writing"),
        store.held(du.Spec(data="a"), resume=True),
    ):
        pass


def test_an_unwritable_folder_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    net, data, how = small()
    with pytest.raises(du.DurometerError, match="cannot write to"):
        du.evaluate(net, data, **how, run=du.Run(tmp_path / "file" / "run"))


def test_a_full_disk_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    store = Store(tmp_path)
    with store.held(du.Spec(data="a"), resume=False):
        monkeypatch.setattr("durometer.run.store.np.savez", full)
        with pytest.raises(du.DurometerError, match="No space left on device"):
            store.write(0, Chunk(Records.of(2), {}))
        assert store.done() == {}


def test_processes_give_the_same_records() -> None:
    net, data, how = small()
    same(du.evaluate(net, data, **how), du.evaluate(net, data, **how, run=du.Run(workers=2)))


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    from durometer.run.job import Job

    net, data, how = small()
    job = Job(KillsOnce(net, str(tmp_path / "killed")), data, how["space"], du.Untargeted(),
              how["attack"], 0, 12, du.Budget())  # fmt: skip
    honest = Job(net, data, how["space"], du.Untargeted(), how["attack"], 0, 12, du.Budget())
    honest.prepare()
    got = dict(Processes(2).map(job, range(10)))
    assert (tmp_path / "killed").exists()
    expected = dict(Here().map(honest, range(10)))
    for k in range(10):
        assert (got[k].records.columns["success"] == expected[k].records.columns["success"]).all()


class KillsOnce(torch.nn.Module):
    """A model whose worker is killed the first time it sees a batch."""

    def __init__(self, net: torch.nn.Module, flag: str) -> None:
        super().__init__()
        self.net, self.flag = net, flag

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not os.path.exists(self.flag):
            open(self.flag, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        out: torch.Tensor = self.net(x)
        return out


def test_stops_when_narrow_enough() -> None:
    net, data, how = small()
    report = du.evaluate(net, data, **how, run=du.Run(until=0.15))
    e = report.metric("robust")
    assert len(report.records) < len(data)
    assert (e.high - e.low) / 2 <= 0.15
    assert "narrow-enough" in {f.id for f in report.flags}


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda: du.Run(workers=0), "workers=0"),
        (lambda: du.Run(shard=(4, 3)), "shard=4/3"),
        (lambda: du.Run(until=0.7), "until=0.7"),
        (lambda: du.Run(resume=True), "which run"),
        (lambda: du.Run(workers=2, ray="auto"), "not both"),
    ],
)
def test_settings_that_make_no_sense(run: Any, text: str) -> None:
    net, data, how = small()
    with pytest.raises(du.DurometerError, match=text):
        du.evaluate(net, data, **how, run=run())


def test_what_workers_cannot_load_is_said(tmp_path: Path) -> None:
    (tmp_path / "gone_for_workers.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    pass\n"
    )
    sys.path.insert(0, str(tmp_path))
    from gone_for_workers import Net  # type: ignore[import-not-found]

    sys.path.remove(str(tmp_path))
    _, data, how = small()
    with pytest.raises(du.DurometerError, match="cannot load the model"):
        du.evaluate(Net(8, 3), data, **how, run=du.Run(workers=2))


def test_runs_from_the_command_line(tmp_path: Path) -> None:
    """A run in two shards, merged, against the run in one piece; a second start is refused."""
    from typer.testing import CliRunner

    from durometer.cli.app import app

    file = tmp_path / "small.toml"
    file.write_text(
        f'batch = 12\n[data]\npath = "{tmp_path}/data.npz"\n'
        f'[model]\npython = "{TESTS}/job_for_tests.py:net"\n'
        '[space]\ntype = "Linf"\neps = 0.08\n[attack]\ntype = "APGD"\nsteps = 8\n'
    )
    _, data, _ = small()
    np.savez(tmp_path / "data.npz", x=data.x.numpy(), y=data.y.numpy())

    def durometer(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result.output

    durometer("run", str(file), "--out", str(tmp_path / "whole"))
    assert "already holds a run" in durometer(
        "run", str(file), "--out", str(tmp_path / "whole"), code=2
    )
    durometer("run", str(file), "--out", str(tmp_path / "whole"), "--resume")
    durometer("run", str(file), "--out", str(tmp_path / "whole"), "--force")
    wide = tmp_path / "wide.toml"
    wide.write_text(file.read_text().replace("eps = 0.08", "eps = 80"))
    durometer(
        "run", str(wide), "--out", str(tmp_path / "whole"), "--force", code=2
    )  # the run is kept
    for i in "12":
        durometer("run", str(file), "--out", str(tmp_path / i), "--shard", f"{i}/2")
    durometer("merge", str(tmp_path / "1"), str(tmp_path / "2"), "--out", str(tmp_path / "joined"))
    whole, joined = (du.Report.load(tmp_path / name) for name in ("whole", "joined"))
    same(whole, joined)
    assert whole.flags == joined.flags
    assert whole.examples is not None and joined.examples is not None
    for name in ("places", "clean", "adversarial", "changed"):
        a, b = getattr(whole.examples, name), getattr(joined.examples, name)
        assert (a == b).all(), name
    (tmp_path / "whole" / "records.parquet").unlink()  # as if it had not come to its end
    assert "not finished: 120 of 120 rows so far" in durometer("show", str(tmp_path / "whole"))
    assert "expected i/n" in durometer("run", str(file), "--shard", "x", code=2)


class Soft(torch.nn.Module):
    """Answers with probabilities, which is flagged before the first chunk."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).softmax(1)


def test_flags_of_the_model_are_kept_with_an_unfinished_run(tmp_path: Path) -> None:
    net, data, how = small()
    net, folders = Soft(net).eval(), [tmp_path / f"part{i}" for i in (1, 2)]
    for i, folder in enumerate(folders, 1):
        du.evaluate(net, data, **how, run=du.Run(folder, shard=(i, 2)))
    whole = du.evaluate(net, data, **how)
    assert "probabilities" in {f.id for f in whole.flags}
    assert "probabilities" in {f.id for f in Store(folders[0]).report().flags}
    assert report_of(folders, merge(folders, tmp_path / "whole")).flags == whole.flags


def test_a_replaced_run_leaves_no_records_behind(tmp_path: Path) -> None:
    net, data, how = small()
    further = (du.Untargeted(), du.Targeted(0))
    first = du.evaluate(net, data, **how, also=further, run=du.Run(tmp_path))
    first.save(tmp_path)
    assert list(du.Report.load(tmp_path).also) == ["untargeted", "targeted"]
    (tmp_path / "mine.txt").write_text("not the run's")
    Store(tmp_path).clear()
    left = sorted(p.name for p in tmp_path.rglob("*") if p.is_file())
    assert left == ["lock", "mine.txt"]
    again = du.evaluate(net, data, **how, also=further[:1], run=du.Run(tmp_path))
    again.save(tmp_path)
    assert list(du.Report.load(tmp_path).also) == ["untargeted"]


def test_a_report_saved_over_another_has_only_its_own_goals(tmp_path: Path) -> None:
    net, data, how = small()
    du.evaluate(net, data, **how, also=(du.Targeted(0),)).save(tmp_path)
    du.evaluate(net, data, **how).save(tmp_path)
    assert not du.Report.load(tmp_path).also


def test_more_shards_than_chunks(tmp_path: Path) -> None:
    net, data, how = small()
    with pytest.raises(du.DurometerError, match=r"shard=12/12.*10 chunks"):
        du.evaluate(net, data, **how, run=du.Run(tmp_path, shard=(12, 12)))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broke down")], ids=repr)
def test_what_is_done_survives_a_further_goal(error: BaseException) -> None:
    net, data, how = small()

    class Second(du.APGD):
        def __call__(self, problem: object) -> None:
            if problem.targets.sum(1).max() == 1:  # type: ignore[attr-defined]
                raise error
            super().__call__(problem)  # type: ignore[arg-type]

    how |= {"attack": Second(2), "also": (du.Targeted(0), du.Untargeted())}
    if isinstance(error, KeyboardInterrupt):
        report = du.evaluate(net, data, **how)
        assert report.flags[-1].id == "interrupted"
    else:
        with pytest.raises(RuntimeError) as caught:
            du.evaluate(net, data, **how)
        report = caught.value.partial  # type: ignore[attr-defined]
    assert report.spec.goal == {"type": "Untargeted"} and len(report.records) == len(data)
    assert not report.also


def test_a_merged_report_knows_the_columns_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = {"a": rng.random(24), "b": rng.random(24), "kind": ["x", "y", "z"] * 8}
    data = du.Dataset(frame | {"paid": np.arange(24) % 2}, target="paid", extra=["kind"])

    def net(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, 0], x[:, 1]], dim=1)

    asked = {"space": du.Linf(0.1), "attack": du.PGD(2), "batch": 4, "progress": False}
    whole = du.evaluate(net, data, **asked)
    parts = [tmp_path / "1", tmp_path / "2"]
    for i, part in enumerate(parts, 1):
        du.evaluate(net, data, run=du.Run(part, shard=(i, 2)), **asked).save(part)
    report = report_of(parts, merge(parts, tmp_path / "all"))
    report.save(tmp_path / "all")
    for found in (report, du.Report.load(tmp_path / "all")):
        assert repr(found.metric("robust", by="kind")) == repr(whole.metric("robust", by="kind"))
