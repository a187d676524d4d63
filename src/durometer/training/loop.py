"""fit(): the one training loop. A recipe gives the losses of a batch; the loop does all the rest.

A recipe's `losses` is a generator: each loss it yields is one weight update, made while the
generator waits. So a recipe that trains several times on one batch (free adversarial training)
finds the gradients of the update it has just caused when it goes on, and pays for nothing twice.

What a reader would get wrong: an interrupted run continues *exactly*. The order of the rows, the
draws of the recipe and the dropout of an epoch are functions of (seed, epoch) alone, and nothing of
the caller's random state is touched.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from durometer.core.errors import DurometerError
from durometer.core.streams import seeded
from durometer.data.dataset import Dataset

Score = Callable[[torch.nn.Module], float]


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of training data, and what a recipe may need besides it.

    Args:
        x: Inputs (n, ...).
        y: True classes (n,).
        rows: Positions of the rows in `data` (n,).
        data: The whole training set; a recipe may fetch further rows.
        generator: The only source of random numbers.
        memory: What a recipe keeps between batches; saved in checkpoints.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> rows = torch.arange(4)
    >>> batch = du.training.Batch(data.x[rows], data.y[rows], rows, data, torch.Generator())
    >>> batch.x.shape, batch.y.tolist()
    (torch.Size([4, 8]), [1, 2, 1, 1])
    """

    x: Tensor
    y: Tensor
    rows: Tensor  # places of the batch in `data`
    data: Dataset  # the whole training set: a recipe may fetch further rows
    generator: torch.Generator  # the only source of random numbers
    memory: dict[str, Any] = field(default_factory=dict)  # what a recipe carries between batches


@runtime_checkable
class Recipe(Protocol):
    """What training means, batch by batch: it gives the losses, `fit` does the rest.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> class Squared:  # a recipe of one's own
    ...     def losses(self, net, batch):
    ...         yield (net(batch.x) - torch.nn.functional.one_hot(batch.y, 3)).square().mean()
    >>> history = du.training.fit(net, data, Squared(), epochs=20)
    >>> history[-1].loss < history[0].loss
    True
    """

    def losses(self, net: torch.nn.Module, batch: Batch) -> Iterator[Tensor]:
        """The losses of a batch, one scalar per weight update.

        The update is made while the generator waits, so its gradients are there when it goes on.

        Args:
            net: The network, in training mode.
            batch: The batch.

        Yields:
            A scalar loss per weight update.
        """
        ...


@dataclass(frozen=True)
class Epoch:
    """The outcome of one pass over the data.

    Args:
        number: Its number, from 0.
        loss: Mean loss.
        seconds: How long it took.
        score: What `select` gave after it. None: no `select`.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> history = du.training.fit(net, data, du.training.Standard(), epochs=2)
    >>> [(epoch.number, round(epoch.loss, 2)) for epoch in history]
    [(0, 1.45), (1, 1.45)]
    """

    number: int
    loss: float
    seconds: float
    score: float | None = None


def fresh(make: Callable[[], torch.nn.Module], seed: int = 0) -> torch.nn.Module:
    """Makes a network whose first weights depend on the seed only; the global random state is
    untouched.

    Args:
        make: Makes the network.
        seed: The seed.

    >>> a, b = (fresh(lambda: torch.nn.Linear(2, 2), seed=3) for _ in range(2))
    >>> bool((a.weight == b.weight).all())
    True
    """
    with seeded(seed):
        return make()


def accuracy(net: torch.nn.Module, data: Dataset, batch: int = 512) -> float:
    """The share of rows that a network classifies correctly, in eval mode.

    Args:
        net: The network.
        data: The rows.
        batch: Rows per forward pass.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.training.accuracy(net, data)
    1.0
    """
    return float(_right(net, data, batch).double().mean())


def recall(net: torch.nn.Module, data: Dataset, batch: int = 512) -> float:
    """The accuracy within each class, averaged over the classes, in eval mode.

    Args:
        net: The network.
        data: The rows.
        batch: Rows per forward pass.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> du.training.recall(net, data)
    1.0
    """
    right = _right(net, data, batch).double()
    return float(torch.stack([right[data.y == c].mean() for c in data.y.unique()]).mean())


def _right(net: torch.nn.Module, data: Dataset, batch: int) -> Tensor:
    was = net.training
    net.eval()
    with torch.no_grad():
        answers = torch.cat([net(x).argmax(1) for x in data.x.split(batch)])
    net.train(was)
    right: Tensor = answers == data.y
    return right


