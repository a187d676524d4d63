"""Config: one run as a TOML file, one to one with the nouns of the library.

    seed = 0
    [data]
    name = "mnist"
    rows = 200
    [model]
    python = "net.py:net"
    [space]
    type = "Linf"
    eps = "8/255"
    [attack]
    type = "Then"
    attacks = [{type = "APGD", steps = 50}, {type = "Square"}]

Everything is checked when the file is read, before anything is loaded: a wrong section, key, type
or value is answered with its line, what was expected and the nearest valid name. What was read can
be written again (`writing`), and reads as the same.

What a reader would get wrong: files that are read are looked for next to the TOML file, or where
its `folder` says; `out`, which is written, is taken from where you stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

import torch

from durometer._evaluate import play
from durometer.attacks.base import Attack
from durometer.config import build, positions
from durometer.config.build import Later, Wrong, at
from durometer.config.models import KINDS as MODELS
from durometer.config.models import Model
from durometer.config.models import named as as_model
from durometer.config.registry import FOLDER, find, implied, parameters, refuse_code, without_code
from durometer.config.sources import Data
from durometer.config.sources import named as as_data
from durometer.core import toml
from durometer.core.errors import DurometerError, nearest
from durometer.core.spec import Provenance
from durometer.data.dataset import Dataset
from durometer.data.parquet import Parquet
from durometer.games.game import Game
from durometer.gates.criterion import Criterion
from durometer.gates.decide import SequentialTest
from durometer.gates.properties import Property, PropertyReport, check_properties
from durometer.goals.classes import Untargeted
from durometer.goals.goal import Expandable, Goal
from durometer.goals.quota import Quota
from durometer.model.classifier import Classifier
from durometer.noise.joint import Noise
from durometer.problem.budget import Budget
from durometer.report.evidence import SCOPE, TAGS
from durometer.report.report import Report
from durometer.run.job import STANDARD, Job
from durometer.run.run import Run
from durometer.spaces.region import Space

NEEDED = ("data", "model")
DATA = ("name", "path", "python", "parquet")  # keys that say where data come from


@dataclass(frozen=True)
class Place:
    """The file a configuration was read from, and where its keys stand."""

    file: Path | None = None
    lines: dict[positions.Path, int] = field(default_factory=dict)
    inside: str = ""  # the file's `folder`

    @property
    def folder(self) -> Path:
        """Where files that are read are looked for."""
        return (self.file.parent if self.file else Path()) / self.inside

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors from inside name the file, the line and the section."""
        try:
            yield
        except Wrong as error:
            spot = (
                f"{self.file or 'configuration'}, line {positions.line_of(self.lines, error.path)}"
            )
            section = f" [{error.path[0]}]" if error.path else ""
            raise DurometerError(f"{spot}{section}: {error}") from error


@dataclass(frozen=True)
class Gate:
    """What the model must clear.

    Args:
        criteria: A list of sentences such as "robust >= 0.8"; all of them must hold.
        alpha: How often a decision may be wrong, at most.
    """

    criteria: Sequence[str]
    alpha: float = 0.05


@dataclass(frozen=True)
class Properties:
    """[properties]: claims about the whole model, decided by proof."""

    claims: Sequence[str]
    near: float | None = None  # only records this near the data
    seconds: float = 10.0  # for each claim

    def check(self, model: Classifier | Game, data: Dataset | Parquet) -> PropertyReport:
        """Decide the claims; the data are asked one by one beside them."""
        rows = data.head() if isinstance(data, Parquet) else data
        if rows.schema is None:
            raise DurometerError(
                "[properties] are about all valid records, and these data have no schema; give one "
                "with schema = in [data]"
            )
        if not isinstance(model, Classifier):
            raise DurometerError("[properties] are about a fixed model, without defense or game")
        return check_properties(model, rows.schema, self.claims, rows, self.near, self.seconds)


@dataclass(frozen=True)
class Threat:
    """What the attacker may do and wants, and who attacks."""

    space: Space | None
    goal: Expandable
    attack: Attack
    also: tuple[Expandable, ...] = ()


