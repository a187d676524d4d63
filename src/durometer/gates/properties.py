"""Properties: claims about a whole model, written as one would say them, and decided by proof.

    sex never flips a decision
    sex, race never flip a decision by more than 0.1 where age >= 18
    sex never moves the score by more than 0.5
    income never lowers the score
    nobody gets ">50K" where age <= 20; marital_status == 'Never-married'

A claim holds when it is proven for every valid record, fails when a valid record or pair refutes it
(kept, as rows), and is undecided where neither was shown in the time. No rows are drawn, so none of
these is ever wrong with some probability.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import durometer
from durometer.core import durable_files
from durometer.core.errors import DurometerError
from durometer.core.validation import noun
from durometer.model.classifier import AnyModel, source_of
from durometer.proofs.globally.answer import GlobalAnswer, Status
from durometer.proofs.globally.questions import flips, influence, monotone, reachable
from durometer.tables.schema import Schema

Decided = Literal["pass", "fail", "undecided"]
_OUTCOME: dict[Status, Decided] = {"proven": "pass", "found": "fail", "open": "undecided"}
_BY = r"(?:\s+by more than\s+(?P<by>[-+.\w]+))?"
_WHERE = r"(?:\s+where\s+(?P<where>.+?))?\s*"
_LABEL = r"(?:\s+of\s+(?P<label>\"[^\"]*\"|'[^']*'|\S+))?"
_FORMS = (
    re.compile(rf"\s*(?P<of>.+?)\s+never\s+(?P<claim>flip)s?\s+a decision{_BY}{_WHERE}"),
    re.compile(
        rf"\s*(?P<of>.+?)\s+never\s+(?P<claim>move|lower|raise)s?\s+the score{_LABEL}{_BY}{_WHERE}"
    ),
    re.compile(rf"\s*nobody\s+(?P<claim>get)s\s+(?P<label>\"[^\"]*\"|'[^']*'|\S+){_BY}{_WHERE}"),
)


@noun
class Property:
    """A claim about a whole model.

    As text: `sex never flips a decision by more than 0.1`, `age never moves the score by more than
    0.5`, `income never lowers the score`, `nobody gets ">50K" where age <= 20`.

    Args:
        claim: What never happens: "flip" (these features alone change the class), "move" (they
            change the score), "lower" or "raise" (the score falls, or rises, as a feature grows),
            "get" (a record gets a class).
        of: The features that change. Empty for "get".
        by: What does not count yet: a flip whose smaller lead is at most this, a change of the
            score up to this. In the unit of the score.
        label: The class whose score is meant, or that nobody gets. None: the second of two classes.
        where: Conditions on the records, e.g. `["age >= 18"]`.

    Raises:
        DurometerError: The parts do not make a claim.

    >>> print(Property("flip", ["sex"], by=0.1))
    sex never flips a decision by more than 0.1
    """

    claim: Literal["flip", "move", "lower", "raise", "get"]
    of: Sequence[str] = ()
    by: float = 0.0
    label: str | None = None
    where: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("of", "where"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.claim == "get":
            if self.of or self.label is None:
                raise DurometerError(f"property '{self}': expected a class and no features")
        elif not self.of or (self.claim in ("lower", "raise") and len(self.of) != 1):
            count = "one feature" if self.claim in ("lower", "raise") else "features"
            raise DurometerError(f"property '{self}': expected {count} with of=")
        if self.claim == "flip" and self.label is not None:
            raise DurometerError(f"property '{self}': a flip is of any class; leave label= out")

    @classmethod
    def parse(cls, text: str) -> Property:
        """Reads a claim from text.

        Args:
            text: One line, as in the examples above.

        Raises:
            DurometerError: The text is no claim.
        """
        found = next((m for m in (form.fullmatch(text) for form in _FORMS) if m), None)
        if found is None:
            raise DurometerError(
                f"property '{text}': expected e.g. 'sex never flips a decision by more than 0.1', "
                "'age never moves the score by more than 0.5', 'income never lowers the score' or "
                "'nobody gets \">50K\" where age <= 20'"
            )
        parts = found.groupdict()
        by, label, where = parts["by"], parts.get("label"), parts["where"]
        try:
            size = 0.0 if by is None else float(by)
        except ValueError:
            raise DurometerError(f"property '{text}': '{by}' is no number") from None
        of = [] if parts.get("of") is None else re.split(r"\s*,\s*|\s+and\s+", parts["of"])
        claim: Any = parts["claim"]  # one of the words in the forms
        return cls(
            claim, [_bare(name) for name in of], size,
            None if label is None else _bare(label),
            [] if where is None else [c for c in re.split(r"\s*;\s*", where) if c],
        )  # fmt: skip

    def __str__(self) -> str:
        by = f" by more than {self.by:g}" if self.by else ""
        where = f" where {'; '.join(self.where)}" if self.where else ""
        if self.claim == "get":
            return f'nobody gets "{self.label}"{by}{where}'
        verb = self.claim if len(self.of) > 1 else f"{self.claim}s"
        what = "a decision" if self.claim == "flip" else "the score"
        label = f' of "{self.label}"' if self.label is not None else ""
        return f"{', '.join(self.of)} never {verb} {what}{label}{by}{where}"

    def ask(
        self,
        model: AnyModel,
        schema: Schema,
        data: Any = None,
        near: float | None = None,
        seconds: float = 10.0,
    ) -> GlobalAnswer:
        """Decides the claim on a model.

        Args:
            model: A model that `du.flips` takes.
            schema: What a valid record is.
            data: Records to ask one by one beside it.
            near: Only records within this share of each feature's range of `data`. None: all valid
                records.
            seconds: Computing time, in seconds.

        Returns:
            The `GlobalAnswer`: "proven" where the claim holds, "found" where it does not.
        """
        more: dict[str, Any] = {
            "where": self.where, "data": data, "near": near, "seconds": seconds
        }  # fmt: skip
        beyond = float(np.nextafter(self.by, np.inf)) if self.by else 0.0
        if self.claim == "flip":
            return flips(model, schema, of=self.of, margin=beyond, **more)
        if self.claim == "move":
            return influence(model, schema, of=self.of, label=self.label, most=self.by, **more)
        if self.claim == "get":
            return reachable(model, schema, self.label, margin=beyond, **more)
        return monotone(
            model, schema, in_=self.of[0], increasing=self.claim == "lower", label=self.label,
            tolerance=self.by, **more,
        )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PropertyReport:
    """Claims about a whole model, and what came of each.

    Args:
        properties: The claims.
        answers: The answer to each.
        model: What the model is, in words.
        relations: What valid records satisfy.

    >>> answer = GlobalAnswer("does sex alone flip a decision?", "proven", None, -0.2, "score")
    >>> print(PropertyReport((Property.parse("sex never flips a decision"),), (answer,)))
    pass       sex never flips a decision
               proven: no valid record does; largest value: none, whatever the records (score)
    """

    properties: tuple[Property, ...]
    answers: tuple[GlobalAnswer, ...]
    model: str = ""
    relations: tuple[str, ...] = ()

    @property
    def outcomes(self) -> tuple[Decided, ...]:
        """Of each claim: "pass" (proven), "fail" (refuted) or "undecided"."""
        return tuple(_OUTCOME[a.status] for a in self.answers)

    @property
    def outcome(self) -> Decided:
        """ "fail" if one fails, "pass" if all pass, else "undecided"."""
        found = set(self.outcomes)
        return "fail" if "fail" in found else "pass" if found == {"pass"} else "undecided"

    @property
    def lines(self) -> tuple[str, ...]:
        """Of each claim the decision and, on a line of its own, what was found."""
        return tuple(
            f"{outcome:<9}  {p}\n           {a.verdict}; largest value: {a.value}"
            for outcome, p, a in zip(self.outcomes, self.properties, self.answers, strict=True)
        )

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def content(self) -> dict[str, Any]:
        """Everything as plain values, with the SHA-256 of all the rest as `digest`."""
        both = zip(self.properties, self.outcomes, self.answers, strict=True)
        body = {
            "durometer": durometer.__version__,
            "model": self.model,
            "relations": list(self.relations),
            "properties": [{"claim": str(p), "outcome": o, **a.table()} for p, o, a in both],
        }
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return {**body, "digest": hashlib.sha256(text.encode()).hexdigest()}

    def save(self, folder: str | Path) -> Path:
        """Writes `properties.json` and `properties.html`.

        Args:
            folder: The folder; made where it does not exist.

        Returns:
            The page.
        """
        from durometer.report.page.properties import page

        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.content, indent=1, ensure_ascii=False, allow_nan=False)
        durable_files.write(target / "properties.json", text + "\n")
        durable_files.write(target / "properties.html", page(self))
        return target / "properties.html"


def check_properties(
    model: AnyModel,
    schema: Schema,
    properties: Iterable[Property | str] | str,
    data: Any = None,
    near: float | None = None,
    seconds: float = 10.0,
) -> PropertyReport:
    """Decides claims about a whole model by proof.

    Args:
        model: A model that `du.flips` takes.
        schema: What a valid record is.
        properties: One claim or several, as text or as `Property`.
        data: Records to ask one by one beside it.
        near: Only records within this share of each feature's range of `data`. None: all valid
            records.
        seconds: Computing time per claim, in seconds.

    Returns:
        A `PropertyReport`.

    Raises:
        DurometerError: There is no claim, or one names no feature or class.
        Unsupported: The model is not read.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> x = np.random.default_rng(0).integers(0, 9, (300, 2)).astype(float)
    >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, x[:, 0] > 4)
    >>> schema = du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"])
    >>> du.check_properties(tree, schema, ["b never flips a decision"]).outcome
    'pass'
    """
    given = [properties] if isinstance(properties, str) else list(properties)
    claims = tuple(Property.parse(p) if isinstance(p, str) else p for p in given)
    if not claims:
        raise DurometerError("no property; expected e.g. ['sex never flips a decision']")
    answers = tuple(p.ask(model, schema, data, near, seconds) for p in claims)
    return PropertyReport(
        claims, answers, type(source_of(model)).__name__,
        tuple(str(r) for r in schema.relations),
    )  # fmt: skip


def _bare(name: str) -> str:
    return name.strip().strip("\"'`")