def fit(
    net: torch.nn.Module,
    data: Dataset,
    recipe: Recipe,
    *,
    epochs: int = 10,
    batch: int = 128,
    rate: float = 1e-3,
    optimiser: Callable[..., torch.optim.Optimizer] = torch.optim.Adam,
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None,
    seed: int = 0,
    select: Score | None = None,
    patience: int | None = None,
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
) -> list[Epoch]:
    """Trains a network in place.

    An interrupted run continues exactly: order, draws and dropout depend on the seed and the epoch
    only.

    Args:
        net: The network.
        data: The training data.
        recipe: What training means, e.g. `Standard()` or `Adversarial(...)`.
        epochs: Passes over the data.
        batch: Rows per batch.
        rate: Learning rate.
        optimiser: Makes the optimiser from the parameters and `lr`.
        schedule: Makes a learning-rate schedule from the optimiser; stepped after each epoch. None:
            constant.
        seed: Seed of the order and of all draws.
        select: Scores the network after each epoch; the weights of the best epoch are kept. Score
            on rows held out from training. None: the last epoch is kept.
        patience: Epochs without a better score after which training ends. None: never early.
        checkpoint: A file that every epoch is saved to; a run that finds its file continues from
            it.
        progress: Whether to show a progress bar. None shows it in a terminal only.

    Returns:
        The history, one `Epoch` per pass. The network ends in eval mode.

    Raises:
        DurometerError: A number is too small, the loss became NaN, or the checkpoint belongs to
            another run.

    >>> import torch
    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> net = du.training.fresh(
    ...     lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3)).double()
    ... )
    >>> history = du.training.fit(net, data, du.training.Standard(), epochs=50, rate=0.1)
    >>> round(history[0].loss, 2), round(history[-1].loss, 2), du.training.accuracy(net, data)
    (1.45, 0.3, 0.9375)
    """
    if epochs < 1 or batch < 1:
        raise DurometerError(f"fit(epochs={epochs}, batch={batch}): expected at least 1 of each")
    if patience is not None and (select is None or patience < 1):
        raise DurometerError(
            f"fit(patience={patience}): expected at least 1, and select= to score the epochs by"
        )
    steps = optimiser(net.parameters(), lr=rate)
    rates = schedule(steps) if schedule else None
    run = _Run(net, steps, rates, f"{recipe!r}|{batch}|{rate}|{seed}|{data.hash}")
    if checkpoint is not None:
        run.resume(Path(checkpoint))
    with _Bar(epochs, progress) as bar:
        for number in range(len(run.history), epochs):
            if patience is not None and run.idle >= patience:
                break
            began = time.perf_counter()
            loss = run.epoch(data, recipe, batch, seed, number)
            score = None if select is None else float(select(net))
            run.history.append(Epoch(number, loss, time.perf_counter() - began, score))
            if score is not None and score > run.best:
                run.best, run.kept = score, _copy(net.state_dict())
            if checkpoint is not None:
                run.save(Path(checkpoint))
            bar.advance(run.history[-1])
    if run.kept is not None:
        net.load_state_dict(run.kept)
    net.eval()
    return run.history


@dataclass
class _Run:
    """Everything that changes while training: what a checkpoint must hold."""

    net: torch.nn.Module
    steps: torch.optim.Optimizer
    rates: Any
    name: str  # recipe, sizes, seed and data: two runs of the same name are the same run
    memory: dict[str, Any] = field(default_factory=dict)
    history: list[Epoch] = field(default_factory=list)
    best: float = float("-inf")
    kept: dict[str, Any] | None = None

    @property
    def idle(self) -> int:
        """Epochs since the best one."""
        scores = [-float("inf") if e.score is None else e.score for e in self.history]
        return len(scores) - 1 - scores.index(max(scores)) if scores else 0

    def epoch(self, data: Dataset, recipe: Recipe, size: int, seed: int, number: int) -> float:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
        order = torch.randperm(len(data), generator=generator)
        total, count = 0.0, 0
        with seeded(seed * 1_000_003 + number):  # dropout draws from the global state
            for rows in torch.split(order, size):
                if len(rows) < 2:
                    continue  # batch normalisation has no statistics of a single row
                self.net.train()
                part = Batch(data.x[rows], data.y[rows], rows, data, generator, self.memory)
                for loss in recipe.losses(self.net, part):
                    self.steps.zero_grad(set_to_none=True)
                    loss.backward()  # type: ignore[no-untyped-call]
                    self.steps.step()
                    total, count = total + float(loss.detach()), count + 1
                if not total == total:
                    raise DurometerError(
                        f"the loss became NaN in epoch {number}; lower rate= or the recipe's steps"
                    )
        if self.rates is not None:
            self.rates.step()
        return total / max(1, count)

    def save(self, path: Path) -> None:
        state = {
            "name": self.name,
            "net": self.net.state_dict(),
            "steps": self.steps.state_dict(),
            "rates": None if self.rates is None else self.rates.state_dict(),
            "memory": self.memory,
            "history": [asdict(e) for e in self.history],
            "best": self.best,
            "kept": self.kept,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        torch.save(state, part)
        part.replace(path)  # at every moment the file is a whole checkpoint or not there

    def resume(self, path: Path) -> None:
        if not path.exists():
            return
        state = torch.load(path, weights_only=True)
        if state["name"] != self.name:
            raise DurometerError(
                f"'{path}' is the checkpoint of another run ({state['name']}), not of this one "
                f"({self.name}); give another checkpoint= or delete the file"
            )
        self.net.load_state_dict(state["net"])
        self.steps.load_state_dict(state["steps"])
        if self.rates is not None:
            self.rates.load_state_dict(state["rates"])
        self.memory.update(state["memory"])
        self.history = [Epoch(**e) for e in state["history"]]
        self.best, self.kept = state["best"], state["kept"]


def _copy(state: dict[str, Any]) -> dict[str, Any]:
    return {k: v.detach().clone() for k, v in state.items()}


class _Bar:
    """Epochs done, loss and score so far; quiet in pipes and in CI."""

    def __init__(self, total: int, show: bool | None) -> None:
        self.total = total
        self._bar: Any = None
        self._task: Any = None
        self.show = sys.stderr.isatty() if show is None else show

    def __enter__(self) -> _Bar:
        if self.show:
            from rich.console import Console
            from rich.progress import Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("epoch {task.completed}/{task.total}  {task.fields[so_far]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self.total, so_far="")
        return self

    def advance(self, epoch: Epoch) -> None:
        if self._bar is not None:
            score = "" if epoch.score is None else f"  score {epoch.score:.3f}"
            text = f"loss {epoch.loss:.3f}{score}"
            self._bar.update(self._task, completed=epoch.number + 1, so_far=text)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
