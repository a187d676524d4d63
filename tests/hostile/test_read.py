"""What is read is compared, bounded and needs no write access."""

import io
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.run.store import Store

READERS = ("show", "verify", "repair")


def call(*words):
    result = CliRunner().invoke(app, [str(w) for w in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        words, result.exception,
    )  # fmt: skip
    return result


def said(result):
    return " ".join(result.output.split())


def tampered(folder, k=0):
    """A chunk in which every row is broken, as a valid file."""
    path = folder / "chunks" / f"{k}.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["success"] = np.ones(1, bool)
    arrays["verdict"] = np.array(["broken"])
    np.savez(path, **arrays)


def test_merge_leaves_a_changed_chunk_out_and_names_it(runs):
    tampered(runs / "part1")
    result = call("merge", runs / "part1", runs / "part2", "--out", runs / "both")
    text = said(result).replace(" ", "")
    assert result.exit_code == 2 and "chunks/0.npz" in text and "notthosethatwerewritten" in text
    shutil.rmtree(runs / "both", ignore_errors=True)
    words = (runs / "part1", runs / "part2", runs / "whole")  # a sound copy of it is taken
    spec = json.loads((runs / "whole" / "spec.json").read_text())
    assert spec["chunks"] == 3
    assert call("merge", *words, "--out", runs / "all").exit_code == 0
    assert du.Report.load(runs / "all").metric("robust") == du.Report.load(runs / "whole").metric(
        "robust"
    )


def test_show_leaves_a_changed_chunk_out_and_names_it(runs):
    before = du.Report.load(runs / "part1").table
    tampered(runs / "half")
    result = call("show", runs / "half")
    assert result.exit_code == 0 and "chunk 0 is damaged" in said(result)
    report = Store(runs / "half").report()
    rows = before[before["id"].isin(report.table["id"])]
    assert len(report.table) == len(rows) == 8
    assert (report.table["success"].to_numpy() == rows["success"].to_numpy()).all()
    assert any(f.id == "unfinished" for f in report.flags)
    with pytest.raises(du.DurometerError, match="not those that were written"):
        Store(runs / "half").read(0)


def test_a_resumed_run_plays_a_changed_chunk_again(runs):
    tampered(runs / "half")
    words = ("run", "run.toml", "-q", "--resume", "--shard", "1/2", "--out", runs / "half")
    assert call(*words).exit_code == 0
    expected = du.Report.load(runs / "part1").metric("robust")
    assert du.Report.load(runs / "half").metric("robust") == expected


UNWRITABLE = """
import os, sys
from pathlib import Path
from typer.testing import CliRunner
from durometer.cli.app import app
warm, folder, *commands = sys.argv[1:]
def play(command, where):
    result = CliRunner().invoke(app, [command, where])
    assert result.exit_code == 0, (command, result.output, result.exception)
for command in commands:  # everything is imported before the rights are given up
    play(command, warm)
for path in (Path(folder), *Path(folder).rglob("*")):
    path.chmod(0o555 if path.is_dir() else 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    (Path(folder) / "new").touch()
except PermissionError:
    for command in commands:
        play(command, folder)
    print("read")
"""


@pytest.mark.parametrize("kind", ["whole", "half"])
@pytest.mark.parametrize("log", [False, True])
def test_verify_and_show_need_no_write_access(runs, kind, log):
    with tempfile.TemporaryDirectory() as place:  # pytest's own cannot be entered by others
        os.chmod(place, 0o755)
        folder = Path(place) / "run"
        shutil.copytree(runs / kind, folder)
        index = folder / "index.sqlite"
        if log:  # as a killed process leaves it: something stands in the log only
            with closing(sqlite3.connect(index, isolation_level=None)) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("INSERT OR REPLACE INTO kept VALUES ('late', '1')")
                for part in ("", "-wal"):
                    shutil.copy(f"{index}{part}", f"{index}{part}.copy")
            for part in ("", "-wal"):
                os.replace(f"{index}{part}.copy", f"{index}{part}")
            (folder / "index.sqlite-shm").unlink(missing_ok=True)
        before = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
        commands = ["show", "verify"] if kind == "whole" else ["show"]
        words = [sys.executable, "-c", UNWRITABLE, runs / kind, folder, *commands]
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=200)
        assert done.stdout == "read\n", (done.stdout, done.stderr)
        assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        assert Store(folder).index.kept("late") == (1 if log else None)


