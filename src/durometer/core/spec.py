"""Spec: what was asked, of whom, with which versions, and how it was carried out.

A run folder's `spec.json` is this dataclass, field by field (`to_json`, `from_json`); who reads a
report reads these fields. The nouns (game, space, goal, attack, noise, budget) are tables as
`durometer.core.serialization` writes them: their type under "type", then their own fields.

What a reader would get wrong: the type of a goal says nothing of its meaning unless it is one of
ours. A goal `mypackage:UntargetedAmong` is not untargeted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from durometer.core.errors import DurometerError
from durometer.core.serialization import Table, format_spec, to_jsonable

IdType = Literal["int", "str"]
Order = Literal["given", "random"]


@dataclass(frozen=True)
class QuotaRule:
    """A `Quota` in class indices.

    Args:
        k: Targets that a band must pass for.
        reuse: Whether an attacker may pass for several targets.
        least: Managers among the targets that must be covered; 0 without managers.
        sources: Classes of the attackers, one of each in a band.
        targets: Classes they want to pass for.
        managers: The targets of which `least` must be covered.
        filled: The sets of (source, target) pairs that fill the quota; None: `k` decides.
        wish: The quota in words, where `filled` says it.
    """

    k: int
    reuse: bool
    least: int = 0
    sources: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    managers: tuple[int, ...] = ()
    filled: tuple[tuple[tuple[int, int], ...], ...] | None = None
    wish: str = ""


@dataclass(frozen=True)
class GateSpec:
    """Criteria that were fixed before the run.

    Args:
        criteria: The criteria, as written, e.g. ("robust >= 0.8",).
        alpha: The share of such decisions that may be wrong, between 0 and 1.
    """

    criteria: tuple[str, ...]
    alpha: float = 0.05


@dataclass(frozen=True)
class AuditSpec:
    """What the auditor tries on a proven row, on the user's own model; fixed before the run.

    Args:
        corners: Farthest steps in random directions; in Linf corners of the box.
        samples: Random points of the region.
        donors: Other rows of the data, pulled into the region.
        starts: Runs of gradient ascent, where the model has gradients.
        steps: Steps of each.
        share: A row is examined with this share of what its proof cost; where that is not enough
            for all rows, some are drawn.
        few: Rows of a run that are examined whatever they cost.
    """

    corners: int = 8
    samples: int = 4
    donors: int = 4
    starts: int = 2
    steps: int = 5
    share: float = 0.1
    few: int = 64


@dataclass(frozen=True)
class Provenance:
    """What a spec says besides what is played: fixed before the run begins.

    Args:
        command: The command line that makes the run; "" from Python.
        gate: Criteria that are fixed beforehand; None: there are none.
        evidence: What people say of the scope: purpose, owner, period, ...
        model: What to call the model, where the game does not know; "": as the game calls it.
        sources: SHA-256 of the files that model and data are read from, by role and name
            ("model/loans.ubj"); empty: from Python.
    """

    command: str = ""
    gate: GateSpec | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def updated(self, other: Provenance) -> Provenance:
        """This one with everything that another says.

        Args:
            other: What is said later; its empty fields change nothing.

        >>> Provenance("durometer run", model="loans").updated(Provenance("durometer gate"))
        Provenance(command='durometer gate', gate=None, evidence={}, model='loans', sources={})
        """
        said = {f.name: getattr(other, f.name) for f in fields(other)}
        return replace(self, **{name: value for name, value in said.items() if value})


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What was asked, of whom, with which versions, and how it was carried out.

    Args:
        game: Who moves when, as a table: {"type": "Static"}.
        model: The model as its owner calls it; its kind where it has no name.
        model_kind: What the model is, e.g. "torch Sequential".
        model_hash: Digest of the model's weights or structure; "unknown" where there is none.
        answers: What the model answers, e.g. "logits" or "labels"; "" where it is not known.
        answers_part: Which of the model's outputs holds the answers; "" where it has one.
        inference_copy: What attacks asked in place of the model; "" for the model itself.
        data: Name of the data set.
        data_hash: Digest of rows and labels.
        rows: Rows of the data set.
        classes: Names of the classes; None where they have none.
        id_type: Whether ids are numbers or text.
        space: What may change, as a table; None where nothing may.
        goal: What counts as success, as a table.
        aims: Classes the attacker wants; None: any wrong one.
        quota: The quota in class indices, where the goal is one.
        attack: The attack, as a table; None where nobody attacks.
        attacks: Names of the attacks it is made of.
        proves: Whether the attack may also prove rows.
        audit: How proven rows are cross-examined; None where nothing may be proven.
        noise: The noise, as a table, where nature moves.
        under: The noise in words.
        threat: What the attacker may do and wants, in words.
        budget: Queries and gradients a row may cost, as a table; None: no limit.
        seed: Seed of all random numbers.
        batch: Rows of one chunk.
        chunks: How many chunks there are.
        turn: Chunks that are played at once.
        shown: Rows of the sample that is kept of data in files; None: all rows are kept.
        order: Whether rows were played in the order of the data or at random.
        shard: This run is part i of n; None: all of it.
        versions: Versions of the libraries the figures depend on.
        command: The command line that made the run; "" from Python.
        gate: Criteria that were fixed beforehand.
        evidence: What people say of the scope: purpose, owner, period, ...
        sources: SHA-256 of the files that model and data were read from, by role and name
            ("model/loans.ubj"); empty: from Python.

    >>> import durometer as du
    >>> net, data = du.testing.toy()
    >>> spec = du.evaluate(net, data, space=du.Linf(0.1), attack=du.PGD(5)).spec
    >>> spec.game_type, spec.rows, spec.text("space"), spec.attacks
    ('Static', 16, 'Linf(0.1)', ('PGD',))
    """

    game: Table = field(default_factory=dict)
    model: str = ""
    model_kind: str = ""
    model_hash: str = ""
    answers: str = ""
    answers_part: str = ""
    inference_copy: str = ""
    data: str = ""
    data_hash: str = ""
    rows: int = 0
    classes: tuple[str, ...] | None = None
    id_type: IdType = "int"
    space: Table | None = None
    goal: Table | None = None
    aims: tuple[int, ...] | None = None
    quota: QuotaRule | None = None
    attack: Table | None = None
    attacks: tuple[str, ...] = ()
    proves: bool = False
    audit: AuditSpec | None = None
    noise: Table | None = None
    under: str = ""
    threat: str = ""
    budget: Table | None = None
    seed: int = 0
    batch: int = 0
    chunks: int = 0
    turn: int = 1
    shown: int | None = None
    order: Order = "given"
    shard: tuple[int, int] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    gate: GateSpec | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def game_type(self) -> str:
        """The type of the game, e.g. "Static"; "" where nothing was asked."""
        return _type(self.game)

    @property
    def is_untargeted(self) -> bool:
        """Any wrong class counts; so it is where nothing is said."""
        return _type(self.goal) in ("Untargeted", "")

    @property
    def is_unattacked(self) -> bool:
        """Nobody attacks, and the spec says so."""
        return bool(self.game) and self.attack is None

    @property
    def information(self) -> str:
        """What the attacker of a transductive game knows."""
        return str(self.game.get("information", "start")) if self.game else ""

    def model_name(self, first: bool = False) -> str:
        """The model as its owner calls it, or "the model": nobody knows "torch Sequential".

        Args:
            first: Whether a sentence begins with it. Default: it does not.

        >>> Spec(model="loans").model_name(), Spec(model="a b", model_kind="a b").model_name(True)
        ('loans', 'The model')
        """
        if self.model and self.model != self.model_kind:
            return self.model
        return "The model" if first else "the model"

    def class_name(self, c: int) -> str | int:
        """The name of a class; where there is none, its index.

        Args:
            c: Index of the class.
        """
        names = self.classes or ()
        return names[int(c)] if 0 <= int(c) < len(names) else int(c)

    def text(self, name: str) -> str:
        """A field for people: nouns as one would write them in Python, "" for None.

        Args:
            name: Name of the field.

        >>> Spec(space={"type": "Linf", "eps": 8 / 255}).text("space")
        'Linf(8/255)'
        """
        value = to_jsonable(getattr(self, name))
        if value is None:
            return ""
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            return ", ".join(value)
        return format_spec(value) if isinstance(value, Mapping | list) else str(value)

    def in_words(self) -> dict[str, str]:
        """The fields that say something, for people, in their order."""
        return {name: self.text(name) for name in self.to_json() if self.text(name)}

    def differences(self, other: Spec) -> list[str]:
        """Names of the fields in which two specs differ.

        Args:
            other: The spec to compare with.
        """
        return [f.name for f in fields(self) if getattr(self, f.name) != getattr(other, f.name)]

    def with_provenance(self, said: Provenance) -> Spec:
        """This spec with what was fixed besides what is played.

        Args:
            said: The command, the criteria, the scope, the name of the model and its files.
        """
        called = said.model or self.model
        known = replace(self, command=said.command, gate=said.gate, evidence=said.evidence)
        return replace(known, model=called, sources=said.sources)

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values for `spec.json`; those at their default are left out."""
        empty = Spec()
        found = ((f.name, getattr(self, f.name), getattr(empty, f.name)) for f in fields(self))
        return {
            name: _plain(value)
            for name, value, default in found
            if name in _ALWAYS or value != default
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Spec:
        """A spec from plain values: those of `to_json`, or of a file of version 0.2.

        Values that are no fields are left out: they are a report's own, or a later version's.

        Args:
            stored: Values by the names of the fields.

        Raises:
            DurometerError: A field holds something else than it should; the message names it.

        >>> Spec.from_json({"rows": 3, "classes": ["no", "yes"]}).classes
        ('no', 'yes')
        """
        if isinstance(stored.get("game"), str):
            raise DurometerError("it was written by version 0.1, which is no longer read")
        return cls(
            **{
                name: read(stored[name], name)
                for name, read in _READERS.items()
                if stored.get(name) is not None
            }
        )


def _type(table: Table | None) -> str:
    return str(table.get("type", "")) if table else ""


def _plain(value: object) -> Any:
    if isinstance(value, QuotaRule | GateSpec | AuditSpec):
        return {k: to_jsonable(v) for k, v in asdict(value).items() if v is not None}
    return to_jsonable(value)


_ALWAYS = ("game", "data", "rows", "seed", "attack", "space", "goal")
_Reader = Callable[[object, str], Any]


def _of(kind: type | tuple[type, ...], expected: str) -> _Reader:
    def read(value: object, name: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DurometerError(f"{name}={str(value)[:80]!r}: expected {expected}")
        return value

    return read


def _tuple_of(item: _Reader) -> _Reader:
    def read(value: object, name: str) -> Any:
        if not isinstance(value, list | tuple):
            raise DurometerError(f"{name}={str(value)[:80]!r}: expected a list")
        return tuple(item(v, name) for v in value)

    return read


def _one_of(*choices: str) -> _Reader:
    def read(value: object, name: str) -> Any:
        if value not in choices:
            raise DurometerError(f"{name}={str(value)[:80]!r}: expected one of {choices}")
        return value

    return read


def _quota(value: object, name: str) -> QuotaRule:
    table = _table(value, name)
    filled = table.get("filled")
    whole = {k: _integer(table.get(k), f"{name}.{k}") for k in ("k", "least")}
    listed = {k: _integers(table.get(k), f"{name}.{k}") for k in ("sources", "targets", "managers")}
    return QuotaRule(
        reuse=_truth(table.get("reuse"), f"{name}.reuse"),
        filled=None if filled is None else _tuple_of(_tuple_of(_pair))(filled, f"{name}.filled"),
        wish=_string(table.get("wish", ""), f"{name}.wish"),
        **whole,
        **listed,
    )


def _texts(value: object, name: str) -> dict[str, str]:
    return {k: _string(v, f"{name}.{k}") for k, v in _table(value, name).items()}


def _pair(value: object, name: str) -> tuple[int, int]:
    found = _integers(value, name)
    if len(found) != 2:
        raise DurometerError(f"{name}={str(value)[:80]!r}: expected two whole numbers")
    return found[0], found[1]


def _counted(value: object, name: str) -> int:
    count: int = _integer(value, name)
    if count < 1:
        raise DurometerError(f"{name}={value}: expected a whole number of at least 1")
    return count


def _shard(value: object, name: str) -> tuple[int, int]:
    i, n = _pair(value, name)
    return _counted(i, name), _counted(n, name)


def _gate(value: object, name: str) -> GateSpec:
    table = _table(value, name)
    return GateSpec(
        _strings(table.get("criteria"), f"{name}.criteria"),
        float(_of((int, float), "a number")(table.get("alpha"), f"{name}.alpha")),
    )


def _audit(value: object, name: str) -> AuditSpec:
    number = _of((int, float), "a number")
    known = {f.name for f in fields(AuditSpec)}
    return AuditSpec(
        **{k: number(v, f"{name}.{k}") for k, v in _table(value, name).items() if k in known}
    )


_string, _integer, _table = _of(str, "text"), _of(int, "a whole number"), _of(dict, "a table")
_strings, _integers = _tuple_of(_string), _tuple_of(_integer)
_truth = _of(bool, "true or false")
_READERS: dict[str, _Reader] = (
    dict.fromkeys(("model", "model_kind", "model_hash", "answers", "answers_part"), _string)
    | dict.fromkeys(("inference_copy", "data", "data_hash", "under", "threat", "command"), _string)
    | dict.fromkeys(("rows", "seed", "batch", "chunks", "shown"), _integer)
    | dict.fromkeys(("game", "space", "goal", "attack", "noise", "budget"), _table)
    | dict.fromkeys(("versions", "evidence", "sources"), _texts)
    | {"classes": _strings, "attacks": _strings, "aims": _integers, "proves": _truth}
    | {"id_type": _one_of("int", "str"), "order": _one_of("given", "random")}
    | {"shard": _shard, "turn": _counted, "quota": _quota, "gate": _gate}
    | {"audit": _audit}
)
