"""Replacement: --force puts the run that is there into `replaced/` until the new one has a chunk.

So a new run that fails at once, or is killed, costs nobody the old one. All of this is done under
the store's lock. The spec is what makes a folder a run, so it goes first when a run is set aside
and comes last when it is brought back: a kill in between leaves a folder without a spec, and the
next start knows that `replaced/` is to be brought back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from durometer.core import durable_files
from durometer.report.folder import FILES

OWN = ("spec.json", "fingerprint.json", "log.txt", "facts.json", "config.toml", *FILES)
FOLDERS = ("chunks", "also", "damaged")


@dataclass(frozen=True)
class Replacement:
    """Of the run in a folder."""

    folder: Path

    @property
    def aside(self) -> Path:
        return self.folder / "replaced"

    def own(self) -> list[Path]:
        """Everything of the run that is kept here, the spec first."""
        found: Iterator[Path] = (self.folder / name for name in (*OWN, *FOLDERS))
        return [*(p for p in found if p.exists()), *self.folder.glob("index.sqlite*")]

    def set_aside(self) -> None:
        """The run that is here makes room; of two that were replaced, the one with chunks stays."""
        if self.aside.exists():
            self.drop() if self._has_chunk else self.bring_back()
        if (self.folder / "spec.json").exists():
            self.aside.mkdir()
            for path in self.own():
                path.rename(self.aside / path.name)
            durable_files.sync(self.folder)

    @property
    def _has_chunk(self) -> bool:
        return any((self.folder / "chunks").glob("*.npz"))

    def bring_back(self) -> None:
        """Away with a run that has no chunk, and back with the one before it."""
        self.remove()
        self.recover()

    def put_back(self) -> bool:
        """Bring the run before this one back if this one has no chunk yet; was there one?"""
        if not self.aside.exists():
            return False
        self.recover()
        if self.aside.exists() and not self._has_chunk:
            self.bring_back()
        return not self.aside.exists()

    def recover(self) -> None:
        """After a kill: without a spec here, what was set aside comes back."""
        if not self.aside.exists() or (self.folder / "spec.json").exists():
            return
        for path in sorted(self.aside.iterdir(), key=lambda path: path.name == "spec.json"):
            path.rename(self.folder / path.name)
        self.aside.rmdir()
        durable_files.sync(self.folder)

    def remove(self) -> None:
        """The run that is here, with its report, and nothing else; the spec last."""
        for path in reversed(self.own()):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def drop(self) -> None:
        """The new run has a chunk: the old one is no longer needed."""
        if self.aside.exists():
            shutil.rmtree(self.aside, ignore_errors=True)