DEEP = "[" * 50_000 + "]" * 50_000
NESTED = '{"a":' * 500 + "1" + "}" * 500


@pytest.mark.parametrize("text", [DEEP, f'{{"model": {DEEP}}}', NESTED], ids=["deep", "in", "less"])
@pytest.mark.parametrize(
    "name", ["spec.json", "facts.json", "fingerprint.json", "evidence.json", "sweep.json"]
)
def test_deep_json_is_answered_in_a_sentence(runs, name, text):
    for kind in ("whole", "part1", "half"):
        (runs / kind / name).write_text(text)
    for kind in ("whole", "half"):
        for command in READERS:
            call(command, runs / kind)
    call("export", runs / "whole")
    call("merge", runs / "part1", runs / "part2", "--out", runs / "both")


def test_an_edited_facts_file_is_named(runs):
    for content in ('{"flat": "many", "gradients": "x"}', '{"flat": [1]}', "[1, 2]", '"text"'):
        (runs / "part1" / "facts.json").write_text(content)
        result = call("merge", runs / "part1", runs / "part2", "--out", runs / "both")
        assert result.exit_code in (0, 2)
        if result.exit_code == 2:
            assert "facts.json" in said(result).replace(" ", "")
        shutil.rmtree(runs / "both", ignore_errors=True)
    assert result.exit_code == 2


ENDLESS = "WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n) SELECT"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW chunks AS {ENDLESS} k, 0 AS rows, '{{}}' AS facts, NULL AS digest FROM n",
        "CREATE TABLE chunks (k INTEGER PRIMARY KEY, rows INTEGER, facts TEXT "
        "GENERATED ALWAYS AS (hex(zeroblob(90000000))) VIRTUAL, digest TEXT)",
        "CREATE VIRTUAL TABLE chunks USING fts5(k, rows, facts, digest)",
    ],
)
def test_an_index_that_never_ends_is_refused_at_once(runs, statement):
    path = runs / "half" / "index.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TABLE chunks")
        db.execute(statement)
        if "zeroblob" in statement:
            db.execute("INSERT INTO chunks (k, rows, digest) VALUES (0, 8, NULL)")
    began = time.monotonic()
    with pytest.raises(du.DurometerError, match="not a plain table"):
        Store(runs / "half").done()
    assert time.monotonic() - began < 5
    assert "rebuilt" in said(call("repair", runs / "half"))


def bomb(path, like):
    """The arrays of a file, the last of them a quarter of a gigabyte of zeros."""
    with np.load(like) as file:
        arrays = dict(file)
    np.savez_compressed(path, **arrays, zeros=np.zeros(2**25))


@pytest.mark.parametrize("name", ["adversarial.npz", "examples.npz", "chunks/0.npz"])
def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_does(runs, name, tmp_path):
    folder = runs / "whole"
    bomb(tmp_path / "bomb.npz", folder / name)
    os.replace(tmp_path / "bomb.npz", folder / name)
    from durometer.core import durable_files

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="compressed"), durable_files.arrays(folder / name) as file:
        file["zeros"]
    if name.startswith("chunks"):
        with pytest.raises(du.DurometerError, match="damaged"):
            Store(folder).read(0)
    else:
        with pytest.raises(du.DurometerError, match="damaged|not as it was saved"):
            du.Report.load(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_an_archive_whose_parts_overlap_is_refused(tmp_path):
    """Many entries for the same bytes: as large as one likes, and none of it compressed."""
    from durometer.core import durable_files

    whole = io.BytesIO()
    np.savez(whole, a=np.zeros(1000))
    path = tmp_path / "a.npz"
    path.write_bytes(whole.getvalue())
    with zipfile.ZipFile(path, "a") as file:
        file.filelist += [file.getinfo("a.npy")] * 50
        file.writestr("b", b"")
    with pytest.raises(ValueError, match="more than it does"), durable_files.arrays(path):
        pass


@pytest.mark.parametrize("name", ["spec.json", "evidence.json", "facts.json", "records.parquet"])
def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(runs, name):
    for kind in ("whole", "half"):
        (runs / kind / name).unlink(missing_ok=True)
        os.mkfifo(runs / kind / name)
        for command in READERS:
            call(command, runs / kind)
