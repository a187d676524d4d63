"""Nothing lost, nothing mistaken: refused processes, other models, damaged files, broken runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import durometer as du
from durometer.core import durable_files
from durometer.core.records import TIMES
from durometer.run.repair import repair
from durometer.run.store import Store

TESTS = Path(__file__).parent


def small(pause: float = 0.0) -> tuple[torch.nn.Module, du.Dataset, dict[str, Any]]:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from job_for_tests import job

    return job(pause)


def stopped(model: Any, folder: Path, after: int = 4, **more: Any) -> None:
    """A run of `model` that a model error ends after so many chunks; the model itself is kept."""
    _, data, how = small()
    from durometer.run.executors import Here

    def some(self: Here, job: Any, chunks: Any) -> Any:
        for k in list(chunks)[:after]:
            yield k, job.play(k)
        raise ConnectionResetError(104, "Connection reset by peer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Here, "map", some)
        with pytest.raises(ConnectionResetError):
            du.evaluate(model, more.pop("data", data), **{**how, **more}, run=du.Run(folder))


def same(a: du.Report, b: du.Report) -> None:
    for name, column in a.records.columns.items():
        if name not in TIMES:
            np.testing.assert_array_equal(column, b.records.columns[name], name)
    np.testing.assert_array_equal(a.adversarial, b.adversarial)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("lock", "index.sqlite-shm")
    }


# -- the lock


@pytest.mark.parametrize("how", [{"force": True}, {"resume": True}, {}], ids=str)
def test_a_refused_process_changes_nothing(tmp_path: Path, how: dict[str, bool]) -> None:
    net, data, options = small()
    stopped(net, tmp_path)
    (tmp_path / "chunks" / "5.npz.tmp").write_bytes(b"being written")
    with Store(tmp_path).locked():
        before = files(tmp_path)
        with pytest.raises(du.DurometerError, match="another process is writing"):
            du.evaluate(net, data, **options, run=du.Run(tmp_path, **how))
        assert files(tmp_path) == before


def test_force_keeps_the_old_run_until_the_new_one_has_a_chunk(tmp_path: Path) -> None:
    net, data, how = small()
    whole = du.evaluate(net, data, **how, run=du.Run(tmp_path))
    seen = []

    class Breaks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if (tmp_path / "replaced").exists():
                seen.append(sorted(Store(tmp_path / "replaced").done()))
                raise RuntimeError("at its first chunk")
            return net(x)

    with pytest.raises(RuntimeError):
        du.evaluate(Breaks(), data, **how, run=du.Run(tmp_path, force=True))
    assert seen == [list(range(10))]
    assert not (tmp_path / "replaced").exists()
    same(whole, du.evaluate(net, data, **how, run=du.Run(tmp_path, resume=True)))
    other = du.evaluate(net, data, **how, seed=1, run=du.Run(tmp_path, force=True))
    assert not (tmp_path / "replaced").exists()
    same(other, du.evaluate(net, data, **how, seed=1, run=du.Run(tmp_path, resume=True)))


def test_a_replacement_killed_anywhere_is_taken_back(tmp_path: Path) -> None:
    net, data, how = small()
    whole = du.evaluate(net, data, **how, run=du.Run(tmp_path / "run"))
    whole.save(tmp_path / "run")
    names = [p.name for p in Store(tmp_path / "run").replacement.own()]
    assert names[0] == "spec.json"
    for moved in range(1, len(names) + 1):  # killed after so many renames
        copy = tmp_path / f"copy{moved}"
        shutil.copytree(tmp_path / "run", copy)
        (copy / "replaced").mkdir()
        for name in names[:moved]:
            (copy / name).rename(copy / "replaced" / name)
        same(whole, du.evaluate(net, data, **how, run=du.Run(copy, resume=True)))
        assert not (copy / "replaced").exists()


# -- another model under the same name

SIGN = 1.0


def by_global(x: torch.Tensor) -> torch.Tensor:
    return SIGN * torch.stack([x.sum(1) - 4, 4 - x.sum(1), 0 * x[:, 0]], 1)


class Twice(torch.nn.Module):
    """The same weights; what it does with them depends on an attribute."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign, self.net = sign, small()[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.sign * self.net(x)


