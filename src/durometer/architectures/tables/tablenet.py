"""TableNet: what the networks for tables share: raw records in, logits out, fit and predict_proba.

An architecture is one file with one subclass: it builds its layers and says how encoded records
become logits. What else makes it what it is has three hooks: `before(data)` runs before training
(VIME's self-supervision), `extra(batch)` is added to every loss (STG's price of an open gate),
`after()` follows every weight update (RLN's regularisation). Training is the one loop of
`durometer.training` with any recipe, so every architecture can be trained against every attack.

What a reader would get wrong: `fit` holds out a validation part and keeps its best epoch; it never
sees test rows.
"""

from __future__ import annotations

import inspect
import pickle
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from durometer.architectures.tables.tableinput import TableInput
from durometer.core.errors import DurometerError, nearest
from durometer.data.dataset import Dataset
from durometer.tables import files
from durometer.tables.schema import Schema
from durometer.training.holdout import holdout
from durometer.training.loop import Batch, Epoch, Recipe, recall
from durometer.training.loop import fit as train
from durometer.training.standard import Standard


@dataclass(frozen=True)
class Training:
    """How an architecture is trained unless `fit` is told otherwise."""

    epochs: int = 100
    batch: int = 256
    rate: float = 1e-3
    decay: float = 1e-4
    patience: int = 20


_NOT_OURS = (OSError, pickle.UnpicklingError, RuntimeError, KeyError, TypeError, EOFError)
_UPDATES, _FEWEST = 8, 32  # a small table still gets so many updates an epoch, of so many rows


@dataclass(frozen=True)
class Own:
    """A recipe, with what the architecture adds to each loss and does after each update."""

    recipe: Recipe

    def losses(self, net: Any, batch: Batch) -> Iterator[Tensor]:
        for loss in self.recipe.losses(net, batch):
            yield loss + net.extra(batch)
            net.after()


