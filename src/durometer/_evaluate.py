"""evaluate(): the one verb. Who is attacked (target, data), how (space, goal, attack) -> Report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar, cast

import numpy as np

from durometer.attacks.base import Attack, attack_names, for_other_goals
from durometer.core.capabilities import Levelled, description_of
from durometer.core.errors import DurometerError, Unsupported, nearest
from durometer.core.facts import Facts
from durometer.core.records import Gathered
from durometer.core.serialization import format_spec, to_dict
from durometer.core.spec import Provenance, Spec
from durometer.data.dataset import Dataset
from durometer.data.parquet import Parquet
from durometer.games.arguments import check_kinds
from durometer.games.game import Game
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Aims, Expandable
from durometer.model.classifier import AnyModel
from durometer.problem.budget import Budget
from durometer.proofs.audit import PLAN
from durometer.report import checks
from durometer.report.examples import gather
from durometer.report.report import Report
from durometer.report.totals import SHOWN, Tally
from durometer.run.job import Chunk, Job
from durometer.run.progress import Progress
from durometer.run.run import Run, Until
from durometer.run.versions import versions
from durometer.spaces.region import Space

P = ParamSpec("P")
R = TypeVar("R")


def _known_arguments(verb: Callable[P, R]) -> Callable[P, R]:
    """A misspelled argument is answered in a sentence, and a class where an object was meant."""

    @wraps(verb)
    def checked(*args: P.args, **given: P.kwargs) -> R:
        known = list(signature(verb).parameters)
        for name in given:
            if name in ("eps", "epsilon", "radius"):
                raise DurometerError(
                    f"evaluate({name}={given[name]!r}): how far inputs may move belongs to the "
                    f"space, e.g. space=du.Linf({given[name]!r})"
                )
            if name not in known:
                raise DurometerError(
                    f"evaluate({name}=...): no such argument{nearest(name, known)}; arguments are "
                    f"{', '.join(known)}"
                )
        for name in ("space", "goal", "attack"):
            value = given.get(name)
            if isinstance(value, type):
                raise DurometerError(
                    f"{name}={value.__name__}: this is a class; give an object made by it, e.g. "
                    f"{name}=du.{value.__name__}(...)"
                )
        return verb(*args, **given)

    return checked


@_known_arguments
def evaluate(
    target: AnyModel | Game,
    data: Dataset | Parquet,
    *,
    space: Space | None = None,
    goal: Expandable | None = None,
    attack: Attack | Literal["standard"] | None = "standard",
    seed: int = 0,
    batch: int | None = None,
    budget: Budget | None = None,
    progress: bool | None = None,
    also: Sequence[Expandable] = (),
    run: Run | None = None,
) -> Report:
    """Measures how robust a classifier is on a data set under a stated threat.

    Args:
        target: The classifier: a torch module, a fitted estimator, a callable, an ONNX file, or
            what `wrap` made of one. Or a game: `Static`, `Nature` (random noise) or `Transductive`
            (a defence that adapts at test time).
        data: The rows to evaluate: a `Dataset`, or a `Parquet` for data larger than memory (it
            needs `run=Run(folder)`).
        space: What the attacker may change, e.g. `Linf(8 / 255)` or `TableSpace(schema, eps=0.1)`.
            None only for games that need no space, such as `Nature`.
        goal: What counts as a success of the attacker. None is `Untargeted()`: any wrong class.
        attack: The attack. "standard" runs the ensemble of attacks (and proofs, where there are
            any) that fits the model and the space. None says that nobody attacks, for a defence on
            clean batches.
        seed: Seed of all random numbers, a whole number. The same seed on the same rows gives the
            same records.
        batch: Rows per batch. None uses the game's own size: 256, or 32 under noise. The records do
            not depend on it, except for games whose rows depend on each other.
        budget: A limit on the model evaluations per row. None: no limit.
        progress: Whether to show a progress bar. None shows it in a terminal or a notebook only.
        also: Further goals, each attacked in the same way on the same rows; their reports are in
            `report.also`.
        run: How the evaluation is carried out: kept in a folder and resumed, in worker processes,
            on Ray, stopped early. None runs it here, in memory.

    Returns:
        A `Report`: the records of all rows, the metrics with 95 % intervals, and warnings about
            pitfalls. After Ctrl-C it holds the batches that were finished.

    Raises:
        DurometerError: An argument is wrong; the message says which, and what was expected.
        Unsupported: The parts do not go together, e.g. a gradient attack on a black box.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.APGD(10))
    >>> robust = report.metric("robust")
    >>> f"{robust.value:.2f}, between {robust.low:.2f} and {robust.high:.2f} of {robust.n} rows"
    '0.31, between 0.14 and 0.56 of 16 rows'
    """
    if isinstance(target, type):
        raise DurometerError(f"{target.__name__} is a class; give an object made by it")
    if not isinstance(data, Dataset | Parquet):
        raise DurometerError(
            f"data is a {type(data).__name__}; expected du.Dataset(x, y), or du.Dataset(loader) of "
            "a torch Dataset or DataLoader"
        )
    held, source = (data.head(), data) if isinstance(data, Parquet) else (data, None)
    job = Job(
        target, held, space, Untargeted() if goal is None else goal, cast(Attack | None, attack),
        seed, batch, Budget() if budget is None else budget, also=also, source=source,
    )  # fmt: skip
    return play(job, run, progress=progress)


def play(job: Job, run: Run | None = None, *, progress: bool | None = None) -> Report:
    """Plays a job: the one path from a question to a report."""
    _check(job, run)
    asked, run = job, run or Run()
    check_kinds(job.space, job.goal)
    refused = job.rules.refuses(job.goal, run)
    if refused is not None:
        raise Unsupported(refused)
    if job.source is not None:
        _check_parts(job.rules, job.goal, run)
    job = asked.bound(shuffled=run.until is not None)
    if job.attack is None and job.budget != Budget():
        raise DurometerError(
            f"budget={job.budget!r}: nobody attacks here, there is nothing to limit"
        )
    if run.out is not None:
        job.keep_answers(Path(run.out), fresh=run.force)
    facts = job.prepare()
    count = facts.classes or len(job.data.classes or ())
    aims = asked.goal.aims(count, job.data.classes) if count else Aims()
    spec = replace(
        describe(job, asked.goal).with_provenance(run.provenance),
        aims=aims.classes, quota=aims.quota,
        order="given" if run.until is None else "random",
        shard=None if run.shard is None else (run.shard[0], run.shard[1]),
    )  # fmt: skip
    done, facts = _collect(job, run, spec, facts, progress)
    report = _make_report(done, facts, spec)
    if isinstance(done, Gathered):
        shown = gather(job.data, report.records)
        report = replace(report, examples=shown, rows=job.data.by_id, data=job.data)
    levels = {}
    if isinstance(asked.goal, Levelled) and count:
        levels = dict(asked.goal.further(job.data.y, count, job.data.classes))
    further = levels | goal_names(job.also)
    if facts.interrupted or not further:
        return report
    other = job.attack if job.attack is None else for_other_goals(job.attack)
    again = replace(asked, attack=other, batch=None if job.widen else job.size, also=())
    return _play_further_goals(
        report, further, run,
        lambda goal, run: play(replace(again, goal=goal), run, progress=progress),
    )  # fmt: skip


def _play_further_goals(
    report: Report,
    goals: dict[str, Expandable],
    run: Run,
    play: Callable[[Expandable, Run], Report],
) -> Report:
    """The report with those of further goals; what is done survives whatever ends them."""
    done: dict[str, Report] = {}
    until = None if isinstance(run.until, Until) else run.until  # a gate is on the first goal
    for name, goal in goals.items():
        out = run.out and Path(run.out) / "also" / name
        try:
            done[name] = play(goal, replace(run, out=out, provenance=Provenance(), until=until))
            stopped = any(f.id == "interrupted" for f in done[name].flags)
        except KeyboardInterrupt:
            stopped = True
        except Exception as error:
            error.partial = replace(report, also=done)  # type: ignore[attr-defined]
            error.add_note(f"this was the further goal {name}; the first is finished: see .partial")
            raise
        if stopped:
            flag = checks.Flag("interrupted", f"stopped by hand at the further goal {name}")
            return replace(report, also=done, flags=(*report.flags, flag))
    return replace(report, also=done)


def goal_names(goals: Sequence[Expandable]) -> dict[str, Expandable]:
    """Goals by the name of their kind, as metrics write it; the second of a kind is `group_2`."""
    named: dict[str, Expandable] = {}
    for goal in goals:
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(goal).__name__).lower()
        count = sum(type(other) is type(goal) for other in named.values())
        named[f"{kind}_{count + 1}" if count else kind] = goal
    return named


def _collect(
    job: Job, run: Run, spec: Spec, facts: Facts, progress: bool | None
) -> tuple[Gathered | Tally, Facts]:
    """Play to the end; what is done survives Ctrl-C and a model that breaks down half-way."""
    done = Gathered(job.rows, job.size) if job.source is None else Tally(SHOWN)
    if isinstance(run.until, Until):
        run.until.begin()
    seen: set[int] = set()

    def add(k: int, part: Chunk) -> None:
        nonlocal facts
        seen.add(k)
        done.add(k, part.records)
        facts = facts.plus(part.facts)

    with Progress(job.rows, progress) as bar:
        try:
            for k, part in run.chunks(job, spec):
                add(k, part)
                bar.advance(part.records, part.stored)
                if isinstance(run.until, Until):
                    if _decided(run.until, spec, done, part):
                        facts = replace(facts, decided=job.rows)
                        break
                elif run.until is not None and bar.half_width <= run.until:
                    facts = replace(facts, narrow=job.rows)
                    break
        except KeyboardInterrupt:
            if not seen:
                raise
            for k, part in run.finished() if run.until is None else ():  # else: in their order
                if k not in seen:
                    add(k, part)
            facts = replace(facts, interrupted=job.rows)
        except Exception as error:
            said = str(error).splitlines()[0][:200] if str(error) else ""
            facts = replace(facts, broke_down=(job.rows, f"{type(error).__name__}: {said}"))
            if len(done):
                partly = _make_report(done, facts, spec)
                error.partial = partly  # type: ignore[attr-defined]
                rows = len(partly.records if partly.totals is None else partly.totals)
                error.add_note(f"{rows} of {job.rows} rows were finished: see .partial")
            raise
    return done, replace(facts, versions=job.facts.versions)


def _decided(until: Until, spec: Spec, done: Gathered | Tally, part: Chunk) -> bool:
    """Whether a gate has seen enough; proofs that it counted and are withdrawn, it counts anew."""
    if not done.overturned:
        return until.add(Report(spec, part.records).table, spec)
    until.begin()
    return until.add(Report(spec, done.records).table, spec)


def _make_report(done: Gathered | Tally, facts: Facts, spec: Spec) -> Report:
    """The report on what is finished; of data in files, the totals are of all rows."""
    if isinstance(done, Gathered):
        return Report(spec, done.records, checks.of_report(done.records, facts, spec))
    flags = checks.of_report(done.records, replace(facts, all_rows=len(done)), spec)
    return Report(spec, done.records, flags, totals=done.totals)


def describe(job: Job, asked: Expandable) -> Spec:
    """What was asked: the spec of a report, but for what the run adds."""
    data, space = job.data, job.space
    whole = job.source or data
    proves = job.attack is not None and job.attack.needs.is_proof
    return replace(
        (job.game or job.rules).describe(),
        data=data.name or "data",
        data_hash=whole.hash,
        rows=len(whole),
        classes=tuple(map(str, data.classes)) if data.classes else None,
        id_type="int" if data.ids.dtype.kind in "iu" else "str",
        space=None if space is None else to_dict(space, whole=True),
        goal=to_dict(asked, whole=True),
        attack=None if job.attack is None else to_dict(job.attack, whole=True),
        attacks=tuple(dict.fromkeys(attack_names(job.attack))),
        proves=proves,
        audit=PLAN if proves else None,
        threat=_threat(space, asked),
        budget=None if job.budget == Budget() else to_dict(job.budget),
        seed=int(job.seed),
        batch=job.size,
        shown=None if job.source is None else SHOWN,
        chunks=job.count,
        turn=job.at_once,
        versions=versions([job.target, job.game, space, asked, job.attack]),
    )


def _threat(space: Space | None, goal: Expandable) -> str:
    """What the attacker may do and wants; a noun without words of its own is named."""
    wants = description_of(goal) or f"It wins where {format_spec(to_dict(goal))} says."
    if space is None:
        return str(wants)
    moves = description_of(space) or f"The attacker moves in {format_spec(to_dict(space))}."
    return f"{moves} {wants}"


def _check_parts(game: Game, goal: Expandable, run: Run) -> None:
    """What data in files cannot do."""
    if not game.divisible or goal.together:
        what = "rounds that build on each other" if not game.divisible else "a quota"
        raise Unsupported(f"{what} need all rows at once: read the files into an du.Dataset")
    if run.out is None:
        raise DurometerError(
            "data in files: the records need a folder, e.g. run=du.Run('runs/big')"
        )
    if run.until is not None:
        raise Unsupported("until= plays rows in a random order, which files cannot be read in")


def _check(job: Job, run: object) -> None:
    """Every argument is of the kind it should be."""
    if not isinstance(job.seed, int | np.integer):
        raise DurometerError(f"seed={job.seed!r}: expected a whole number")
    if job.batch is not None and (not isinstance(job.batch, int) or job.batch < 1):
        raise DurometerError(f"batch={job.batch!r}: expected a whole number of at least 1")
    for name, value, kind, example in (
        ("budget", job.budget, Budget, "du.Budget(forwards=1000)"),
        ("run", run, Run | None, 'du.Run("runs/night")'),
    ):
        if not isinstance(value, kind):
            raise DurometerError(f"{name}={value!r}: expected e.g. {example}")
    if not isinstance(job.also, list | tuple):
        raise DurometerError(f"also={job.also!r}: expected a list of goals, e.g. [du.Untargeted()]")
    for goal in job.also:
        if isinstance(goal, type) or not isinstance(goal, Expandable):
            raise DurometerError(
                f"also={job.also!r}: {goal!r} is no goal; expected e.g. du.Untargeted()"
            )
