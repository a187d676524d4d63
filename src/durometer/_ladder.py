"""ladder(): what a test-time defence is worth, rung by rung, each rung one evaluation.

    static              the model before it adapts, attacked as usual
    adapted, clean      the defence on batches nobody has touched
    transfer            attacks on the static model, answered by the adapted one
    FPA, GMSA ...       attacks that rehearse the defence, or any others
    public randomness   the strongest of them, when the defender's random numbers are known
    control             the strongest of them against retraining that does not look at the batch

The distance from static to transfer is what a defence is advertised with; the distance from static
to GMSA is what it is worth; and what is left over the control is what adaptation adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from durometer._evaluate import evaluate
from durometer.attacks.apgd import APGD
from durometer.attacks.base import Attack, label
from durometer.attacks.capgd import CAPGD
from durometer.attacks.combine import Then
from durometer.attacks.parameters import check_made
from durometer.attacks.transductive.gmsa import FPA, GMSA, Transfer
from durometer.attacks.transductive.unrolled import Unrolled
from durometer.core.capabilities import Unrolls, UsuallyAttacked
from durometer.core.errors import DurometerError, Unsupported
from durometer.data.dataset import Dataset
from durometer.games.game import Game
from durometer.games.transductive import Defender, Transductive
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Goal
from durometer.model.classifier import AnyModel, wrap
from durometer.report import checks
from durometer.report.checks import Flag
from durometer.report.page.ladder import cost, folder_of, page
from durometer.report.report import Report
from durometer.spaces.region import Space
from durometer.standard import Standard, check_space
from durometer.tables.space import TableSpace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOVES = 3  # a random defender's figure is a mean over at least so many of its moves


@dataclass(frozen=True, eq=False)
class Ladder:
    """The reports of `ladder`, one per rung, from the least attacked to the most.

    Args:
        reports: Name of the rung -> its report.
        flags: Warnings about the comparison, e.g. a defence that is random.
    """

    reports: dict[str, Report]
    flags: tuple[Flag, ...] = ()

    @property
    def strongest(self) -> str:
        """The name of the lowest rung against the defence itself: what is known to be worst for it.

        The attacks that know its random numbers ("public randomness") and those on other models
        ("static", "control") do not count.
        """
        other = ("static", "adapted, clean", "public randomness", "control")
        mine = [name for name in self.reports if name not in other]
        return min(mine, key=lambda name: self.reports[name].metric("robust").value)

    def __str__(self) -> str:
        head = ("accuracy", "95 % interval", "rows", "attacking", "adapting")
        lines = ["{:<22}{:>9}  {:<16}{:>6}{:>11}{:>10}  by move".format("rung", *head)]
        for name, report in self.reports.items():
            e = report.metric("robust")
            attacking, adapting = cost(report)
            span = f"{e.low:.3f} - {e.high:.3f}"
            price = f"{attacking:>9.1f} s{adapting:>8.1f} s"
            moves = report.metric("robust", by="run").values()
            each = " ".join(f"{m.value:.3f}" for m in moves) if len(moves) > 1 else ""
            lines.append(f"{name:<22}{e.value:>9.3f}  {span:<16}{e.n:>6}{price}  {each}".rstrip())
        known = self.reports[self.strongest].metric("robust")
        lines.append(f"strongest known: {self.strongest}, {known}")
        return "\n".join([*lines, *(f"{f.level} [{f.id}] {f.text}" for f in self.flags)])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws the accuracy of each rung with its 95 % interval.

        Args:
            ax: matplotlib axes to draw into. None makes a figure.

        Returns:
            The axes.

        Raises:
            Unsupported: matplotlib is not installed.
        """
        from durometer.report.plot import ladder as drawn  # late: most ladders are not drawn

        return drawn(self.reports, ax)

    def save(self, folder: str | Path) -> Path:
        """Writes report.html with all rungs, and each rung's report into a folder of its own.

        Args:
            folder: Where to write; made where it does not exist.

        Returns:
            The folder.
        """
        folder = Path(folder)
        for name, report in self.reports.items():
            report.save(folder / folder_of(name))
        (folder / "report.html").write_text(page(self.reports, self.flags), encoding="utf-8")
        return folder


@dataclass(frozen=True, eq=False)
class _Unmoved:
    """The defender before it adapts, where its answers depend on the batch all the same."""

    defender: Defender
    stateful: bool = False

    def start(self) -> Any:
        return self.defender.start()

    def base(self, state: Any) -> AnyModel:
        return self.defender.base(state)

    def adapt(self, state: Any, x: Tensor, seed: int) -> tuple[AnyModel, Any]:
        return self.defender.base(state), state


