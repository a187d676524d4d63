"""A fault at every point at which a run touches its disk."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from layer import Layer
from play import CHUNKS, back, job, play, resumed

import durometer as du
from durometer.report.folder import FILES
from durometer.run.store import Store

ERRORS = ("ENOSPC", "EIO", "MEMORY")


class Campaign:
    """Points, faults and problems, counted."""

    def __init__(self, executor: str, every: int, offset: int, once: bool = False) -> None:
        self.executor, self.every, self.offset, self.once = executor, every, offset, once
        self.kinds: Counter[str] = Counter()
        self.covered: Counter[str] = Counter()
        self.problems: list[str] = []

    def wanted(self, k: int) -> bool:
        return k % self.every == self.offset % self.every

    def kinds_at(self, k: int) -> tuple[str, ...]:
        """All faults at each point; or `once`: a kill at even points, one error at odd ones."""
        if not self.once:
            return ("kill", *ERRORS)
        return ("kill",) if k % 2 == 0 else (ERRORS[k // 2 % 3],)

    def left(self, folder: Path, whole: du.Report, old: du.Report | None) -> list[str]:
        """Problems of a folder as it was left: the run in it, or the one it was to replace."""
        copy = folder.with_name("copy")
        if old is not None:
            shutil.copytree(folder, copy)
        found = resumed(folder, whole, self.executor)
        if old is not None:
            if found:
                found = back(copy, old)
            shutil.rmtree(copy)
        return found

    def kills(self, scratch: Path, whole: du.Report, old: du.Report | None) -> int:
        """Snapshots at every point of one run, each resumed."""
        name = "run" if old is None else "force"
        folder, shots = scratch / name, scratch / f"{name}-shots"
        shots.mkdir()
        if old is not None:
            shutil.copytree(scratch / "old", folder)
        layer = Layer(folder)
        layer.snapshots = shots
        layer.wanted = lambda k: self.wanted(k) and "kill" in self.kinds_at(k)
        with layer.installed():
            play(folder, self.executor, force=old is not None)
        for shot in sorted(shots.iterdir()):
            k, kind = int(shot.name.split("-")[0]), shot.name.split("-")[1]
            self.kinds[kind] += 1
            self.covered[layer.points[k].split()[0]] += 1
            for text in self.left(shot, whole, old):
                self.problems.append(f"{name}, {kind} at {k} ({layer.points[k]}): {text}")
            shutil.rmtree(shot)
        return len(layer.points)

    def errors(self, scratch: Path, whole: du.Report, old: du.Report | None, points: int) -> None:
        """An error of the disk at every point: a sentence, and then resumed."""
        name = "run" if old is None else "force"
        for k in filter(self.wanted, range(points)):
            for kind in (kind for kind in ERRORS if kind in self.kinds_at(k)):
                folder = scratch / f"{name}-{kind}"
                shutil.rmtree(folder, ignore_errors=True)
                if old is not None:
                    shutil.copytree(scratch / "old", folder)
                layer = Layer(folder)
                layer.at = (k, kind)
                try:
                    with layer.installed():
                        play(folder, self.executor, force=old is not None)
                except du.DurometerError:
                    pass
                except Exception as error:
                    self.problems.append(f"{name}, {kind} at {k}: raw {error!r}")
                if len(layer.points) <= k:
                    continue
                self.kinds[kind] += 1
                self.covered[layer.points[k].split()[0]] += 1
                for text in self.left(folder, whole, old):
                    self.problems.append(f"{name}, {kind} at {k} ({layer.points[k]}): {text}")

    def reads(self, scratch: Path, whole: du.Report) -> int:
        """An error of the disk at every read of a run that is resumed: a sentence, or no matter."""
        half = scratch / "half"
        shutil.copytree(scratch / "whole", half)
        store = Store(half)
        store.index.forget(CHUNKS - 1)
        store.chunk(CHUNKS - 1).unlink()
        for name in FILES:
            (half / name).unlink(missing_ok=True)
        counted = Layer(shutil.copytree(half, scratch / "counted"))
        counted.reading = True
        with counted.installed():
            play(scratch / "counted", self.executor)
        for k in filter(self.wanted, range(len(counted.points))):
            folder = Path(shutil.copytree(half, scratch / "reads"))
            layer = Layer(folder)
            layer.reading, layer.at = True, (k, "EIO")
            try:
                with layer.installed():
                    play(folder, self.executor)
            except du.DurometerError:
                pass
            except Exception as error:
                self.problems.append(f"read error at {k}: raw {error!r}")
            self.kinds["read"] += 1
            self.covered["read"] += 1
            for text in resumed(folder, whole, self.executor):
                self.problems.append(f"read error at {k} ({layer.points[k]}): {text}")
            shutil.rmtree(folder)
        return len(counted.points)

    def go(self) -> Iterator[str]:
        """The campaign, told part by part."""
        with tempfile.TemporaryDirectory(prefix="durometer-faults-") as made:
            scratch = Path(made)
            whole = play(scratch / "whole", "here")
            net, data, how = job()
            old = du.evaluate(net, data, **how, seed=1, run=du.Run(scratch / "old"), progress=False)
            old.save(scratch / "old")
            # A replacement is the driver's own work: the same whoever plays.
            for before in (None, old) if self.executor == "here" else (None,):
                points = self.kills(scratch, whole, before)
                self.errors(scratch, whole, before, points)
                yield f"{'run' if before is None else 'force'}: {points} points of writing"
            yield f"resumed: {self.reads(scratch, whole)} points of reading"
