"""A hardening that was cut off goes on where it was: one file per round, whole or not there.

What a reader would get wrong: a file of another question is refused, not overwritten. The question
is the estimator with its parameters, the data, the space, the goal, the seed and the settings.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

from assay.durable import reading, write
from assay.errors import AssayError


class Saved:
    """The rounds of one hardening in a folder; without a folder nothing is kept."""

    def __init__(self, folder: str | Path | None, question: str) -> None:
        self.folder = None if folder is None else Path(folder)
        self.question = hashlib.sha256(question.encode()).hexdigest()[:16]
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def load(self, number: int) -> dict[str, Any] | None:
        """What was kept of this round."""
        import joblib

        if self.folder is None or not self._path(number).exists():
            return None
        path = self._path(number)
        with reading(path, "delete it: the round is fitted again"):
            kept: dict[str, Any] = joblib.load(path)
        if kept["question"] != self.question:
            raise AssayError(
                f"'{path}' is from another hardening (other data, model, space, goal, seed or "
                "settings); give another folder= or delete this one"
            )
        return kept

    def keep(self, number: int, **state: Any) -> None:
        """Write one round."""
        import joblib

        if self.folder is None:
            return
        into = io.BytesIO()
        joblib.dump({"question": self.question, **state}, into)
        write(self._path(number), into.getvalue())

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"round-{number:03d}.joblib"