@dataclass(frozen=True)
class Config:
    """One run: what `evaluate` is called with, and where the report goes."""

    data: Data
    model: Model
    space: Space | Later | None = None
    goal: Expandable | None = None
    attack: Attack | Later | None = None
    budget: Budget | None = None
    seed: int = 0
    batch: int | None = None
    out: str | None = None
    place: Place = field(default=Place(), compare=False, repr=False)
    noise: Noise | None = None  # instead of a space: nobody attacks
    nature: dict[str, Any] = field(default_factory=dict)  # what `Nature` takes besides the noise
    also: tuple[Expandable, ...] = ()  # further goals, shown in the same report
    defense: Later | None = None  # around the model, which then adapts at test time
    game: Later | None = None  # who moves when; with a defense `Transductive` unless named
    gate: Gate | None = None  # what the model must clear
    properties: Properties | None = None  # what must hold for every valid record
    evidence: dict[str, str] = field(default_factory=dict)  # what a document says of the scope
    folder: str | None = None  # where its files are looked for, seen from the file

    @property
    def provenance(self) -> Provenance:
        """What the spec of a run says besides what is played: fixed before it begins."""
        folder = self.place.folder
        return Provenance(
            gate=SequentialTest(self.gate.criteria, self.gate.alpha).asked if self.gate else None,
            evidence=self.evidence,
            # a defence knows its module only
            model=f"{self.defense.name} on {self.model.name}"
            if self.defense is not None and self.model.name
            else "",
            sources=self.model.sources(folder) | self.data.sources(folder),
        )

    def load(self) -> tuple[Classifier | Game, Dataset | Parquet]:
        """The model (or the game it plays) and the data, opened."""
        with self.place.named():
            with at(("data",)):
                data = self.data.load(self.place.folder)
            with at(("model",)):
                model = self.model.load(self.place.folder)
            if self.defense is not None or self.game is not None:
                return self._game(model), data
            if self.noise is None:
                return model, data
            from durometer.games.nature import Nature

            with at(("nature",)):
                return Nature(model, self.noise, **self.nature), data

    def job(self, loaded: tuple[Classifier | Game, Dataset | Parquet] | None = None) -> Job:
        """What is to be played: model and data, opened here unless they are given, and the rest."""
        if self.space is None and self.noise is None:
            raise DurometerError(
                f"'{self.place.file or 'configuration'}' has [properties] and no [space]: there is "
                "nothing to attack; use durometer properties"
            )
        model, data = loaded or self.load()
        rows, source = (data.head(), data) if isinstance(data, Parquet) else (data, None)
        asked = self.threat(rows)
        return Job(
            model, rows, asked.space, asked.goal, asked.attack, self.seed, self.batch,
            self.budget or Budget(), also=asked.also, source=source,
        )  # fmt: skip

    def play(self, run: Run | None = None, progress: bool | None = None) -> Report:
        """The report of this configuration, played.

        Args:
            run: How it is carried out. None runs it here, in memory.
            progress: Whether to show a progress bar. None shows it in a terminal or a notebook.
        """
        run = run or Run()
        run = replace(run, provenance=self.provenance.updated(run.provenance))
        return play(self.job(), run, progress=progress)

    def _game(self, model: Classifier) -> Game:
        """The game of a file: the model behind its defense, and who moves when."""
        with at(("defense",)):
            needs = implied(self.defense.noun) if self.defense is not None else frozenset()
            if self.defense is not None and "model" in needs and model.module is None:
                raise DurometerError(f"{self.defense.name} adapts a torch module, not {model.kind}")
            defender = self.defense and self.defense.made(model=model.module)
        game = self.game or Later("Transductive", find("games", "Transductive"), {})
        with at(("game",)):
            if "defender" in implied(game.noun) and defender is None:
                raise DurometerError(
                    f"{game.name} is played with a defender: add a table [defense]"
                )
            made: Game = game.made(defender=defender, model=model)
            return made

    def threat(self, data: Dataset | Parquet) -> Threat:
        """The nouns of the file, finished with what the data know."""
        if isinstance(data, Parquet):
            data = data.head()
        space, attack = self.space, self.attack
        with self.place.named():
            if isinstance(space, Later):
                with at(("space",)):
                    space = space.made(schema=data.schema)
            if isinstance(attack, Later):
                with at(("attack",)):
                    attack = attack.made(schema=data.schema, space=space)
            for path, goal in ((("goal",), self.goal), *_numbered("also", self.also)):
                with at(path):
                    _check_classes(goal, data)
        return Threat(space, self.goal or Untargeted(), attack or STANDARD, self.also)


def read(file: str | Path) -> Config:
    """The configuration in a file, checked."""
    return parse(text_of(file), Path(file))


def with_files(file: Path, model: str | None, data: str | None) -> Config:
    """The configuration in a file with another model, or other data, seen from where you stand."""
    tables, place = opened(text_of(file), file)
    return _replaced(tables, place, model, data)


