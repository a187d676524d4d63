"""Nothing is written outside a run folder, whatever links and names it holds."""

import json
import os
import shutil
from pathlib import Path

import filelock
import numpy as np
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.core import durable_files
from durometer.run.repair import repair
from durometer.run.store import Store

COMMANDS = ("repair", "export", "show", "verify", "resume", "save")


def call(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


def play(what, folder):
    """A command that may write to a folder; errors are sentences."""
    if what == "resume":
        result = call("run", "run.toml", "-q", "--resume", "--out", folder)
    elif what == "save":
        try:
            return du.Report.load(folder).save(folder)
        except du.DurometerError:
            return None
    else:
        result = call(what, folder)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.parametrize(
    "name",
    [
        "spec.json.tmp", "fingerprint.json.tmp", "lock", "log.txt", "records.csv", "index.sqlite",
        "index.sqlite-wal", "index.sqlite-shm", "report.html", "spec.json", "evidence.json",
        "config.toml", "facts.json", "chunks/0.npz.tmp", "chunks/0.npz", "records.parquet",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["whole", "half"])
def test_no_link_to_a_file_is_written_through(runs, name, kind, tmp_path):
    for command in COMMANDS:
        folder, victim = tmp_path / "evil" / command, tmp_path / f"victim-{command}"
        shutil.copytree(runs / kind, folder)
        content = (folder / name).read_bytes() if (folder / name).is_file() else b"precious"
        victim.write_bytes(content)
        before = victim.stat()
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
        if name == "spec.json.tmp":  # so that there is something to mend
            (folder / "spec.json").unlink()
        if name == "fingerprint.json.tmp":
            (folder / "fingerprint.json").unlink()
        play(command, folder)
        assert victim.read_bytes() == content, command
        assert victim.stat().st_mtime_ns == before.st_mtime_ns, command


@pytest.mark.parametrize("name", ["damaged", "chunks", "also", "replaced", "also/targeted"])
def test_no_link_to_a_folder_is_written_into_or_emptied(runs, name, tmp_path):
    for command in COMMANDS:
        folder, victim = tmp_path / "evil" / command, tmp_path / f"victim-{command}"
        shutil.copytree(runs / "half", folder)
        (folder / "chunks" / "0.npz").write_bytes(b"damaged")
        if (folder / name).exists():
            (folder / name).rename(victim)
        else:
            victim.mkdir()
        (victim / "precious").write_text("precious")
        before = sorted(p.name for p in victim.iterdir())
        (folder / name).symlink_to(victim)
        if name == "replaced":
            (folder / "spec.json").unlink()
        play(command, folder)
        assert sorted(p.name for p in victim.iterdir()) == before, command


def test_a_lock_that_is_a_link_is_refused_with_an_old_filelock(runs, monkeypatch, tmp_path):
    """filelock 3.16.0, the oldest that is declared, truncates what the link leads to."""

    class Old(filelock.FileLock):
        def _acquire(self):
            os.close(os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
            super()._acquire()

    monkeypatch.setattr("durometer.run.store.FileLock", Old)
    monkeypatch.setattr("durometer.report.folder.FileLock", Old)
    report = du.Report.load(runs / "whole")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (runs / "whole" / "lock").unlink(missing_ok=True)
    (runs / "whole" / "lock").symlink_to(victim)
    with pytest.raises(du.DurometerError, match="is a link"):
        repair(runs / "whole")
    with pytest.raises(du.DurometerError, match="is a link"):
        report.save(runs / "whole")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "name",
    [
        "x/../../../evil", "../evil", "..", ".", "", "/tmp/evil", "a\\b", "C:evil", "con",
        "NUL.txt", "lpt1", "end.", "end ", "a\nb", "a\0b", 3, None,
    ],
)  # fmt: skip
def test_names_from_a_spec_never_become_paths(runs, name, tmp_path):
    with pytest.raises(du.DurometerError, match="not the name of a file or a folder"):
        durable_files.entry(tmp_path, name)
    path = runs / "whole" / "spec.json"
    spec = json.loads(path.read_text())
    for key, value in (("also", [name]), ("saved", {str(name): "0"})):
        path.write_text(json.dumps(spec | {key: value}))
        with pytest.raises(du.DurometerError):
            du.Report.load(runs / "whole").save(tmp_path / "in" / "mine")
    loaded = du.Report(du.Spec(), du.Report.load(runs / "part2").records)
    if isinstance(name, str):
        loaded.also[name] = du.Report(du.Spec(), loaded.records)
        before = sorted(p for p in tmp_path.rglob("*") if "copy" not in p.parts)
        with pytest.raises(du.DurometerError, match="not the name of"):
            loaded.save(tmp_path / "in" / "deep" / "mine")
        after = sorted(p for p in tmp_path.rglob("*") if "copy" not in p.parts)
        assert {p.name for p in set(after) - set(before)} <= {"in", "deep", "mine"}


def test_temporary_files_are_new_and_those_of_a_killed_process_are_removed(runs, tmp_path):
    with durable_files.replace_together(tmp_path) as new:
        first = new("spec.json")
        assert first.mode == "xb"
        assert Path(first.name).name not in ("spec.json", "spec.json.tmp")
    folder = runs / "half"
    left = [folder / f"spec.json.{'ab' * 8}.tmp", folder / "chunks" / f"3.npz.{'01' * 8}.tmp"]
    for path in left:
        path.write_bytes(b"cut off")
    (folder / "mine.tmp").write_text("the user's own")
    assert (
        call("run", "run.toml", "-q", "--resume", "--shard", "1/2", "--out", folder).exit_code == 0
    )
    assert not any(path.exists() for path in left) and (folder / "mine.tmp").exists()


def test_a_folder_that_is_a_link_of_the_users_own_is_written_to(runs):
    (runs / "latest").symlink_to(runs / "half")
    assert repair(runs / "latest") == []
    assert Store(runs / "latest").done()
    assert np.array_equal(sorted(Store(runs / "half").done()), [0, 2])