class TableNet(nn.Module):
    """The base class of networks for tables: raw records in, logits out, with `fit` and
    `predict_proba`.

    A subclass defines `logits`, and may define `before`, `extra` and `after`.

    Args:
        schema: The schema of the records, which the network takes in raw units.
        classes: Number of classes.
        seed: Seed of the first weights and of the training.
        **settings: Parameters of the subclass, which `save` stores.

    Raises:
        DurometerError: There are fewer than two classes.

    >>> import durometer as du
    >>> _, data = du.testing.toy(classes=2)
    >>> schema = du.Schema([du.Feature(f"f{i}", low=0, high=1) for i in range(8)])
    >>> x, y = data.x.numpy(), data.y.numpy()
    >>> net = du.architectures.MLP(schema, 2).fit(x, y, epochs=60, rate=0.05, validation=None)
    >>> net.score(x, y)
    1.0
    """

    training_: ClassVar[Training] = Training()

    def __init__(self, schema: Schema, classes: int, seed: int, **settings: Any) -> None:
        super().__init__()
        if classes < 2:
            raise DurometerError(f"{type(self).__name__}(classes={classes}): expected at least 2")
        self.schema, self.classes, self.seed, self.settings = schema, classes, seed, settings
        self.classes_: NDArray[Any] = np.arange(classes)
        self.history: list[Epoch] = []
        self.input = TableInput(schema)

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) records in raw units -> logits (n, classes)."""
        return self.logits(self.input(x.float()))

    def logits(self, z: Tensor) -> Tensor:
        """The logits of encoded records; defined by each subclass.

        Args:
            z: Encoded records (n, size): scaled numbers and one-hot categories.

        Returns:
            (n, classes).
        """
        raise DurometerError(f"{type(self).__name__} gives no logits; use one of its subclasses")

    def before(self, data: Dataset, options: dict[str, Any]) -> None:
        """Runs before training, e.g. self-supervised learning.

        Args:
            data: The training data.
            options: Batch size, learning rate and other options of the training loop.
        """

    def extra(self, batch: Batch) -> Tensor | float:
        """What is added to the loss of every batch.

        Args:
            batch: The batch.
        """
        return 0.0

    def after(self) -> None:
        """Runs after every weight update."""

    def fit(
        self,
        x: Any,
        y: Any,
        *,
        validation: float | tuple[Any, Any] | None = 0.2,
        recipe: Recipe | None = None,
        epochs: int | None = None,
        batch: int | None = None,
        rate: float | None = None,
        patience: int | None = None,
        checkpoint: str | Path | None = None,
        progress: bool | None = False,
    ) -> Self:
        """Trains the network on records and labels.

        Args:
            x: The records: an array, a tensor or a data frame, in raw units.
            y: Their labels.
            validation: Share of the rows to hold out for early stopping, or (x, y), or None: no
                early stopping, the last epoch is kept.
            recipe: How to train; see `training`. None: `Standard("balanced")`.
            epochs: Passes over the data. None: the architecture's default, as for the next three.
            batch: Rows per batch; small tables get smaller batches by default.
            rate: Learning rate of AdamW.
            patience: Epochs without a better balanced accuracy on the validation rows after which
                training ends.
            checkpoint: A file to save every epoch to and to continue from. None: nothing is saved.
            progress: Whether to show a progress bar.

        Returns:
            The network itself.

        Raises:
            DurometerError: The labels do not fit the number of classes.
        """
        defaults = self.training_
        data = self._data(x, y, learn=True)
        held: Dataset | None = None
        if isinstance(validation, tuple):
            held = self._data(*validation)
        elif validation is not None:
            data, held = holdout(data, validation, self.seed)
        options: dict[str, Any] = {
            "batch": batch or max(_FEWEST, min(defaults.batch, len(data) // _UPDATES)),
            "rate": rate or defaults.rate,
            "optimiser": partial(torch.optim.AdamW, weight_decay=defaults.decay),
            "seed": self.seed,
            "progress": progress,
        }
        kept = None if checkpoint is None else Path(checkpoint)
        self.before(data, options | {"checkpoint": kept and kept.with_suffix(".before")})
        self.history = train(
            self,
            data,
            Own(recipe or Standard("balanced")),
            epochs=epochs or defaults.epochs,
            select=None if held is None else partial(recall, data=held),
            patience=None if held is None else patience or defaults.patience,
            checkpoint=kept,
            **options,
        )
        return self

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """The class probabilities (n, classes).

        Args:
            x: The records, in raw units.
        """
        was = self.training
        self.eval()
        with torch.no_grad():
            out = self(self.schema.tensor(x)).double().softmax(1).numpy()
        self.train(was)
        found: NDArray[np.float64] = out
        return found

    def predict(self, x: Any) -> NDArray[Any]:
        """The labels (n,), as they were given to `fit`.

        Args:
            x: The records, in raw units.
        """
        labels: NDArray[Any] = self.classes_[self.predict_proba(x).argmax(1)]
        return labels

    def score(self, x: Any, y: Any) -> float:
        """The share of rows classified correctly.

        Args:
            x: The records, in raw units.
            y: Their labels.
        """
        return float((self.predict(x) == np.asarray(y)).mean())

    def save(self, path: str | Path) -> None:
        """Writes weights, settings and schema into one file.

        Args:
            path: The file.
        """
        state = {
            "architecture": type(self).__name__,
            "settings": self.settings,
            "classes": self.classes_.tolist(),
            "seed": self.seed,
            "schema": self.schema.toml(),
            "weights": self.state_dict(),
        }
        torch.save(state, path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a network that `save` wrote; `TableNet.load` takes any architecture, a subclass
        only its own.

        Args:
            path: The file.

        Raises:
            DurometerError: The file is none that `save` wrote, or holds another architecture.
        """
        try:
            state = torch.load(path, weights_only=True)
            state["architecture"], state["schema"]
        except _NOT_OURS as error:
            raise DurometerError(f"'{path}' is no file that net.save wrote ({error})") from None
        kinds = {c.__name__: c for c in (cls, *cls.__subclasses__())}
        kind = kinds.get(state["architecture"])
        if kind is None:
            raise DurometerError(
                f"'{path}' holds a {state['architecture']}{nearest(state['architecture'], kinds)}"
            )
        schema = files.from_dict(tomllib.loads(state["schema"]), str(path))
        given = {"classes": len(state["classes"]), "seed": state["seed"]}
        takes = inspect.signature(kind).parameters
        net: Self = kind(
            schema, **{k: v for k, v in given.items() if k in takes}, **state["settings"]
        )
        net.load_state_dict(state["weights"])
        net.classes_ = np.array(state["classes"])
        return net.eval()

    def _data(self, x: Any, y: Any, learn: bool = False) -> Dataset:
        """Records and class indices; `learn` takes the labels' names from y."""
        labels = np.asarray(y)
        if learn:
            found = np.unique(labels)
            whole = found.dtype.kind in "iub" and found.max() < self.classes and found.min() >= 0
            if not whole and len(found) != self.classes:
                raise DurometerError(
                    f"y holds {len(found)} labels, but the network has {self.classes} classes; "
                    f"build it with classes={len(found)}"
                )
            self.classes_ = np.arange(self.classes) if whole else found
        at = np.searchsorted(self.classes_, labels).clip(max=self.classes - 1)
        if not bool((self.classes_[at] == labels).all()):
            wrong = labels[self.classes_[at] != labels][0]
            raise DurometerError(f"label {wrong} in y; expected one of {self.classes_.tolist()}")
        return Dataset(self.schema.tensor(x), at, schema=self.schema, name=self.schema.name)
