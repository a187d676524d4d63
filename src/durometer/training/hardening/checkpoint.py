"""A hardening that was cut off goes on where it was: one file per round, whole or not there.

A round is a joblib file, and loading one can run whatever is in it. So the question stands before
it, in plain text, and is compared first: only rounds of this very hardening are loaded.

What a reader would get wrong: a file of another question is refused, not overwritten. The question
is the estimator with its parameters and number of trees (or the network with its weights), the
data, the space, the goal, the seed and the settings. An estimator that was fitted once more by the
script that goes on is the same.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import torch

from durometer.core.durable_files import reading, write
from durometer.core.errors import DurometerError
from durometer.model.classifier import wrap
from durometer.training.hardening.refit import count


class Checkpoint:
    """The rounds of one hardening in a folder; without a folder nothing is kept."""

    def __init__(self, folder: str | Path | None, model: Any, question: str) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            question = f"{_digest(model)}|{question}"
            self.question = hashlib.sha256(question.encode()).hexdigest()[:16]
            if self.folder.exists() and not self.folder.is_dir():
                raise DurometerError(f"folder='{folder}' is a file; give a folder for the rounds")
            self.folder.mkdir(parents=True, exist_ok=True)

    def load(self, number: int) -> dict[str, Any] | None:
        """What was kept of this round."""
        import joblib

        if self.folder is None or not self._path(number).exists():
            return None
        path = self._path(number)
        with reading(path, "delete it: the round is fitted again"), path.open("rb") as file:
            if file.read(len(self._head)) != self._head:
                raise DurometerError(
                    f"'{path}' is from another hardening (other data, model, space, goal, seed or "
                    "settings, or an older version of durometer); give another folder= or delete "
                    "this "
                    "one"
                )
            kept: dict[str, Any] = joblib.load(file)
        return kept

    def keep(self, number: int, **state: Any) -> None:
        """Write one round."""
        import joblib

        if self.folder is None:
            return
        into = io.BytesIO()
        joblib.dump(state, into)
        write(self._path(number), self._head + into.getvalue())

    @property
    def _head(self) -> bytes:
        return f"durometer hardening {self.question}\n".encode()

    def _path(self, number: int) -> Path:
        assert self.folder is not None
        return self.folder / f"round-{number:03d}.joblib"


def _digest(model: Any) -> str:
    """What the rounds are fitted from, the same in every process: no address is part of it."""
    import joblib

    if isinstance(model, torch.nn.Module):
        return wrap(model).hash
    from sklearn.base import clone

    try:
        return f"{joblib.hash(clone(model))} {count(model)}"
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise DurometerError(
            f"{type(model).__name__} cannot be saved ({error}), so its rounds cannot be kept; "
            "leave out folder=, or give named functions instead of lambdas"
        ) from None