def ladder(
    game: Transductive,
    data: Dataset,
    *,
    space: Space,
    attacks: Sequence[Attack] | None = None,
    goal: Goal | None = None,
    static: Attack | None = None,
    control: Defender | None = None,
    public: bool = True,
    seed: int = 0,
    progress: bool | None = False,
) -> Ladder:
    """Evaluates a test-time defence against increasingly strong attackers, one evaluation per rung.

    The rungs: "static" (the model before it adapts), "adapted, clean" (the defence, nobody
    attacks), "transfer" (attacks on the static model), one rung per attack given, "public
    randomness" (the strongest of them, when the attacker knows the defender's random numbers) and
    "control" (the strongest of them against `control`). A defender that turns out to be random is
    played at least three times, and each rung is the mean over these runs.

    Args:
        game: The defence as a game, `Transductive(defender)`.
        data: The rows to evaluate.
        space: What the attacker may change.
        attacks: The attacks on the game to try, e.g. `[GMSA(APGD(40))]`; at least one. None: the
            strongest known. FPA and GMSA (mean and minimum), after GMSA the gradient through the
            adaptation where the defender has one (`Unrolled`), and the defender's own usual attack.
            With 100 steps and ten candidates each: minutes to hours.
        goal: What counts as a success. None is `Untargeted()`.
        static: The attack on the model before it adapts. None uses `Standard(proofs=False)`,
            or the inner attack of the first `GMSA` where the space has no standard attack.
        control: A defender that ignores the batch, usually `defenses.Control`. None leaves out this
            rung.
        public: Whether to play the rung "public randomness".
        seed: Seed of all evaluations.
        progress: Whether to show a progress bar per evaluation. None shows it in a terminal or a
            notebook only.

    Returns:
        A `Ladder`; printed, it is a table of the accuracies.

    Raises:
        DurometerError: `game` is no `Transductive` game, or there is no attack.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    ... ).double()
    >>> model = du.training.fresh(build).eval()
    >>> game = du.Transductive(du.defenses.TENT(model), batch=8)
    >>> steps = du.ladder(
    ...     game, data, space=du.Linf(0.1), attacks=[du.GMSA(du.PGD(2), iterations=1)]
    ... )
    >>> list(steps.reports)
    ['static', 'adapted, clean', 'transfer', 'GMSA-AVG', 'public randomness']
    """
    if not isinstance(game, Transductive):
        raise DurometerError(
            f"ladder() got a {type(game).__name__}; expected a game, du.Transductive(defender)"
        )
    if attacks is None:
        attacks = strongest_known(game, space)
    if not isinstance(attacks, list | tuple) or not attacks:
        raise DurometerError(
            "ladder() needs a list of attacks, e.g. attacks=[du.GMSA(du.APGD(40))]"
        )
    for attack in attacks:
        check_made("ladder(attacks=[{}])", attack)
    goal = Untargeted() if goal is None else goal
    game, facts = game.prepare(data, space, goal, None)
    runs = max(MOVES, game.runs) if facts.random else game.runs
    game = replace(game, probe=False, runs=runs)
    inner = next((a.inner for a in attacks if isinstance(a, GMSA)), attacks[0])

    def rung(target: AnyModel | Game, attack: Attack | None) -> Report:
        return evaluate(
            target, data, space=space, goal=goal, attack=attack, seed=seed, progress=progress
        )

    reports = {
        "static": rung(*_static(game, space, static, inner)),
        "adapted, clean": rung(game, None),
        "transfer": rung(game, Transfer(inner)),
    }
    tried: dict[str, Attack] = {}
    for attack in attacks:
        name = label(attack)
        name = name if name not in tried else f"{name} {len(tried) + 1}"
        tried[name] = attack
        reports[name] = rung(game, attack)
    strongest = min(tried, key=lambda name: reports[name].metric("robust").value)
    if public:
        reports["public randomness"] = rung(replace(game, information="seed"), tried[strongest])
    if control is not None:
        reports["control"] = rung(replace(game, defender=control), tried[strongest])
    flags = [f for f in checks.of_defender(facts) if f.id not in ("no-attack", "one-move")]
    flags += reports[strongest].flags
    flags += checks.of_ladder(
        {name: report.metric("robust") for name, report in reports.items()}, strongest
    )
    return Ladder(reports, tuple(dict.fromkeys(flags)))


def strongest_known(game: Transductive, space: Space) -> tuple[Attack, ...]:
    """The attacks of a ladder that names none: of all rungs measured, those that were lowest
    somewhere (docs/benchmarks/adaptive.md)."""
    usual: Attack | None = None
    if isinstance(game.defender, UsuallyAttacked):
        usual = game.defender.usual_attack(space)
    inner = usual.inner if isinstance(usual, GMSA) else None
    if inner is None:
        inner = CAPGD() if isinstance(space, TableSpace) else APGD(100)
    mean = GMSA(inner)
    found: list[Attack] = [FPA(inner), mean, GMSA(inner, "min")]
    if isinstance(game.defender, Unrolls):
        found.append(Then(mean, Unrolled()))
    if usual is not None and usual not in found:
        found.append(usual)
    return tuple(found)


def _static(
    game: Transductive, space: Space, given: Attack | None, inner: Attack
) -> tuple[AnyModel | Game, Attack]:
    """What is attacked on the first rung, and how: as strongly as the library can."""
    base = wrap(game.defender.base(game.defender.start()))
    if base.together:
        return replace(game, defender=_Unmoved(game.defender), runs=1), given or inner
    if given is not None:
        return base, given
    try:
        check_space(space)
    except Unsupported:
        return base, inner
    return base, Standard(proofs=False)
