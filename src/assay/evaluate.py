"""evaluate(): the one verb. Who is attacked (target, data), how (space, goal, attack) -> Report."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import torch

from assay.attacks.campaign import Campaign
from assay.attacks.standard import standard
from assay.data import Dataset
from assay.errors import AssayError
from assay.games.game import Game
from assay.games.static import Static
from assay.goals import Quota, group, untargeted
from assay.problem import Budget, Referee
from assay.records import Records
from assay.report import checks
from assay.report.examples import gather
from assay.report.report import Report
from assay.run.progress import Progress


def evaluate(
    target: Any,
    data: Dataset,
    *,
    space: Any = None,
    goal: Any = None,
    attack: Any = None,
    seed: int = 0,
    batch: int = 256,
    budget: Budget | None = None,
    progress: bool | None = None,
    also: Sequence[Any] = (),
) -> Report:
    """How robust is `target` on `data` when the attacker may move in `space` towards `goal`?

    `target` is a model of any kind (see `wrap`) or a game. `goal` is untargeted unless given;
    `attack` is the standard ensemble for the space unless given. The records depend on the seed and
    on the examples' ids, not on `batch`. Ctrl-C ends the run and reports the finished batches.
    `also` names further goals, each attacked in the same way and shown in the same report.

    >>> report = evaluate(net, data, space=Linf(8 / 255), attack=APGD(100))    # doctest: +SKIP
    """
    if not isinstance(data, Dataset):
        raise AssayError(f"data is a {type(data).__name__}; expected ay.Dataset(x, y)")
    if batch < 1:
        raise AssayError(f"batch={batch}: expected at least 1")
    _check_finite(data)
    game: Any = target if isinstance(target, Game) else Static(target)
    goal = untargeted() if goal is None else goal
    asked, whole = goal, data
    if isinstance(goal, Quota):
        data, goal = goal.pairs(data)
    if attack is None and isinstance(game, Static) and space is not None:
        attack = standard(space)
    game, facts = game.prepare(data, space, goal, attack)
    spec = describe(game, data, space, asked, attack, seed, budget)
    spec |= aims(asked, data, facts.get("classes", 0))
    facts |= {"gradients": 0, "flat": 0, "nonfinite": 0}

    def observe(referee: Referee) -> None:
        for name in ("gradients", "flat", "nonfinite"):
            facts[name] += getattr(referee, name)

    moves = game.play(
        data, space, goal, attack, seed, batch=batch, budget=budget or Budget(), observe=observe
    )
    records = _collect(moves, data, facts, progress, spec)
    flags = (*checks.of_model(facts), *checks.of_run(records, facts))
    single = attack.attack if isinstance(attack, Campaign) else attack
    others = {
        type(g).__name__: evaluate(
            game,
            whole,
            space=space,
            goal=g,
            attack=single,
            seed=seed,
            batch=batch,
            budget=budget,
            progress=progress,
        )
        for g in also
    }
    return Report(spec, records, flags, others, gather(data, records))


def _collect(
    moves: Iterator[Records],
    data: Dataset,
    facts: dict[str, Any],
    progress: bool | None,
    spec: dict[str, Any],
) -> Records:
    """Play to the end; what is done survives Ctrl-C and a model that breaks down half-way."""
    parts: list[Records] = []
    with Progress(len(data), progress) as bar:
        try:
            for part in moves:
                parts.append(part)
                bar.advance(part)
        except KeyboardInterrupt:
            if not parts:
                raise
            facts["interrupted"] = len(data)
        except Exception as error:
            if parts:
                error.partial = Report(spec, Records.concat(parts))  # type: ignore[attr-defined]
                error.add_note(
                    f"{sum(map(len, parts))} of {len(data)} rows were finished: see .partial"
                )
            raise
    return Records.concat(parts)


def describe(
    game: Game, data: Dataset, space: Any, goal: Any, attack: Any, seed: int, budget: Budget | None
) -> dict[str, Any]:
    """What was asked, as plain values: the spec of a report."""
    return {
        **game.described,
        "data": data.name or "data",
        "data_hash": data.hash,
        "rows": len(data),
        "classes": list(data.classes) if data.classes else None,
        "id_type": "int" if data.ids.dtype.kind in "iu" else "str",
        "space": repr(space) if space is not None else "",
        "goal": repr(goal),
        "attack": repr(attack) if attack is not None else "",
        "threat": " ".join(getattr(part, "in_words", "") for part in (space, goal)).strip(),
        "budget": repr(budget) if budget else "",
        "seed": seed,
        "versions": {
            "assay": version("assay"),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }


def aims(goal: Any, data: Dataset, classes: int) -> dict[str, Any]:
    """For the spec: which classes the attacker wants, where that is not all of them."""
    names = data.classes
    classes = classes or len(names or ())
    if not classes:
        return {}
    if isinstance(goal, Quota):
        rule = goal.rule(classes, names)
        return {"aims": sorted(rule["targets"]), "quota": rule}
    if isinstance(goal, group):
        wanted = goal.allowed(classes, names).any(0)
        return {"aims": wanted.nonzero()[:, 0].tolist()}
    return {}


def _check_finite(data: Dataset) -> None:
    bad = ~data.x.reshape(len(data), -1).isfinite()
    if bool(bad.any()):
        row, column = (int(v) for v in bad.nonzero()[0])
        raise AssayError(
            f"{int(bad.any(1).sum())} of {len(data)} inputs hold NaN or infinite values, the first "
            f"in row {row} (id {data.ids[row]}), feature {column}: "
            f"{float(data.x.reshape(len(data), -1)[row, column])}; drop or fill such rows first"
        )
