"""A model and a table, asked about all valid pairs: programs over cells, searched and confirmed.

A question becomes one or a few programs (`kernel.py`): minimise the largest of a few costs. A point
that a run finds is built, judged by the schema and asked of the model itself; what fails is taken
out and the search goes on. So nothing found rests on the search, and nothing proven on a point.

What a reader would get wrong: the bound of a run holds for all pairs that its constraints admit, a
superset of the valid ones. It is `high` whatever becomes of the points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from durometer.core.errors import Contradiction, DurometerError, Unsupported, nearest
from durometer.data.columns import as_frame
from durometer.data.dataset import Dataset
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.adapters import adapt
from durometer.model.classifier import AnyModel, Classifier, source_of
from durometer.model.onnx import readable
from durometer.proofs.globally.additive import Additive
from durometer.proofs.globally.additive import read as linear
from durometer.proofs.globally.boxes import Pairs, left_out
from durometer.proofs.globally.cells import Cells
from durometer.proofs.globally.hunt import Costs, Counts, Hunt, Judge, Reading, Search
from durometer.proofs.globally.linear import LinearSearch
from durometer.proofs.globally.network import Network, NetworkSearch
from durometer.proofs.globally.points import Moves, Near, valid
from durometer.proofs.globally.trees import TreeSearch
from durometer.relations.expression import Relation
from durometer.tables.schema import Schema
from durometer.trees.align_ensemble import ensemble_of
from durometer.trees.ensemble import Ensemble

_COMBINATIONS = 256  # of values of the asked features that every record is tried with
_BLOCK = 200_000  # rows that are scored at a time
_AUDITED = 2000  # pairs that a proof is tried to be refuted with

Conditions = Iterable[Relation | str]
Value = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True, eq=False)
class OnRecords:
    """What single records do: how many were asked, how many do it, how strongly."""

    asked: int = 0
    share: float | None = None
    strongest: float | None = None
    sampled: bool = False


@dataclass(frozen=True, eq=False)
class Asked:
    """A model and a table in cells, ready for programs."""

    model: Classifier
    reading: Ensemble | Additive | Network
    schema: Schema  # with the conditions
    conditions: tuple[Relation, ...]
    cells: Cells
    moves: Moves
    data: Floats | None
    typical: Floats
    near: Near | None
    seconds: float
    gap: float

    @staticmethod
    def of(
        model: AnyModel, schema: Schema, of: Sequence[str], where: Conditions, within: Any,
        data: Any, near: float | None, seconds: float, gap: float, ordered: bool = False,
    ) -> Asked:  # fmt: skip
        """Read the model and cut the table; what does not fit is refused by name."""
        if not isinstance(schema, Schema):
            raise DurometerError(f"schema={type(schema).__name__}: expected a du.Schema")
        if isinstance(of, str) or isinstance(where, str | Relation):
            raise DurometerError("of= and where= take lists, e.g. of=['sex']")
        if not number(seconds, "seconds") or not number(gap, "gap"):
            raise DurometerError("seconds= and gap= must be above 0")
        places = tuple(_place(schema, name) for name in of)
        narrowed = Schema(schema.features, [*schema.relations, *where], schema.name)
        moves = Moves(places, _limits(schema, of, within), places[0] if ordered else None)
        if ordered and schema.features[places[0]].kind == "category":
            raise DurometerError(f"feature '{of[0]}' is a category: it has no order")
        frame = None
        if data is not None:
            frame = as_frame(data.table if isinstance(data, Dataset) else data)
        columns = schema.columns if frame is None else schema.columns_of(frame)
        source = source_of(model)
        asked_as = replace(adapt(source, columns=columns), columns=columns)
        reading = read(asked_as, narrowed)
        cells = Cells.of(
            reading if isinstance(reading, Ensemble) else None, narrowed,
            _never_missing(reading, len(schema)) | (set(places) if ordered else set()),
        )  # fmt: skip
        if near is not None and data is None:
            raise DurometerError(f"near={near}: near what? Give records with data=")
        x = None
        if data is not None:
            held = data
            if isinstance(data, Dataset):
                held = data.x if frame is None else data.table
            x = schema.tensor(held).numpy()
        typical = np.full(len(schema), np.nan)
        if x is not None and len(x):
            known = ~np.isnan(x).all(axis=0)
            typical[known] = np.nanquantile(x[:, known], 0.5, axis=0, method="nearest")
        around = None
        if near is not None and x is not None:
            around = Near.of(narrowed, x, number(near, "near"), places)
            if not cells.meets(around.low, around.high).any():
                raise DurometerError(f"near={near}: none of the {len(x)} records fits the schema")
        return Asked(
            asked_as, reading, narrowed, narrowed.relations[len(schema.relations) :], cells, moves,
            x, typical, around, float(seconds), float(gap),
        )  # fmt: skip

    @cached_property
    def search(self) -> Search:
        """How all pairs are looked through: by the kind of the model."""
        if isinstance(self.reading, Ensemble):
            return TreeSearch.of(
                self.reading, self.cells, self.moves, self.typical, self.near, self.seconds,
                self.gap / self.scale,
            )  # fmt: skip
        pairs = Pairs(self.schema, self.moves, self.reading.codes)
        low, high = self.cells.ends
        box = pairs.box(low, high, self.cells.gap)
        if isinstance(self.reading, Additive):
            return LinearSearch(
                self.reading, pairs, box, self.near, self.drawn, self.seconds, self.gap
            )
        return NetworkSearch(
            self.reading, pairs, box, self.near, self.drawn, self.seconds, self.gap
        )

    @property
    def missed(self) -> tuple[str, ...]:
        """The relations that the bound could not use, or not all of."""
        if isinstance(self.reading, Ensemble):
            return tuple(str(r) for r in self.cells.missed)
        return left_out(self.schema, *self.cells.ends)

    # What a score is

    @property
    def votes(self) -> bool:
        """Does every leaf hold probabilities? Then scores are means of these."""
        e = self.reading
        if not isinstance(e, Ensemble) or e.outputs < 2 or e.base.any():
            return False
        leaf = e.value[e.feature < 0]
        if (leaf < 0).any():
            return False
        return bool(np.allclose(leaf.sum(axis=1), 1.0))

    @property
    def scale(self) -> float:
        e = self.reading
        return 1.0 / e.n_trees if isinstance(e, Ensemble) and self.votes else 1.0

    @property
    def rounding(self) -> float:
        """What rounding may add to a difference of two scores, in their unit; of trees, what the
        search's own sums may be off by too."""
        e = self.reading
        own = 0.0
        if isinstance(e, Ensemble):
            own = 1e-11 * float(np.abs(e.value).max(initial=0.0)) * e.n_trees
        return (2 * e.slack() + own) * self.scale

    def unit(self, k: int | None) -> str:
        if not self.votes:
            return "raw score"
        return "lead in probability" if k is None else "probability"

    def output(self, label: object) -> int:
        """The class of this name."""
        classes = self.reading.classes
        if label is None:
            if len(classes) == 2:
                return 1
            raise DurometerError(f"label=None: the model has {len(classes)} classes; name one")
        for k, known in enumerate(classes):
            if known == label or str(known) == str(label):
                return k
        names = [str(c) for c in classes]
        raise DurometerError(f"no class {label!r}{nearest(str(label), names)}: {', '.join(names)}")

    def output_values(self, k: int) -> tuple[Floats, float]:
        """What each term adds to the score of class k, and what it starts from."""
        e = self.reading
        value = self.search.weights
        if e.outputs == 1:
            sign = 1.0 if k == 1 else -1.0
            return sign * value[:, 0], sign * (float(e.base[0]) - e.cut)
        return value[:, k].copy(), float(e.base[k])

    def leads(self, k: int) -> tuple[Floats, Floats]:
        """(terms, rivals) what each term adds to the lead of class k over each rival; the start."""
        e = self.reading
        if e.outputs == 1:
            value, base = self.output_values(k)
            return value[:, None], np.array([base])
        rivals = [j for j in range(e.outputs) if j != k]
        value = self.search.weights
        return value[:, [k]] - value[:, rivals], e.base[k] - e.base[rivals]

    def hunt(
        self, costs: list[Costs], stop: float, judge: Judge, counts: Counts,
        known: Hunt | None = None,
    ) -> Hunt:  # fmt: skip
        """Search until a pair counts, or every pair is excluded, or the time is over."""
        return self.search.hunt(costs, stop, judge, counts, known)

    # What the model says of records

    def moved(self, x: Floats, y: Floats, k: int) -> Floats:
        """(n,) score of x minus score of y."""
        s, t = (self.reading.scores(a) for a in (x, y))
        if self.reading.outputs == 1:
            return np.asarray((s - t)[:, 0] * (1.0 if k == 1 else -1.0))
        return np.asarray((s - t)[:, k] * self.scale)

    def decided(self, x: Floats) -> tuple[Ints, Floats]:
        """(n,) the classes, and by how much each is ahead of every other."""
        label, scores = self.reading.decide(x), self.reading.scores(x)
        if self.reading.outputs == 1:
            return label, np.where(label == 1, 1.0, -1.0) * (scores[:, 0] - self.reading.cut)
        own = np.take_along_axis(scores, label[:, None], 1)[:, 0]
        np.put_along_axis(scores, label[:, None], -np.inf, 1)
        return label, (own - scores.max(axis=1)) * self.scale

    def flipped(self, x: Floats, y: Floats) -> Floats:
        """(n,) the smaller lead of both, -inf where they have one class."""
        (a, ahead), (b, behind) = self.decided(x), self.decided(y)
        return np.where(a == b, -np.inf, np.minimum(ahead, behind))

    def said(self, rows: Floats) -> tuple[str, ...]:
        """The classes that the model itself gives, compared with the reading."""
        theirs = self.model.logits(torch.from_numpy(rows)).argmax(1).numpy()
        read = self.reading.decide(rows)
        sure = ~self.reading.near_tie(rows)
        if (theirs != read)[sure].any():
            raise Unsupported(
                f"the reading of this {self.reading.source} model and the model as it is asked "
                "here differ on a record that was found (categories in other codes?)"
            )
        names = self.model.names or tuple(str(c) for c in self.reading.classes)
        return tuple(str(names[int(k)]) for k in theirs)

    def answers(self, x: Floats) -> Ints:
        """(n,) the class that the model itself gives, among the ensemble's own."""
        theirs = self.model.logits(torch.from_numpy(x)).argmax(1).numpy()
        if self.model.order is None:
            return np.asarray(theirs)
        return np.asarray(np.asarray(self.model.order)[theirs])

    def differ(self, x: Floats, y: Floats) -> bool:
        """Does the model itself give two records different classes?"""
        one, two = self.answers(np.stack([x, y]))
        return bool(one != two)

    def audit(self, contradicts: Callable[[Floats, Floats], Bools]) -> int:
        """Ask the model itself about valid pairs, by none of the search's means.

        Half are records of the data, half lie anywhere in the bounds; the asked features take any
        of their values. Returns how many were asked.
        """
        x, y = self.drawn()
        if len(x) and contradicts(x, y).any():
            at = int(contradicts(x, y).argmax())
            raise Contradiction(
                f"a proof about all valid records is refuted by {x[at].tolist()} and "
                f"{y[at].tolist()}: one of the two is a bug of durometer; please report it"
            )
        return len(x)

    def drawn(self) -> tuple[Floats, Floats]:
        """Some valid pairs, drawn by none of the search's means."""
        rng = np.random.default_rng(0)
        drawn = [self._anywhere(_AUDITED // 2, rng)]
        if self.data is not None and len(self.data):
            drawn.append(self.data[rng.integers(0, len(self.data), _AUDITED // 2)])
        x = np.concatenate(drawn)
        x = x[self._askable(x)]
        y = x.copy()
        other = self._anywhere(len(x), rng)
        y[:, list(self.moves.of)] = other[:, list(self.moves.of)]
        good = self._askable(y) & valid(self.schema, x) & valid(self.schema, y)
        good &= self.moves.allows(x, y)
        if self.near is not None and good.any():
            good[good] = self.near.holds(x[good])
        return x[good], y[good]

    def _anywhere(self, n: int, rng: np.random.Generator) -> Floats:
        """(n, d) values drawn from the bounds, or from the data where there are no bounds."""
        out = np.zeros((n, len(self.schema)))
        for i, f in enumerate(self.schema.features):
            low, high = self.cells.low[i][int(self.cells.gap[i]) :], self.cells.high[i]
            a, b = float(low[0]), float(high[-1])
            if f.kind == "category":
                out[:, i] = rng.choice(np.asarray(f.codes, dtype=np.float64), n)
                continue
            usual = 0.0 if np.isnan(self.typical[i]) else float(self.typical[i])
            if not np.isfinite(a):
                a = min(usual, b) - 10 * (1 + abs(usual))
            if not np.isfinite(b):
                b = max(usual, a) + 10 * (1 + abs(usual))
            out[:, i] = a + rng.random(n) * (b - a)
            if self.schema.whole[i]:
                out[:, i] = np.clip(np.rint(out[:, i]), np.ceil(a), np.floor(b))
        return out

    def on_records(self, value: Value, floor: float, reached: bool = False) -> OnRecords:
        """What valid records do when the asked features take other values."""
        if self.data is None:
            return OnRecords()
        x = self.data[self._askable(self.data)]
        x = x[valid(self.schema, x)] if len(x) else x
        if not len(x):
            return OnRecords(0, None, None)
        combinations, sampled = self._combinations()
        best = np.full(len(x), -np.inf)
        step = max(1, _BLOCK // max(1, len(combinations)))
        for at in range(0, len(x), step):
            part = np.repeat(x[at : at + step], len(combinations), axis=0)
            other = part.copy()
            if self.moves.of:
                every = np.tile(combinations, (len(x[at : at + step]), 1))
                other[:, list(self.moves.of)] = every
            for one, two in ((part, other), (other, part))[: 2 if self.moves.of else 1]:
                good = valid(self.schema, other) & self.moves.allows(one, two)
                found = np.full(len(part), -np.inf)
                if good.any():
                    found[good] = value(one[good], two[good])
                each = found.reshape(-1, len(combinations)).max(axis=1)
                best[at : at + step] = np.maximum(best[at : at + step], each)
        does = best >= floor if reached else best > floor
        does &= np.isfinite(best)
        top = float(best.max())
        return OnRecords(len(x), float(does.mean()), top if np.isfinite(top) else None, sampled)

    def _askable(self, x: Floats) -> Bools:
        """(n,) rows without gaps that the model does not take."""
        e = self.reading
        barred = sorted(_never_missing(e, len(self.schema)))
        gone = np.isnan(x)
        if self.moves.ordered is not None:
            barred.append(self.moves.ordered)
        return np.asarray(~gone[:, barred].any(axis=1))

    def _combinations(self) -> tuple[Floats, bool]:
        """(k, asked features) a value of each of their cells, all combinations or some."""
        if not self.moves.of:
            return np.zeros((1, 0)), False
        values = []
        for i in self.moves.of:
            low, high = self.cells.low[i], self.cells.high[i]
            own = np.where(np.isfinite(high), high, np.where(np.isfinite(low), low, 0.0))
            own = np.where(np.isnan(low), np.nan, own)
            top = self.schema.features[i].high
            if isinstance(top, int | float):
                own = np.minimum(own, top)
            if not isinstance(self.reading, Ensemble) and len(low) - int(self.cells.gap[i]) == 1:
                bottom = low[-1:] if self.schema.features[i].low is None else np.array(
                    [self.schema.features[i].low], dtype=np.float64
                )  # fmt: skip
                own = np.append(own, bottom)
            values.append(own)
        total = float(np.prod([float(len(v)) for v in values]))
        if total <= _COMBINATIONS:
            grid = np.meshgrid(*values, indexing="ij")
            limited = np.isfinite(self.moves.within).any()
            kinds = [self.schema.features[i].kind for i in self.moves.of]
            if not isinstance(self.reading, Ensemble):  # between two values there may be more
                limited |= any(k != "category" for k in kinds)
            return np.stack([g.ravel() for g in grid], axis=1), bool(limited)
        rng = np.random.default_rng(0)
        return np.stack([rng.choice(v, _COMBINATIONS) for v in values], axis=1), True


def read(model: Classifier, schema: Schema) -> Ensemble | Additive | Network:
    """The model as trees, as a sum of single features, or as a network; refused by name."""
    network = model.module is not None or readable(model)
    found: Ensemble | Additive | Network | None = linear(model, schema)
    if found is None:
        found = Network.of(model, schema) if network else ensemble_of(model)
    if found.n_features != len(schema):
        raise DurometerError(
            f"the {found.source} model takes {found.n_features} features, the schema has "
            f"{len(schema)}"
        )
    return found


def _never_missing(reading: Reading, count: int) -> set[int]:
    """Features of which the model takes no missing value."""
    return set(reading.never_missing) if reading.missing else set(range(count))


def _limits(schema: Schema, of: Sequence[str], within: Any) -> tuple[float, ...]:
    if within is None:
        return (np.inf,) * len(of)
    if isinstance(within, Mapping):
        for name in within:
            if name not in of:
                raise DurometerError(f"within names '{name}'{nearest(name, of)}, of= does not")
        sizes = [float(number(within[n], "within")) if n in within else np.inf for n in of]
    else:
        sizes = [float(number(within, "within"))] * len(of)
    for name, size in zip(of, sizes, strict=True):
        if np.isfinite(size) and schema.features[schema.names.index(name)].kind == "category":
            raise DurometerError(
                f"within={size:g}: '{name}' is a category, whose values have no distance"
            )
    return tuple(sizes)


def number(value: Any, name: str) -> float:
    """A number from 0 on, or an error that names it."""
    good = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not good or not np.isfinite(value) or value < 0:
        raise DurometerError(f"{name}={value!r}: expected a number of at least 0")
    return float(value)


def _place(schema: Schema, name: str) -> int:
    if name not in schema.names:
        raise DurometerError(f"no feature '{name}'{nearest(str(name), schema.names)}")
    return schema.names.index(name)
