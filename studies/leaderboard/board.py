"""Rows of the leaderboard: read, play, store, verify.

A *task* (`tasks/NAME.toml`) is a run file without a model: data, space, goal, the same for
everyone. A *row* is one file, `rows/NAME.py`: its docstring is the title, `TASKS` says where it
takes part, `make(train, space, goal)` gives a fitted model (for tasks with a `[game]`: `DEFENSE`
is what stands in `[defense]`, around one network).

Every (task, row) is stored as `stored/TASK-ROW.tar.xz`: `run.toml`, the fitted model and the run
folder, so that

    tar xf studies/leaderboard/stored/url-xgboost.tar.xz
    durometer verify url-xgboost/run --config url-xgboost/run.toml

asks the very model again. Beside it stands what `verify` said, with the archive's hash
(`TASK-ROW.json`).

What a reader would get wrong: a row is played from the *stored* model, after it was written and
read again; what is verified is therefore what is shipped, not what was in memory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import shutil
import subprocess
import tarfile
import time
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import joblib
import numpy as np

import durometer as du
from durometer.config.config import read

HERE = Path(__file__).parent
RUNS = HERE / "stored"
MODEL = "model.joblib"
# Both sides, as `evaluate` does by default, with proofs that can be checked.
ATTACK = 'type = "Standard"\nseconds = 1.0\ncertificates = true'


@dataclass(frozen=True)
class Task:
    """A threat that every model of a board faces."""

    name: str

    @cached_property
    def text(self) -> str:
        return (HERE / "tasks" / f"{self.name}.toml").read_text(encoding="utf-8")

    @property
    def sentence(self) -> str:
        return self.text.splitlines()[0].removeprefix("#").strip()

    @property
    def adapts(self) -> bool:
        return "game" in tomllib.loads(self.text)

    @property
    def own(self) -> Path | None:
        """The file that holds the data, where they are not a data set as it is."""
        place = tomllib.loads(self.text)["data"].get("python")
        return None if place is None else HERE / "tasks" / place.partition(":")[0]

    def train(self) -> du.Dataset:
        """Rows to fit on: the training part, or where there is none what is not attacked."""
        if self.own is not None:
            return loaded(self.own).train()
        data = tomllib.loads(self.text)["data"]
        splits = getattr(du.datasets, data["name"])()
        try:
            return splits.train
        except du.DurometerError:
            attacked = set(splits.test.sample(data["rows"]).ids.tolist())
            return splits.test[np.array([i not in attacked for i in splits.test.ids.tolist()])]


@dataclass(frozen=True)
class Row:
    """One model on one task."""

    task: Task
    file: Path

    @property
    def key(self) -> str:
        return f"{self.task.name}-{self.file.stem}"

    @property
    def archive(self) -> Path:
        return RUNS / f"{self.key}.tar.xz"

    @property
    def verdict(self) -> Path:
        return RUNS / f"{self.key}.json"

    @cached_property
    def module(self) -> ModuleType:
        return loaded(self.file)

    @property
    def title(self) -> str:
        return str(self.module.__doc__).strip().splitlines()[0].rstrip(".")

    def run_file(self) -> str:
        """The task as a complete run file, for a model that lies beside it."""
        model = f'\n[model]\npath = "{MODEL}"\nname = "{self.title}"\n'
        last = f"[defense]\n{self.module.DEFENSE}" if self.task.adapts else f"[attack]\n{ATTACK}"
        return f"{self.task.text}{model}\n{last}\n"

    @property
    def digest(self) -> str:
        """Of all that a row is made from: another one means that it must be played again."""
        text = self.file.read_text(encoding="utf-8")
        shared = [HERE / f"{name}.py" for name in ("encoded", "networks") if name in text]
        own = [] if self.task.own is None else [self.task.own]
        base = [HERE / "networks.py"] if self.task.adapts else []
        files = (self.file, *shared, *base, *own)
        texts = (self.task.text, *(file.read_text(encoding="utf-8") for file in files))
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    @property
    def current(self) -> bool:
        """Stored, as these files say, and not touched since it was verified."""
        if not (self.archive.exists() and self.verdict.exists()):
            return False
        said = json.loads(self.verdict.read_text())
        return said["digest"] == self.digest and said["sha256"] == sha256(self.archive)


def loaded(file: Path) -> ModuleType:
    """A row's file as a module."""
    spec = importlib.util.spec_from_file_location(f"row_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(only: str = "") -> list[Row]:
    """Every (task, row) whose key contains `only`."""
    found = []
    for file in sorted((HERE / "rows").glob("*.py")):
        found += [Row(Task(name), file) for name in loaded(file).TASKS]
    return sorted((r for r in found if only in r.key), key=lambda r: r.key)


def play(row: Row, folder: Path) -> dict[str, float]:
    """Fit, write, read again, evaluate, save under `folder`; CPU seconds of both."""
    folder.mkdir(parents=True)
    began = time.process_time()
    train = row.task.train()
    (folder / "run.toml").write_text(row.run_file(), encoding="utf-8")
    if row.task.own is not None:
        shutil.copy(row.task.own, folder)
    joblib.dump(_fitted(row, train, folder), folder / MODEL, compress=0)
    fitted = time.process_time()
    _evaluated(row, folder).save(folder / "run")
    return {"fit": fitted - began, "play": time.process_time() - fitted}


def _fitted(row: Row, train: du.Dataset, folder: Path) -> Any:
    if row.task.adapts:
        return loaded(HERE / "networks.py").digits()
    (folder / MODEL).touch()  # a run file is checked with its model, which is made last
    config = read(folder / "run.toml")
    asked = config.threat(config.data.load(folder))
    return row.module.make(train, asked.space, asked.goal)


def _evaluated(row: Row, folder: Path) -> Any:
    """The report, or for a defence its ladder."""
    config = read(folder / "run.toml")
    if not row.task.adapts:
        return config.play(progress=False)
    model, data = config.load()
    return du.ladder(
        model, data, space=config.threat(data).space, static=du.APGD(30), public=False,
        attacks=[du.GMSA(du.APGD(15), iterations=2)],
    )  # fmt: skip


def verified(row: Row, folder: Path) -> dict[str, Any]:
    """What `du.verify` says of an unpacked row; a defence is played again, too."""
    if row.task.adapts:
        return _ladder_verified(row, folder)
    config = read(folder / "run.toml")
    model, data = config.load()
    asked = config.threat(data)
    made = du.verify(folder / "run", model, data, asked.space, asked.goal)
    return said(made)


def _ladder_verified(row: Row, folder: Path) -> dict[str, Any]:
    """Files and figures of every rung; its records must come out the same when it is played."""
    each = {
        p.parent.name: du.verify(p.parent) for p in sorted((folder / "run").glob("*/spec.json"))
    }
    again = _evaluated(row, folder).save(folder / "again")
    wrong, checked = [], {"files": 0, "figures": 0, "rows": 0}
    for name, made in each.items():
        wrong += [f"{name}: {finding}" for finding in made.findings]
        checked = {what: n + made.checked.get(what, 0) for what, n in checked.items()}
        if not _same(folder / "run" / name, again / name):
            wrong.append(f"{name}: played again, other records come out")
    checked["rungs played again"] = len(each)
    return {"findings": wrong, "checked": checked, "notes": []}


def _same(first: Path, second: Path) -> bool:
    """Whether two reports have the same rows, times aside."""
    tables = (du.Report.load(folder).table for folder in (first, second))
    one, two = (t.drop(columns=["seconds", "stages", "adapting"], errors="ignore") for t in tables)
    return bool(one.equals(two))


def said(made: Any) -> dict[str, Any]:
    """A verification as plain data."""
    return {
        "findings": [str(f) for f in made.findings],
        "checked": dict(made.checked),
        "notes": list(made.notes),
    }


def pack(folder: Path, archive: Path) -> None:
    """The folder as an archive whose bytes depend on its content alone."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = tarfile.TarInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            content = file.read_bytes()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def unpack(archive: Path, folder: Path) -> Path:
    """The archive's own folder below `folder`."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.xz")


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def commit() -> str:
    """The commit this was run from."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"
