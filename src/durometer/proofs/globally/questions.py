"""Questions about a whole model: `influence`, `flips`, `monotone`, `reachable`.

Each is a search for the largest value among all valid records, or pairs of them (`asked.py`), and
the same search beside it: near the data, and without the relations that bind the asked features.
"A flip exists" alone misleads where nobody looks like it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from durometer.core.errors import DurometerError
from durometer.kernels.arrays import Bools, Floats
from durometer.model.classifier import AnyModel
from durometer.proofs.globally.answer import Beside, GlobalAnswer, Status
from durometer.proofs.globally.asked import Asked, Conditions, Value, number
from durometer.proofs.globally.hunt import Costs, Hunt
from durometer.proofs.globally.kernel import NEVER
from durometer.relations.expression import Column, walk
from durometer.tables.schema import Schema

NEAR = 0.05  # of each feature's range: what counts as near a record, beside an answer


@dataclass(frozen=True, eq=False)
class _Request:
    """What was asked, before it is read."""

    model: AnyModel
    schema: Schema
    of: Sequence[str]
    where: Conditions
    within: float | Mapping[str, float] | None
    data: Any
    near: float | None
    seconds: float
    gap: float = 1e-3
    ordered: bool = False

    def asked(
        self, schema: Schema | None = None, near: float | None = None, share: float = 1.0
    ) -> Asked:
        """Read, for all valid records or for others."""
        return Asked.of(
            self.model, schema or self.schema, self.of, list(self.where), self.within, self.data,
            self.near if near is None else near, number(self.seconds, "seconds") * share, self.gap,
            self.ordered,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Found:
    """What one search came to."""

    text: str
    status: Status
    hunt: Hunt
    high: float
    rounding: float
    unit: str
    value: Value
    floor: float = 0.0
    reached: bool = False  # a value that equals the floor counts
    contradicts: Callable[[Floats, Floats], Bools] | None = None


_Search = Callable[[Asked, bool], _Found]  # `True`: look for the largest value


def influence(
    model: AnyModel,
    schema: Schema,
    *,
    of: Sequence[str],
    label: object = None,
    most: float | None = None,
    where: Conditions = (),
    within: float | Mapping[str, float] | None = None,
    data: Any = None,
    near: float | None = None,
    seconds: float = 10.0,
    gap: float = 1e-3,
) -> GlobalAnswer:
    """How far some features alone can move the score of any valid record.

    The largest difference of the scores of two valid records that differ in these features only.
    Whether an attacker may change them (`Feature.mutable`) does not matter here.

    Args:
        model: A tree ensemble that `durometer` reads (scikit-learn, XGBoost, LightGBM, CatBoost), a
            linear model of scikit-learn, either behind scalers and encoders, or a torch network
            that takes the columns as numbers.
        schema: What a valid record is: kinds, bounds, categories, gaps, relations.
        of: The features that change.
        label: The class whose score is asked for. None: the second of two classes.
        most: A claim: they move it by at most this. None: no claim, the value is looked for.
        where: Conditions that both records satisfy, e.g. `["age <= 20"]`.
        within: The largest change of each number of `of`, in its own unit; one for all or by name.
            None: any.
        data: Records (a frame, an array or a `Dataset`) that are asked one by one beside it.
        near: Ask only about records whose other features lie within this share of each feature's
            range of a record of `data`. None: about all valid records.
        seconds: Computing time of the search, in seconds; each search beside it has a third.
        gap: Precision of the largest value, in the unit of the score.

    Returns:
        A `GlobalAnswer`.

    Raises:
        DurometerError: A feature does not exist, or a value has the wrong type.
        Unsupported: The model is not read, or a relation names an original record.

    >>> import durometer as du
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> x = np.random.default_rng(0).integers(0, 9, (300, 3)).astype(float)
    >>> forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(x, x[:, 0] > 4)
    >>> schema = du.Schema([du.Feature(n, "integer", 0, 9) for n in "abc"], ["b <= a"])
    >>> answer = du.influence(forest, schema, of=["b"])
    >>> answer.status, round(answer.low, 2), round(answer.high, 2)
    ('proven', 0.14, 0.14)
    """
    names = ", ".join(of)
    claim = None if most is None else number(most, "most")
    text = (
        f"how far does {names} alone move the score?" if claim is None
        else f"does {names} alone move the score by more than {claim:g}?"
    )  # fmt: skip

    def search(asked: Asked, largest: bool) -> _Found:
        k = asked.output(label)
        value, _ = asked.output_values(k)
        costs = Costs(-value[:, None], value[:, None], np.zeros(1))

        def moved(x: Floats, y: Floats) -> Floats:
            return asked.moved(x, y, k)

        def beyond(x: Floats, y: Floats) -> Bools:
            return np.asarray(moved(x, y) > high + 1e-9)

        rounding = 2 * asked.reading.slack() * asked.scale
        most = None if largest else claim
        stop = NEVER if most is None else -(most - rounding) / asked.scale
        done = asked.hunt([costs], stop, _one(moved), lambda v: most is None or v > most)
        high = done.high * asked.scale + rounding
        status: Status
        if most is None:
            near_enough = done.low is not None and high - done.low <= gap + 2 * rounding
            status = "proven" if near_enough else "open"
        else:
            status = _status(done)
        floor = 0.0 if most is None else most
        return _Found(
            text, status, done, high, rounding, asked.unit(k), moved, floor, contradicts=beyond
        )

    return _answered(_Request(model, schema, of, where, within, data, near, seconds, gap), search)


def flips(
    model: AnyModel,
    schema: Schema,
    *,
    of: Sequence[str],
    margin: float = 0.0,
    strongest: bool = False,
    where: Conditions = (),
    within: float | Mapping[str, float] | None = None,
    data: Any = None,
    near: float | None = None,
    seconds: float = 10.0,
    gap: float = 1e-3,
) -> GlobalAnswer:
    """Whether some features alone ever flip a decision: two valid records of different classes
    that differ in nothing else.

    Its value is the smaller of the two leads: by how much the class of each record is ahead of
    every other.

    Args:
        model: A tree ensemble, a linear model or a torch network, as for `influence`.
        schema: What a valid record is.
        of: The features that change, e.g. `["sex"]`.
        margin: The lead that both decisions must have to count, in the unit of the score.
        strongest: Whether to go on after the first flip until none is stronger by more than `gap`.
        where: Conditions that both records satisfy.
        within: The largest change of each number of `of`, in its own unit. None: any.
        data: Records that are asked one by one beside it.
        near: Ask only about records whose other features lie within this share of each feature's
            range of a record of `data`. None: about all valid records.
        seconds: Computing time of the search, in seconds; each search beside it has a third.
        gap: Precision of the strongest flip, in the unit of the score.

    Returns:
        A `GlobalAnswer`.

    Raises:
        DurometerError: A feature does not exist, or a value has the wrong type.
        Unsupported: The model is not read, or a relation names an original record.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> x = np.random.default_rng(0).integers(0, 9, (300, 2)).astype(float)
    >>> tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, x[:, 0] > 4)
    >>> schema = du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"])
    >>> du.flips(tree, schema, of=["b"]).status, du.flips(tree, schema, of=["a"]).status
    ('proven', 'found')
    """
    margin = number(margin, "margin")
    more = f" by a lead of {margin:g}" if margin else ""
    text = f"does {', '.join(of)} alone flip a decision{more}?"

    def search(asked: Asked, largest: bool) -> _Found:
        every = []
        count = asked.reading.n_classes
        for a in range(count):
            for b in range(a + 1, count):
                one, two = asked.leads(a), asked.leads(b)
                zeros = [np.zeros_like(side[0]) for side in (one, two)]
                every.append(
                    Costs(
                        -np.hstack([one[0], zeros[1]]), -np.hstack([zeros[0], two[0]]),
                        -np.append(one[1], two[1]),
                    )
                )  # fmt: skip

        def judge(x: Floats, y: Floats) -> float | None:
            value = float(asked.flipped(x[None], y[None])[0])
            return value if value >= margin and asked.differ(x, y) else None

        def refutes(x: Floats, y: Floats) -> Bools:
            if margin:
                return np.asarray(asked.flipped(x, y) > done.high * asked.scale + rounding + 1e-9)
            return np.asarray(asked.answers(x) != asked.answers(y))

        rounding = asked.reading.slack() * asked.scale
        stop = NEVER if largest else -(margin - rounding) / asked.scale
        done = asked.hunt(every, stop, judge, lambda v: v >= margin)
        if strongest and not largest and done.pair is not None:
            done = asked.hunt(every, NEVER, judge, lambda v: v >= margin, done)
        return _Found(
            text, _status(done), done, done.high * asked.scale + rounding, rounding,
            asked.unit(None), asked.flipped, margin, True, refutes,
        )  # fmt: skip

    return _answered(_Request(model, schema, of, where, within, data, near, seconds, gap), search)


def monotone(
    model: AnyModel,
    schema: Schema,
    *,
    in_: str,
    increasing: bool = True,
    label: object = None,
    tolerance: float = 0.0,
    where: Conditions = (),
    within: float | None = None,
    data: Any = None,
    near: float | None = None,
    seconds: float = 10.0,
) -> GlobalAnswer:
    """Whether the score never falls (or never rises) as one feature grows, whatever the rest is.

    "found" is a pair that violates it, "proven" says that there is none. Gaps in the feature have
    no order and are left aside.

    Args:
        model: A tree ensemble, a linear model or a torch network, as for `influence`.
        schema: What a valid record is.
        in_: The feature that grows: a number.
        increasing: Whether the score should rise with it (True) or fall (False).
        label: The class whose score is asked for. None: the second of two classes.
        tolerance: A violation up to this does not count, in the unit of the score; what rounding
            alone can make never does.
        where: Conditions that both records satisfy.
        within: The largest change of the feature, in its own unit. None: any.
        data: Records that are asked one by one beside it.
        near: Ask only about records whose other features lie within this share of each feature's
            range of a record of `data`. None: about all valid records.
        seconds: Computing time of the search, in seconds; each search beside it has a third.

    Returns:
        A `GlobalAnswer`; its value is the largest step in the wrong direction.

    Raises:
        DurometerError: The feature does not exist or has no order.
        Unsupported: The model is not read, or a relation names an original record.

    >>> import durometer as du
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> x = np.random.default_rng(0).random((300, 2))
    >>> rule = HistGradientBoostingClassifier(max_iter=5, monotonic_cst=[1, 0])
    >>> rule = rule.fit(x, x[:, 0] > x[:, 1])
    >>> schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "ab"])
    >>> du.monotone(rule, schema, in_="a").status, du.monotone(rule, schema, in_="b").status
    ('proven', 'found')
    """
    tolerance = number(tolerance, "tolerance")
    sign = 1.0 if increasing else -1.0
    text = f"does the score ever fail to {'rise' if increasing else 'fall'} with {in_}?"

    def search(asked: Asked, largest: bool) -> _Found:
        k = asked.output(label)
        value, _ = asked.output_values(k)
        costs = Costs(-sign * value[:, None], sign * value[:, None], np.zeros(1))
        rounding = asked.rounding
        allowed = tolerance + rounding

        def wrong(x: Floats, y: Floats) -> Floats:
            return sign * asked.moved(x, y, k)

        stop = NEVER if largest else -allowed / asked.scale
        done = asked.hunt([costs], stop, _one(wrong), lambda v: v > allowed)
        high = done.high * asked.scale + rounding
        return _Found(
            text, _status(done), done, high, rounding, asked.unit(k), wrong, allowed,
            contradicts=lambda x, y: np.asarray(wrong(x, y) > max(high, allowed) + 1e-9),
        )  # fmt: skip

    request = _Request(model, schema, [in_], where, within, data, near, seconds, 1e-3, ordered=True)
    return _answered(request, search)


def reachable(
    model: AnyModel,
    schema: Schema,
    target: object,
    *,
    where: Conditions = (),
    margin: float = 0.0,
    data: Any = None,
    near: float | None = None,
    seconds: float = 10.0,
) -> GlobalAnswer:
    """Whether any valid record that satisfies some conditions ever gets a class.

    Args:
        model: A tree ensemble, a linear model or a torch network, as for `influence`.
        schema: What a valid record is.
        target: The class, as the model calls it.
        where: Conditions on the record, e.g. `["debt > 2 * income"]`.
        margin: The lead over every other class that it must have to count, in the unit of the
            score.
        data: Records that are asked one by one beside it: those that satisfy the conditions.
        near: Ask only about records within this share of each feature's range of a record of
            `data`. None: about all valid records.
        seconds: Computing time of the search, in seconds; each search beside it has a third.

    Returns:
        A `GlobalAnswer`; its value is the lead of the class.

    Raises:
        DurometerError: The model has no such class, or a condition can never hold.
        Unsupported: The model is not read, or a relation names an original record.

    >>> import durometer as du
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> x = np.random.default_rng(0).integers(0, 9, (300, 2)).astype(float)
    >>> tree = DecisionTreeClassifier(random_state=0).fit(x, x[:, 0] > 4)
    >>> schema = du.Schema([du.Feature(n, "integer", 0, 9) for n in "ab"], ["a <= b"])
    >>> du.reachable(tree, schema, True, where=["b <= 4"]).status
    'proven'
    """
    margin = number(margin, "margin")

    def search(asked: Asked, largest: bool) -> _Found:
        wanted = asked.output(target)
        value, base = asked.leads(wanted)
        costs = Costs(-value, np.zeros_like(value), -base)

        def lead(x: Floats, y: Floats) -> Floats:
            label, ahead = asked.decided(x)
            return np.where(label == wanted, ahead, -np.inf)

        def judge(x: Floats, y: Floats) -> float | None:
            value = float(lead(x[None], y[None])[0])
            return value if value >= margin and asked.answers(x[None])[0] == wanted else None

        def refutes(x: Floats, y: Floats) -> Bools:
            if margin:
                return np.asarray(lead(x, y) > done.high * asked.scale + rounding + 1e-9)
            return np.asarray(asked.answers(x) == wanted)

        rounding = asked.reading.slack() * asked.scale
        stop = NEVER if largest else -(margin - rounding) / asked.scale
        done = asked.hunt([costs], stop, judge, lambda v: v >= margin)
        conditions = "; ".join(str(r) for r in asked.conditions)
        text = f"does any valid record{' with ' + conditions if conditions else ''} get {target}?"
        return _Found(
            text, _status(done), done, done.high * asked.scale + rounding, rounding,
            asked.unit(None), lead, margin, True, refutes,
        )  # fmt: skip

    return _answered(_Request(model, schema, [], where, None, data, near, seconds), search)


def _one(value: Value) -> Callable[[Floats, Floats], float | None]:
    """The same of one pair."""
    return lambda x, y: float(value(x[None], y[None])[0])


def _status(done: Hunt) -> Status:
    return "found" if done.pair is not None else "proven" if done.closed else "open"


def _answered(request: _Request, search: _Search) -> GlobalAnswer:
    """Search among all valid records, among those near the data, and without what binds."""
    asked = request.asked()
    found = search(asked, False)
    audited = 0
    if found.status == "proven" and found.contradicts is not None:
        audited = asked.audit(found.contradicts)
    pair = None
    labels: tuple[str, ...] = ()
    if found.hunt.pair is not None:
        rows = np.stack(found.hunt.pair[: 2 if asked.moves.of else 1])
        labels = asked.said(rows)
        pair = asked.schema.frame(rows)
    low, high = found.hunt.low, found.high
    records = asked.on_records(found.value, found.floor, found.reached)
    gone = [
        f.name for i, f in enumerate(asked.schema.features) if f.missing and not asked.cells.gap[i]
    ]
    return GlobalAnswer(
        found.text, found.status, low, high if low is None else max(high, low), found.unit, pair,
        labels, found.rounding, records.asked, records.share, records.strongest, records.sampled,
        tuple(_beside(request, search, found, records.sampled)),
        asked.missed,
        (f"asked about known values only of {', '.join(gone)}",) if gone else (),
        audited, found.hunt.nodes, found.hunt.seconds,
    )  # fmt: skip


def _beside(request: _Request, search: _Search, found: _Found, sampled: bool) -> list[Beside]:
    """The largest value near the data, and without the relations that bind what is asked for."""
    others: list[tuple[str, Asked]] = []
    never = found.status == "proven" and found.hunt.low is None
    if request.data is not None and request.near is None and not never:
        if sampled:
            others.append(
                ("records, with any values of these features", request.asked(None, 0.0, 1 / 3))
            )
        with suppress(DurometerError):  # a feature may have no range to measure a distance by
            others.append((f"within {NEAR:g} of a record", request.asked(None, NEAR, 1 / 3)))
    binding = [r for r in request.schema.relations if _names(r) & set(request.of)]
    if binding:
        rest = [r for r in request.schema.relations if r not in binding]
        free = Schema(request.schema.features, rest, request.schema.name)
        many = f"the {len(binding)} relations that name them"
        said = many if len(binding) > 1 else f"'{binding[0]}'"
        others.append((f"without {said}", request.asked(free, None, 1 / 3)))
    made = []
    for about, asked in others:
        there = search(asked, True)
        low, high = there.hunt.low, there.high
        made.append(Beside(about, low, high if low is None else max(high, low)))
    return made


def _names(r: Any) -> set[str]:
    return {e.name for e in walk(r) if isinstance(e, Column)}
