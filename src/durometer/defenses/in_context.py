"""InContext: an in-context model (NanoPFN, TabPFN, TabICL) whose context an attacker may poison.

Such a model is not trained on the table at hand: labelled rows of it are part of its input. Whoever
contributes some of them (a public data set, a feedback form, a federated table) changes the answers
for everybody else's rows. As a game: the batch is the context followed by the queries,

    U' = (c_1 .. c_m, x_1 .. x_n),    F = Gamma(U') = model( . | (c_1, y_1) .. (c_m, y_m))

the attacker controls k of the c_i, and the queries are scored. Their labels stay: a clean-label
poisoner. `InContext.game` puts both together.

What a reader would get wrong: the context is read from the batch, so its rows must come first, in
the order of `context`, and all in one round. A batch that is shorter has no queries and is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from durometer.architectures.tables.nanopfn import NanoPFN
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.data.dataset import Dataset
from durometer.games.transductive import Transductive
from durometer.model.classifier import Classifier, wrap

_LEAST = 1e-12  # a probability of 0 has no logarithm


@runtime_checkable
class InContextEstimator(Protocol):
    """An in-context classifier with scikit-learn's interface: TabPFN, TabICL."""

    def fit(self, X: Any, y: Any) -> Any:
        """Takes labelled rows as context.

        Args:
            X: The rows (m, d), an array.
            y: Their classes (m,).
        """
        ...

    def predict_proba(self, X: Any) -> Any:
        """Probabilities (n, classes seen).

        Args:
            X: Rows (n, d), an array.
        """
        ...


@runtime_checkable
class FitsTensors(Protocol):
    """An in-context classifier that lets gradients through, as
    `TabPFNClassifier(differentiable_input=True)` does.
    """

    @property
    def differentiable_input(self) -> bool:
        """Whether it was made for that."""
        ...

    def fit_with_differentiable_input(self, X: Tensor, y: Tensor) -> Any:
        """Takes labelled rows as context.

        Args:
            X: The rows (m, d).
            y: Their classes (m,).
        """
        ...

    def forward(self, X: Any, *, use_inference_mode: bool, return_logits: bool) -> Tensor:
        """Logits (n, classes).

        Args:
            X: Rows (n, d).
            use_inference_mode: True: rows are asked, nothing is fine-tuned.
            return_logits: True: no softmax.
        """
        ...