def _replaced(tables: dict[str, Any], place: Place, model: str | None, data: str | None) -> Config:
    """The configuration of these tables with another model, or other data."""
    for name, value, known, kinds in (
        ("model", model, as_model, MODELS), ("data", data, as_data, DATA),
    ):  # fmt: skip
        if value is not None:
            rest = {k: v for k, v in tables.get(name, {}).items() if k not in kinds}
            kind, path = known(value)
            tables[name] = rest | {kind: str(Path().resolve() / path)}
    with place.named():
        return configured(tables, place)


def of_run(folder: Path, model: str, data: str | None) -> Config:
    """The configuration that a run folder holds, with a model of the user's own.

    A folder may come from anybody: its data, space and goal are taken where they are known names
    and files of data; what names code is refused. The model, and `data` where given, are the
    user's and may run code.
    """
    file = folder / "config.toml"
    with without_code(file):
        tables, place = opened(text_of(file), file)
        for name, value in (("data", data), ("model", model)):
            table = tables.get(name)
            if value is None and isinstance(table, dict) and "python" in table:
                with place.named(), at((name, "python")):
                    refuse_code(f"python = {table['python']!r}")
        if isinstance(tables.get("model"), dict):
            tables["model"].pop("trusted", None)  # whom to trust is the user's to say
        return _replaced(tables, place, model, data)


def text_of(file: str | Path) -> str:
    """What a file holds, or an error in a sentence."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DurometerError(f"cannot read '{file}': {error}") from None


def parse(text: str, file: Path | None = None) -> Config:
    """The configuration in a text.

    >>> text = 'data.name = "mnist"\\nmodel.demo = "mnist"\\nspace = {type = "L2", eps = 1.5}'
    >>> parse(text).space
    L2(1.5)
    """
    given, place = opened(text, file)
    with place.named():
        return configured(given, place)


def opened(text: str, file: Path | None = None) -> tuple[dict[str, Any], Place]:
    """The tables of a text as they stand there, and where."""
    given = toml.read(text, str(file or "configuration"))
    return given, Place(file, positions.lines(text))


def configured(given: dict[str, Any], place: Place) -> Config:
    """The configuration that tables describe; what is wrong is `Wrong`, with its path."""
    if "folder" in given:
        with at(("folder",)):
            place = replace(place, inside=build.convert(given["folder"], str, ("folder",)))
    FOLDER.set(place.folder)
    if "sweep" in given:
        raise Wrong(
            ("sweep",), "a sweep is several runs; use durometer run, or durometer.config.sweep.read"
        )
    sections = [f.name for f in fields(Config) if f.name != "place"]
    for key in given:
        if key not in sections:
            raise Wrong((key,), f"nothing is called '{key}' here{nearest(key, sections)}")
    for key in NEEDED:
        if key not in given:
            raise Wrong(
                (), f"the section [{key}] is missing; a run needs {', '.join(NEEDED)}, space"
            )
    _one_threat(given)
    read: dict[str, Any] = {"place": place}
    read["data"] = data_of(given["data"], place.folder)
    with at(("model",)):
        read["model"] = build.convert(given["model"], Model, ("model",))
        read["model"].check(place.folder, ("model",))
    read |= _threat(given)
    for key in ("goal", "attack", "defense", "game"):
        if key in given:
            table = {"type": "Transductive"} | given[key] if key == "game" else given[key]
            read[key] = build.build(f"{key}s", table, (key,))
    if "also" in given:
        read["also"] = also_of(given["also"])
    for key, kind in (
        ("budget", Budget), ("seed", int), ("batch", int), ("out", str), ("folder", str),
    ):  # fmt: skip
        if key in given:
            with at((key,)):
                read[key] = build.convert(given[key], kind, (key,))
    read |= _asked(given)
    if read.get("gate") is not None and isinstance(read.get("goal"), Quota):
        raise Wrong(("gate",), "a quota is about bands of several classes: no gate decides it")
    if read.get("batch", 1) < 1:
        raise Wrong(("batch",), f"batch = {read['batch']}: expected at least 1")
    return Config(**read)


def _threat(given: dict[str, Any]) -> dict[str, Any]:
    """[space], or [noise] with [nature], or neither."""
    if "noise" in given:
        noise = build.build("noises", given["noise"], ("noise",))
        return {"noise": noise, "nature": nature_of(given.get("nature", {}))}
    return {"space": build.build("spaces", given["space"], ("space",))} if "space" in given else {}


def _one_threat(given: dict[str, Any]) -> None:
    """A space with an attacker, or a noise without one."""
    if "space" not in given and "noise" not in given:
        if "properties" in given and "gate" not in given:
            return
        text = "the section [space] is missing; a run needs data, model and space, or noise"
        raise Wrong((), text + " where nobody attacks")
    for key in ("space", "attack", "also", "budget"):
        if "noise" in given and key in given:
            raise Wrong((key,), f"[{key}] and [noise] together: under noise nobody attacks")
    if "nature" in given and "noise" not in given:
        raise Wrong(("nature",), "[nature] belongs to a [noise], which is missing")


def _numbered(key: str, goals: Sequence[Expandable]) -> Iterator[tuple[positions.Path, Expandable]]:
    return (((key, k), goal) for k, goal in enumerate(goals))


def _check_classes(goal: Expandable | None, data: Dataset) -> None:
    """The classes a goal names are the data's; said here, where its line is known."""
    if goal is None or data.classes is None:
        return
    count, rows = len(data.classes), torch.arange(len(data))
    if isinstance(goal, Quota):
        goal.rule(count, data.classes)
    else:
        goal.aims(count, data.classes)  # all it names, also classes without rows here
        cast(Goal, goal).targets(data.y, torch.zeros(len(data), count), rows, data.classes)


