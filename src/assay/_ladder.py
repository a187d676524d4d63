"""ladder(): what a test-time defence is worth, rung by rung, each rung one evaluation.

    static              the model before it adapts, attacked as usual
    adapted, clean      the defence on batches nobody has touched
    transfer            attacks on the static model, answered by the adapted one
    FPA, GMSA ...       attacks that rehearse the defence
    public randomness   the strongest of them, when the defender's random numbers are known
    control             the strongest of them against retraining that does not look at the batch

The distance from static to transfer is what a defence is advertised with; the distance from static
to GMSA is what it is worth; and what is left over the control is what adaptation adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay._evaluate import evaluate
from assay.attacks.gmsa import GMSA, Transfer
from assay.data import Dataset
from assay.errors import AssayError
from assay.games.transductive import Transductive
from assay.report import checks
from assay.report.checks import Flag
from assay.report.page import ladder as rungs
from assay.report.report import Report


@dataclass(frozen=True, eq=False)
class Ladder:
    """The reports by rung, from the least attacked to the most."""

    reports: dict[str, Report]
    flags: tuple[Flag, ...] = ()

    def __str__(self) -> str:
        head = ("accuracy", "95 % interval", "rows", "attacking", "adapting")
        lines = ["{:<22}{:>9}  {:<16}{:>6}{:>11}{:>10}".format("rung", *head)]
        for name, report in self.reports.items():
            e = report.metric("robust")
            attacking, adapting = rungs.cost(report)
            span = f"{e.low:.3f} - {e.high:.3f}"
            cost = f"{attacking:>9.1f} s{adapting:>8.1f} s"
            lines.append(f"{name:<22}{e.value:>9.3f}  {span:<16}{e.n:>6}{cost}")
        return "\n".join([*lines, *(f"{f.level} [{f.id}] {f.text}" for f in self.flags)])

    def save(self, folder: str | Path) -> Path:
        """Write report.html with all rungs, and each rung's report in a folder of its own."""
        folder = Path(folder)
        for name, report in self.reports.items():
            report.save(folder / rungs.folder(name))
        (folder / "report.html").write_text(rungs.page(self.reports, self.flags), encoding="utf-8")
        return folder


def ladder(
    game: Transductive,
    data: Dataset,
    *,
    space: Any,
    attacks: Sequence[GMSA],
    goal: Any = None,
    static: Any = None,
    control: Any = None,
    public: bool = True,
    seed: int = 0,
) -> Ladder:
    """Every rung for one defence; `attacks` are the model-space attacks to try.

    `static`: the attack on the model before it adapts (unless given, the inner attack of the first
    of `attacks`). `control`: a defender that ignores the batch, see `ay.defenses.Control`.

    >>> ladder(game, data, space=space, attacks=[FPA(PGD(40)), GMSA(PGD(40))])  # doctest: +SKIP
    """
    if not isinstance(game, Transductive):
        raise AssayError(
            f"ladder() got a {type(game).__name__}; expected a game, ay.Transductive(defender)"
        )
    if not isinstance(attacks, list | tuple) or not attacks:
        raise AssayError("ladder() needs a list of attacks, e.g. attacks=[ay.GMSA(ay.PGD(40))]")
    for attack in attacks:
        if not isinstance(attack, GMSA):
            raise AssayError(
                f"ladder(): {attack!r} rehearses nothing; expected ay.GMSA(...) or ay.FPA(...) "
                "(a plain attack goes in static=)"
            )
    inner = attacks[0].inner
    base = game.defender.base(game.defender.start())

    def play(target: Any, attack: Any) -> Report:
        return evaluate(
            target, data, space=space, goal=goal, attack=attack, seed=seed, progress=False
        )

    reports = {
        "static": play(base, static or inner),
        "adapted, clean": play(game, None),
        "transfer": play(replace(game, probe=False), Transfer(inner)),
    }
    tried: dict[str, GMSA] = {}
    for attack in attacks:
        name = attack.name if attack.name not in tried else f"{attack.name} {len(tried) + 1}"
        tried[name] = attack
        reports[name] = play(replace(game, probe=False), attack)
    strongest = min(tried, key=lambda name: reports[name].metric("robust").value)
    if public:
        known = replace(game, information="seed", probe=False)
        reports["public randomness"] = play(known, tried[strongest])
    if control is not None:
        other = replace(game, defender=control, probe=False)
        reports["control"] = play(other, tried[strongest])
    flags = [f for f in reports["adapted, clean"].flags if f.id != "no-attack"]  # meant there
    flags += reports[strongest].flags
    flags += checks.of_ladder(
        {name: report.metric("robust") for name, report in reports.items()}, strongest
    )
    return Ladder(reports, tuple(dict.fromkeys(flags)))
