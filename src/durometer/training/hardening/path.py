"""The path of a hardening: one line per refit, and which of them the price buys."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from durometer.report.stats import wilson
from durometer.training.hardening.explain import Explanation

Prices = Mapping[int | None, float]  # largest loss by class; None: of accuracy over all rows
FEW = 50  # rows below which a share says little


@dataclass(frozen=True)
class Guide:
    """A round on the held-out rows that the search may look at."""

    accuracy: float
    recall: tuple[float, ...]
    proven: float
    error: float  # the standard error of the accuracy lost since round 0, row by row


@dataclass(frozen=True)
class Change:
    """How many of these rows round 0 gets right and this round wrong, and the other way round."""

    rows: int
    lost: int
    gained: int

    @staticmethod
    def sum(parts: Sequence[Change]) -> Change:
        """Of several classes together."""
        return Change(
            sum(p.rows for p in parts), sum(p.lost for p in parts), sum(p.gained for p in parts)
        )

    def excludes(self, most: float, confidence: float) -> bool:
        """Is a loss of more than `most` excluded? The score test of Tango (1998) for pairs.

        Unlike a normal interval it holds where few or no rows changed: a hundred unchanged rows do
        not exclude a loss of 1.5 points, two hundred do.

        >>> Change(100, 0, 0).excludes(0.015, 0.95), Change(200, 0, 0).excludes(0.015, 0.95)
        (False, True)
        """
        from scipy.special import ndtri

        n, b, c = self.rows, self.lost, self.gained
        if most >= 1:
            return True
        if n == 0 or b - c >= n * most:
            return False
        half = -b - c + (2 * n - b + c) * most
        root = math.sqrt(half**2 + 8 * n * c * most * (1 - most))
        variance = n * (2 * (root - half) / (4 * n) + most * (1 - most))
        return (b - c - n * most) / math.sqrt(variance) <= -float(ndtri(confidence))


@dataclass(frozen=True)
class Round:
    """One model on the held-out rows; the shares are of the rows an attacker would start from.

    >>> Round(3, 0.1, 2, 0.95, (0.94, 0.96), 0.9, 0.1, 0.0, 0.5, 80).open
    0.0
    """

    number: int
    free: float  # the share of the trees that see every feature
    step: int  # rounds of counterexamples behind it
    accuracy: float
    recall: tuple[float, ...]  # accuracy within each class
    proven: float
    broken: float
    open: float
    vacuous: float  # of the proven rows, at least
    counterexamples: int  # fitted on
    guide: Guide | None = None  # what the order of the tests is taken from
    changes: tuple[Change, ...] = ()  # by class, on the rows that the price is tested on

    def guided(self) -> Guide:
        """On the rows that the search may look at."""
        return self.guide or Guide(self.accuracy, self.recall, self.proven, 0.0)

    def excess(self, first: Round, prices: Prices) -> float:
        """By how much it seems to pass the prices; at most 0 where it keeps all of them."""
        now, then = self.guided(), first.guided()
        lost = [
            then.accuracy - now.accuracy if c is None else then.recall[c] - now.recall[c]
            for c in prices
        ]
        return max((a - b for a, b in zip(lost, prices.values(), strict=True)), default=-1.0)

    def keeps(self, prices: Prices, confidence: float) -> bool:
        """Is every larger loss than these excluded, on rows that nothing else looked at?"""
        for c, most in prices.items():
            parts = self.changes if c is None else self.changes[c : c + 1]
            if not Change.sum(parts).excludes(most, confidence):
                return False
        return True

    def __str__(self) -> str:
        return (
            f"{self.number:3d}  free {self.free:4.2f} step {self.step:2d}  accuracy "
            f"{self.accuracy:.3f} ({', '.join(f'{r:.3f}' for r in self.recall)})  proven "
            f"{self.proven:.3f}  broken {self.broken:.3f}  open {self.open:.3f}  vacuous "
            f"{self.vacuous:.2f}"
        )


@dataclass(frozen=True)
class Unmovable:
    """What can be had without learning anything an attacker touches: the line to beat."""

    features: int  # that no attacked row's region lets move
    accuracy: float  # of the same estimator on these alone
    robust: float  # the attacked rows it gets right: all of them proven by construction
    rule: str  # the best single question about one of them
    rule_accuracy: float


@dataclass(frozen=True, eq=False)
class Hardened:
    """The outcome of `harden`.

    Args:
        model: The chosen model, of the kind that was given.
        chosen: Number of the round it comes from; 0 is the model refitted as it was.
        path: One entry per round: accuracy, proven, broken and open shares.
        rows: Number of held-out rows.
        attacked: How many of them were proven or broken.
        features: Number of features.
        kept: Number of features that keep their information under attack.
        unmovable: What a model of the features that nobody can change achieves. None: there are
            none.
        explanation: Which features and relations the weakness and the robustness rest on. None: not
            known.
        models: The models of all rounds.

    >>> print(Hardened(None, 0, (), 100, 60, 300, 280, None, None))
    held out: 100 rows, 60 judged as attacked
    """

    model: Any
    chosen: int
    path: tuple[Round, ...]
    rows: int  # held out
    attacked: int  # of these, rows an attacker would start from, proven or broken one by one
    features: int
    kept: int  # features that keep what they tell under attack
    unmovable: Unmovable | None
    explanation: Explanation | None
    models: tuple[Any, ...] = field(repr=False, default=())

    def __str__(self) -> str:
        lines = [f"held out: {self.rows} rows, {self.attacked} judged as attacked"]
        lines += [f"{'*' if r.number == self.chosen else ' '} {r}" for r in self.path]
        lines += [f"note: {note}" for note in self.notes()]
        if self.unmovable is not None:
            u = self.unmovable
            lines.append(
                f"line to beat: the {u.features} features nobody can move alone give accuracy "
                f"{u.accuracy:.3f}, {u.robust:.3f} proven; the best single rule among them "
                f"({u.rule}) {u.rule_accuracy:.3f}"
            )
        if self.explanation is not None:
            lines.append(str(self.explanation))
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """Warnings about the result, as sentences."""
        if not self.path:
            return []
        now, found = self.path[self.chosen], []
        if self.chosen == 0:
            found.append(f"{self._why()}: this is the model refitted as it was")
        if self.attacked < FEW:
            share = wilson(now.proven * self.attacked, self.attacked)
            found.append(
                f"only {self.attacked} held-out rows were judged: the share proven lies between "
                f"{share.low:.2f} and {share.high:.2f} (95 %), and rounds differ by chance"
            )
        if now.vacuous >= 0.5:
            found.append(
                f"vacuous: at least {now.vacuous:.0%} of the proofs hold however far the attacker "
                "moves what can move: the decision hangs on features that stay where they are"
            )
        u = self.unmovable
        if u is not None and now.accuracy <= u.accuracy and now.proven <= u.robust:
            found.append("the features nobody can move alone do as well: nothing was gained")
        return found

    def _why(self) -> str:
        """Why round 0 was chosen."""
        first = self.path[0]
        better = [r for r in self.path if r.proven > first.proven]
        if not better:
            return "no round proved more"
        r = min(better, key=lambda r: first.accuracy - r.accuracy)
        seen = Change.sum(r.changes)
        return (
            f"no round was shown to keep the price (the cheapest that proves more, {r.number}: of "
            f"{seen.rows} rows kept for the test it gets {seen.lost} wrong that round 0 gets "
            f"right, and {seen.gained} the other way round)"
        )

    def save_page(self, path: str | Path) -> Path:
        """Writes an HTML page with the models before and after.

        Args:
            path: The file.

        Returns:
            The file.
        """
        from durometer.core.durable_files import write
        from durometer.training.hardening.page import page

        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, page(self))
        return target


def choice(
    path: Sequence[Round], prices: Prices, min_proven: float | None,
    max_vacuous: float = 1.0, confidence: float = 0.95,
) -> int:  # fmt: skip
    """The round that the price buys; one with more vacuous proofs than allowed is none.

    Rounds that might be worth it are put in an order by rows that the search looked at, from the
    cheapest on, each proving more than the one before. Then each is tested on rows that nothing
    looked at, and the first that is not shown to keep the price ends it. In such a fixed order no
    test need allow for the others (Angelopoulos et al. 2021, "Learn then test").

    >>> cheap = Round(0, 1.0, 0, 0.96, (), 0.2, 0.8, 0.0, 0.0, 0)
    >>> hard = Round(1, 0.1, 3, 0.94, (), 0.9, 0.1, 0.0, 0.0, 0, changes=(Change(900, 20, 2),))
    >>> choice([cheap, hard], {None: 0.01}, None), choice([cheap, hard], {}, 0.8)
    (0, 1)
    """
    first, path = path[0], [path[0], *(r for r in path[1:] if r.vacuous <= max_vacuous)]
    if min_proven is not None:
        enough = [r for r in path if r.proven >= min_proven]
        if enough:
            return max(enough, key=lambda r: r.accuracy).number
        return max(path, key=lambda r: r.proven).number
    if not prices:
        return max(path, key=lambda r: r.proven).number
    chosen = first
    cheapest = sorted(path[1:], key=lambda r: r.excess(first, prices) + r.guided().error)
    for r in cheapest:
        if r.guided().proven <= chosen.guided().proven:
            continue
        if not r.keeps(prices, confidence):
            break
        chosen = r
    return chosen.number