def _asked(tables: dict[str, Any]) -> dict[str, Any]:
    """[gate]: what must be cleared. [evidence]: what only people know, for the run's document."""
    found: dict[str, Any] = {}
    if "gate" in tables:
        with at(("gate",)):
            found["gate"] = build.convert(tables["gate"], Gate, ("gate",))
            SequentialTest(
                [Criterion.parse(text) for text in found["gate"].criteria], found["gate"].alpha
            )
    if "properties" in tables:
        with at(("properties",)):
            asked = build.convert(tables["properties"], Properties, ("properties",))
            for text in asked.claims:
                Property.parse(text)
            found["properties"] = asked
    given = tables.get("evidence", {})
    if not isinstance(given, dict):
        raise Wrong(("evidence",), f"expected a table [evidence], got {given!r}")
    for key, value in given.items():
        if key not in (*SCOPE, TAGS):
            raise Wrong(("evidence", key), f"evidence has no field '{key}'{nearest(key, SCOPE)}")
        with at(("evidence", key)):
            build.convert(value, str, ("evidence", key))
    return found | {"evidence": dict(given)}


def also_of(given: object) -> tuple[Expandable, ...]:
    """also: a list of goals."""
    if not isinstance(given, list):
        raise Wrong(
            ("also",), f'expected a list of goals, e.g. [{{type = "Untargeted"}}]; got {given!r}'
        )
    return tuple(build.build("goals", goal, ("also", k)) for k, goal in enumerate(given))


def nature_of(given: object) -> dict[str, Any]:
    """[nature]: how exactly, how long, by which method."""
    from durometer.games.nature import Nature

    path: positions.Path = ("nature",)
    if not isinstance(given, dict):
        raise Wrong(path, f"expected a table [nature], got {given!r}")
    known = {
        k: p for k, p in parameters(Nature).items() if k not in ("model", "noise", "_prepared")
    }
    found = {}
    for key, value in given.items():
        if key not in known:
            raise Wrong((*path, key), f"Nature has no parameter '{key}'{nearest(key, known)}")
        with at((*path, key)):
            found[key] = build.convert(value, known[key].hint, (*path, key))
    return found


def data_of(given: object, folder: Path) -> Data:
    """[data]: keys that are not `Data`'s own belong to the named data set's function."""
    path: positions.Path = ("data",)
    if not isinstance(given, dict):
        raise Wrong(path, f"expected a table [data], got {given!r}")
    name = given.get("name")
    with at((*path, "name")):
        own = parameters(find("datasets", name)) if isinstance(name, str) else {}
    if "options" in given:
        raise Wrong((*path, "options"), "write the data set's parameters straight into [data]")
    options = {k: v for k, v in given.items() if k in own}
    rest = {k: v for k, v in given.items() if k not in own}
    for key in rest:
        known = [*own, *(k for k in parameters(Data) if k != "options")]
        if key not in known:
            raise Wrong((*path, key), f"data has no key '{key}'{nearest(key, known)}")
    for key, value in options.items():
        with at((*path, key)):
            options[key] = build.convert(value, own[key].hint, (*path, key))
    if isinstance(options.get("path"), str):
        options["path"] = str(folder / options["path"])
    with at(path):
        data: Data = build.fill(
            Data, "data", rest | ({"options": options} if options else {}), path
        )
        data.check(folder, path)
    return data