@noun(eq=False)
class InContext:
    """An in-context model for tables as a defender: the first rows of each batch are its labelled
    context, the others are its questions.

    `game` makes the game in which some rows of the context are an attacker's. `base(None)` is the
    model with its clean context, to be evaluated like any fixed model.

    Args:
        model: A torch module that is called with (context, labels, rows) and gives logits, such as
            `architectures.NanoPFN`; or a classifier with scikit-learn's `fit` and `predict_proba`,
            such as `TabICLClassifier` or `TabPFNClassifier`. Of these only
            `TabPFNClassifier(differentiable_input=True)` has gradients.
        context: The labelled rows, clean.

    Raises:
        DurometerError: `model` is no such model.

    >>> import durometer as du
    >>> _, data = du.testing.toy(classes=2)
    >>> net = du.architectures.NanoPFN(features=8, classes=2, width=16, layers=1, heads=2)
    >>> defender = du.defenses.InContext(net.double(), data[:10])
    >>> game, rows = defender.game(data[10:], controlled=2)
    >>> len(rows), int(game.controlled.sum()), int(game.scored.sum())
    (16, 2, 6)
    """

    model: Any = field(repr=False)
    context: Dataset = field(repr=False)

    def __post_init__(self) -> None:
        known = isinstance(self.model, nn.Module | FitsTensors | InContextEstimator)
        if isinstance(self.model, type) or not known:
            raise DurometerError(
                f"InContext got {type(self.model).__name__}; expected a module called with "
                "(context, labels, rows), or a classifier with fit and predict_proba"
            )

    @property
    def stateful(self) -> bool:
        return False

    @property
    def _classes(self) -> int:
        named = len(self.context.classes or ())
        return max(named, int(self.context.y.max()) + 1, 2)

    @property
    def _differentiable(self) -> bool:
        tensors = isinstance(self.model, FitsTensors) and self.model.differentiable_input
        return isinstance(self.model, nn.Module) or tensors

    def game(
        self, queries: Dataset, controlled: int | Iterable[int] = 0, seed: int = 0
    ) -> tuple[Transductive, Dataset]:
        """The game in which some rows of the context are an attacker's, and its rows.

        Args:
            queries: The rows that are asked, with their true classes.
            controlled: How many rows of the context the attacker controls, drawn at random; or
                their positions.
            seed: Seed of the draw.

        Returns:
            The game, and its data: context and queries, in one round. `metric("benign")` of its
            report is the accuracy on the queries.

        Raises:
            DurometerError: There are not so many rows in the context, or the columns differ.
        """
        m = len(self.context)
        if isinstance(controlled, int):
            if not 0 <= controlled <= m:
                raise DurometerError(f"controlled={controlled}: the context has {m} rows")
            places = np.random.default_rng(seed).permutation(m)[:controlled]
        else:
            places = np.array(sorted(set(controlled)), dtype=np.int64)
            if len(places) and not (places.min() >= 0 and places.max() < m):
                raise DurometerError(f"controlled={places.tolist()}: the context has {m} rows")
        if queries.x.shape[1:] != self.context.x.shape[1:]:
            raise DurometerError(
                f"queries of shape {tuple(queries.x.shape[1:])}, context of shape "
                f"{tuple(self.context.x.shape[1:])}: expected the same columns"
            )
        if int(queries.y.max()) >= self._classes:
            raise DurometerError(
                f"queries of class {int(queries.y.max())}, which no row of the context has"
            )
        x = torch.cat([self.context.x, queries.x.to(self.context.x.dtype)])
        y = torch.cat([self.context.y, queries.y])
        ids = [f"context {i}" for i in self.context.ids] + [f"query {i}" for i in queries.ids]
        data = Dataset(x, y, ids=ids, classes=self.context.classes or queries.classes)
        mine, asked = np.zeros(len(data), bool), np.arange(len(data)) >= m
        mine[places] = True
        return Transductive(self, len(data), controlled=mine, scored=asked, probe=False), data

    def start(self) -> None:
        return None

    def base(self, state: None) -> Classifier:
        if isinstance(self.model, NanoPFN):
            return wrap(self.model.given(self.context.x, self.context.y, self._classes))
        return Classifier(self._reading(self.context.x), self._kind, self._differentiable)

    def adapt(self, state: None, x: Tensor, seed: int) -> tuple[Classifier, None]:
        ask = self._reading(self._context(x).detach().clone())

        def call(asked: Tensor, rows: Tensor) -> Tensor:
            return ask(asked)

        return Classifier(call, self._kind, self._differentiable, bound=True, slack=1e-6), None

    def unrolled(self, state: None, x: Tensor, seed: int) -> tuple[Tensor, None]:
        """The logits of the whole batch, with their gradient in the context, too.

        Args:
            state, x, seed: As for `adapt`.

        Returns:
            The logits (n, C), and the state for the next round.
        """
        return self._reading(self._context(x))(x), None

    @property
    def _kind(self) -> str:
        return f"in-context {type(self.model).__name__}"

    def _context(self, x: Tensor) -> Tensor:
        if len(x) <= len(self.context):
            raise DurometerError(
                f"InContext got a batch of {len(x)} rows and has a context of {len(self.context)}: "
                "context and queries are one batch; see InContext.game"
            )
        return x[: len(self.context)]

    def _reading(self, context: Tensor) -> Callable[[Tensor], Tensor]:
        """The model that has read a context: rows (n, d) -> logits (n, C)."""
        labels, classes = self.context.y, self._classes
        if isinstance(self.model, nn.Module):
            net, kind = self.model, next(self.model.parameters()).dtype

            def module(x: Tensor) -> Tensor:
                logits: Tensor = net(context.to(kind), labels, x.to(kind))
                return logits[:, :classes]

            return module
        own = copy.deepcopy(self.model)  # it keeps what it is fitted on
        if isinstance(own, FitsTensors) and own.differentiable_input:
            own.fit_with_differentiable_input(context.float(), labels)

            def tensors(x: Tensor) -> Tensor:
                return own.forward(x.float(), use_inference_mode=True, return_logits=True)

            return tensors
        own.fit(context.detach().cpu().numpy(), labels.numpy())
        seen = np.unique(labels.numpy())

        def arrays(x: Tensor) -> Tensor:
            found = np.asarray(own.predict_proba(x.detach().cpu().numpy()), dtype=np.float64)
            whole = np.full((len(x), classes), _LEAST)
            whole[:, seen] = np.maximum(found, _LEAST)
            return torch.from_numpy(np.log(whole)).to(x.device)

        return arrays
