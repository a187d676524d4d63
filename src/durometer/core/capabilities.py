"""What a noun may offer besides its protocol: optional hooks, declared here alone.

`isinstance(x, Described)` is the only way the package asks for one. A hook that is not listed here,
or in a protocol of `durometer.extend`, is never looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Described(Protocol):
    """A space, goal or noise that says in a sentence what it is; reports print it."""

    @property
    def description(self) -> str:
        """One sentence in plain English."""
        ...


@runtime_checkable
class CpuOnly(Protocol):
    """A space or an attack that computes on the processor, whatever device the model is on."""

    @property
    def cpu_only(self) -> bool:
        """Whether its tensors stay on the processor."""
        ...


@runtime_checkable
class Climbs(Protocol):
    """An attack that climbs a loss."""

    @property
    def loss(self) -> Any:
        """The name of the loss, or a function; None: the one that the goal implies."""
        ...


@runtime_checkable
class Starts(Protocol):
    """An attack whose first point can be chosen."""

    @property
    def start(self) -> str:
        """Where it begins: "random", "clean" or "best"."""
        ...


@runtime_checkable
class Titled(Protocol):
    """A noun with a name of its own for reports and records."""

    @property
    def name(self) -> str:
        """The name; empty: that of its type."""
        ...


@runtime_checkable
class HasSchema(Protocol):
    """A space whose rows have the columns of a schema."""

    @property
    def schema(self) -> Any:
        """The `Schema`; None: rows without one."""
        ...


@runtime_checkable
class TakesGaps(Protocol):
    """A game that knows what a missing cell is."""

    @property
    def gaps(self) -> bool:
        """Whether rows may hold missing cells."""
        ...


@runtime_checkable
class OneGoal(Protocol):
    """An attack that is made for one kind of goal."""

    @property
    def for_other_goals(self) -> Any:
        """The attack to use for all other goals."""
        ...


@runtime_checkable
class Answers(Protocol):
    """A game whose model can be asked directly; its answers are part of a run's fingerprint."""

    def answers(self, x: Tensor) -> Tensor:
        """Scores of some rows (n, classes).

        Args:
            x: Inputs (n, ...).
        """
        ...


@runtime_checkable
class UsuallyAttacked(Protocol):
    """A defender with an attack of its own: the one it was published or broken with."""

    def usual_attack(self, space: Any) -> Any:
        """The attack that `evaluate` plays on it by default.

        Args:
            space: What the attacker may change.

        Returns:
            The attack; None: there is none in this space.
        """
        ...


@runtime_checkable
class Unrolls(Protocol):
    """A defender whose answers after adapting have a gradient in the inputs it adapted to."""

    def unrolled(self, state: Any, x: Tensor, seed: int) -> tuple[Tensor, Any]:
        """Logits (n, classes) with their gradient, and the state after.

        Args:
            state: The state before.
            x: Inputs (n, ...).
            seed: All randomness of the move.
        """
        ...


@runtime_checkable
class Levelled(Protocol):
    """A goal of several levels: `evaluate` plays the further ones beside it."""

    def further(self, y: Tensor, count: int, names: Sequence[str] | None = None) -> Any:
        """The further goals by name, e.g. {"cost_at_least_5": Group(...)}.

        Args:
            y: True classes of the rows (n,).
            count: Number of classes.
            names: Names of the classes, where they have any.
        """
        ...


@runtime_checkable
class HasModel(Protocol):
    """A game about one model."""

    @property
    def model(self) -> Any:
        """The classifier, of any kind that `wrap` takes."""
        ...


@runtime_checkable
class HasCandidates(Protocol):
    """A space of sentences whose words have listed replacements."""

    @property
    def candidates(self) -> Any:
        """The maker of the replacements."""
        ...


@runtime_checkable
class HasCodes(Protocol):
    """A region with categories as one-hot codes."""

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """The search coordinates of each code."""
        ...


@runtime_checkable
class ReadsSymbols(Protocol):
    """A torch module that is given rows of symbols (words, bytes), relaxed ones included."""

    @property
    def reads_symbols(self) -> bool:
        """Whether it is; a module that says no is given numbers."""
        ...


@runtime_checkable
class HasVocabulary(Protocol):
    """A torch module that knows sentences word by word."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """Its words in the order of its embedding: padding first, then the unknown word."""
        ...


@runtime_checkable
class ToTable(Protocol):
    """A noun that writes its own table, e.g. to leave out what it derives from other fields."""

    def to_dict(self, whole: bool = False) -> dict[str, Any]:
        """The table: its type and its parameters.

        Args:
            whole: Whether parameters at their default are written, too.
        """
        ...


@runtime_checkable
class ChecksPlaces(Protocol):
    """A region that judges some of its rows without a copy of itself."""

    def contains_at(self, x: Tensor, places: Tensor) -> Tensor:
        """Whether the rows at these places are valid (m,) bool.

        Args:
            x: Inputs of all rows (n, ...).
            places: Positions of the rows asked about (m,).
        """
        ...


@runtime_checkable
class Arranged(Protocol):
    """A noise whose parameters may be given by feature."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """The features, in the order of the parameters; None: by place."""
        ...

    def arranged(self, columns: Sequence[str] | None) -> Any:
        """The same noise in the order of given columns.

        Args:
            columns: Names of the columns. None: the records have none.
        """
        ...


@runtime_checkable
class Mended(Protocol):
    """A noise whose correlation matrix was replaced by the nearest possible one."""

    @property
    def moved(self) -> float:
        """The largest change to an entry; 0: none."""
        ...


def reads_symbols(module: object) -> bool:
    """Whether a module is given rows of symbols."""
    return isinstance(module, ReadsSymbols) and module.reads_symbols


def description_of(noun: object) -> str | None:
    """The sentence of a noun that has one."""
    return noun.description if isinstance(noun, Described) else None


def is_cpu_only(noun: object) -> bool:
    """Whether a space or an attack computes on the processor alone."""
    return isinstance(noun, CpuOnly) and noun.cpu_only


def loss_of(attack: object) -> Any:
    """The loss that an attack was given; None: it leaves the choice to the goal, or climbs none."""
    return attack.loss if isinstance(attack, Climbs) else None