def test_a_callable_whose_global_changed_is_refused(tmp_path: Path) -> None:
    _, data, how = small()
    stopped(by_global, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SIGN", -1.0)
        with pytest.raises(du.DurometerError, match="answers otherwise on 32 of 32 rows"):
            du.evaluate(by_global, data, **how, run=du.Run(tmp_path, resume=True))
    du.evaluate(by_global, data, **how, run=du.Run(tmp_path, resume=True))


def test_a_changed_lambda_is_refused(tmp_path: Path) -> None:
    _, data, how = small()
    stopped(lambda x: by_global(x), tmp_path)
    with pytest.raises(du.DurometerError, match="the model answers otherwise"):
        du.evaluate(lambda x: -by_global(x), data, **how, run=du.Run(tmp_path, resume=True))


def test_the_same_weights_with_another_forward_are_refused(tmp_path: Path) -> None:
    _, data, how = small()
    stopped(Twice(1.0), tmp_path)
    with pytest.raises(du.DurometerError, match="the model answers otherwise"):
        du.evaluate(Twice(-1.0), data, **how, run=du.Run(tmp_path, resume=True))
    du.evaluate(Twice(1.0 + 1e-7), data, **how, run=du.Run(tmp_path, resume=True))  # rounding


def test_another_schema_under_the_same_name_is_refused(tmp_path: Path) -> None:
    net, data, how = small()
    features = [du.Feature(f"f{i}", "real", -1, 2) for i in range(8)]
    schema = du.Schema(features, ["f0 <= f1 + 2", "f2 <= 2"], "cards")
    how |= {"space": schema.space(eps=0.1), "attack": du.CAPGD(4)}
    stopped(net, tmp_path, data=replace(data, x=data.x.double()), **how)
    other = du.Schema(features, ["f0 <= f1 + 2"], "cards")
    for changed in (other, schema.freeze("f3")):
        how["space"] = changed.space(eps=0.1)
        with pytest.raises(du.DurometerError, match="schema of the space.*only there"):
            du.evaluate(
                net, replace(data, x=data.x.double()), **how, run=du.Run(tmp_path, resume=True)
            )


def test_another_version_goes_on_only_when_accepted_and_is_named(tmp_path: Path) -> None:
    net, data, how = small()
    stopped(net, tmp_path)
    spec = Store(tmp_path).spec.to_json()
    spec["versions"]["durometer"] = "0.0.1"
    durable_files.write(tmp_path / "spec.json", json.dumps(spec))
    Store(tmp_path).index.keep("versions", [spec["versions"]])
    with pytest.raises(du.DurometerError, match=r"durometer 0.0.1 there, .*--accept-version"):
        du.evaluate(net, data, **how, run=du.Run(tmp_path, resume=True))
    run = du.Run(tmp_path, resume=True, accept_version=True)
    report = du.evaluate(net, data, **how, run=run)
    (flag,) = (f for f in report.flags if f.id == "mixed-versions")
    assert "durometer 0.0.1" in flag.text
    assert "0.0.1" in (tmp_path / "log.txt").read_text()


# -- damage


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for place in (0, len(content) // 2):
        content[place] ^= 255
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def another(path: Path) -> None:
    path.write_text('{"this": "is something else"}')


DAMAGE: list[Callable[[Path], None]] = [flip, cut, empty, another, os.unlink]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["chunks/2.npz", "index.sqlite", "spec.json", "fingerprint.json"])
def test_damage_is_named_repaired_and_played_again(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    net, data, how = small()
    whole = du.evaluate(net, data, **how)
    stopped(net, tmp_path / "run")
    damage(tmp_path / "run" / name)
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    found = " ".join(repair(tmp_path / "other"))
    assert ("chunk 2 is damaged" if "chunk" in name else name) in found
    assert repair(tmp_path / "other") == []
    for folder in (tmp_path / "run", tmp_path / "other"):  # --resume repairs what is safe itself
        if (folder / "spec.json").exists():
            same(whole, du.evaluate(net, data, **how, run=du.Run(folder, resume=True)))


@pytest.mark.parametrize("damage", [flip, cut, empty], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "name", ["spec.json", "records.parquet", "adversarial.npz", "examples.npz"]
)
def test_a_damaged_report_is_said_in_a_sentence(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    net, data, how = small()
    du.evaluate(net, data, **how).save(tmp_path)
    damage(tmp_path / name)
    with pytest.raises(du.DurometerError, match=name):
        du.Report.load(tmp_path)


def test_a_spec_is_never_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is saved over a run; whatever ends the process, what was there stays whole."""
    net, data, how = small()
    report = du.evaluate(net, data, **how, run=du.Run(tmp_path))
    before = (tmp_path / "spec.json").read_bytes()

    def killed(*names: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(durable_files.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        report.save(tmp_path)
    assert (tmp_path / "spec.json").read_bytes() == before
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.tmp"))
    same(report, du.evaluate(net, data, **how, run=du.Run(tmp_path, resume=True)))


# -- broken runs


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_a_log_that_cannot_be_opened_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refused(self: Any) -> Any:
        raise error

    net, data, how = small()
    monkeypatch.setattr("durometer.run.log._Handler._open", refused)
    with pytest.raises(du.DurometerError, match=r"cannot write to .*(memory|No space)"):
        du.evaluate(net, data, **how, run=du.Run(tmp_path))
    monkeypatch.undo()
    same(du.evaluate(net, data, **how), du.evaluate(net, data, **how, run=du.Run(tmp_path, True)))


def test_stopped_while_stored_chunks_are_read_the_report_is_on_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, data, how = small()
    stopped(net, tmp_path)
    stored, read, calls = len(Store(tmp_path).done()), Store.read, []
    assert stored >= 3

    def interrupted(self: Store, k: int, *entry: Any) -> Any:
        calls.append(k)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return read(self, k, *entry)

    monkeypatch.setattr(Store, "read", interrupted)
    report = du.evaluate(net, data, **how, run=du.Run(tmp_path, resume=True))
    assert len(report.records) == 12 * stored
    (flag,) = (f for f in report.flags if f.id == "interrupted")
    assert f"{12 * stored} of 120 rows" in flag.text


def test_an_error_of_the_model_is_not_called_a_full_disk(tmp_path: Path) -> None:
    stopped(small()[0], tmp_path)  # it raises ConnectionResetError as it is


def test_a_run_that_broke_down_says_so_everywhere(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from durometer.cli.app import app

    net, data, how = small()
    calls = []

    class Breaks(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            if len(calls) > 60:
                raise RuntimeError("the card fell out")
            return net(x)

    with pytest.raises(RuntimeError) as caught:
        du.evaluate(Breaks(), data, **how, run=du.Run(tmp_path / "broken"))
    partial = caught.value.partial  # type: ignore[attr-defined]
    partial.save(tmp_path / "broken")
    said = f"broke down after {len(partial.records)} of 120 rows"
    assert said in str(partial)
    assert "NOT FINISHED" in partial.html().split("<h1>")[1].split("</h1>")[0]
    du.evaluate(net, data, **how).save(tmp_path / "whole")
    for words in (
        ["show", str(tmp_path / "broken")],
        ["compare", str(tmp_path / "broken"), str(tmp_path / "whole")],
        ["export", str(tmp_path / "broken")],
        ["verify", str(tmp_path / "broken")],
        ["gate", str(tmp_path / "broken"), "-c", "robust >= 0.01"],
    ):
        result = CliRunner().invoke(app, words)
        code = 3 if words[0] == "gate" else 0  # the first rows do not speak for the others
        assert result.exit_code == code and said in " ".join(result.output.split()), words
    assert f"{len(partial.records)} of 120 rows were finished" in caught.value.__notes__[0]
    os.unlink(tmp_path / "broken" / "records.parquet")
    assert "unfinished" in {f.id for f in Store(tmp_path / "broken").report().flags}


def test_a_lock_that_cannot_be_had_is_said_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise MemoryError

    net, data, how = small()
    report = du.evaluate(net, data, **how, run=du.Run(tmp_path / "run"))
    monkeypatch.setattr("durometer.report.folder.FileLock.acquire", refused)
    with pytest.raises(du.DurometerError, match="cannot write the report to .*: not enough memory"):
        report.save(tmp_path / "run")
