"""Networks: both records at once through one module, bounded by CROWN and cut into boxes.

The module takes (x, u), the features and the asked ones of x', and gives the network's numbers for
x and for x'. It is read like any network (`bounds/reading.py`), so a cost of both is a linear
function of its output, and what x and x' share is one input to the walk back. Boxes with the lowest
bound are cut first, at the coordinate that the bound depends on most; where rules tie coordinates
together the linear function left by the walk is minimised under them (HiGHS, whole numbers free).

What a reader would get wrong: bounds are of what the network computes, rounding included; so the
numbers of the network itself, not of the reading, are what values are made of. And near x = x' a
difference is bounded by the width of the box only: a network is proven monotone up to a tolerance,
never exactly.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.adapters import adapt
from durometer.model.classifier import Classifier
from durometer.proofs.bounds import crown
from durometer.proofs.bounds.domain import Domain
from durometer.proofs.bounds.reading import Reading, read_model
from durometer.proofs.globally.boxes import LOOSE, Box, Pairs, Sum
from durometer.proofs.globally.hunt import Costs, Counts, Hunt, Judge
from durometer.proofs.globally.kernel import NEVER
from durometer.proofs.globally.points import Near, valid
from durometer.tables.schema import Schema

_BATCH = 32  # boxes that are bounded at a time
_TRIED = 30  # of the drawn pairs, the best
_STEPS = 6  # rounds of small changes to the best pair known
_CHANGES = 200  # of a round
Pair = tuple[Floats, Floats]
Draw = Callable[[], Pair]


@dataclass(frozen=True, eq=False)
class Network:
    """A torch network over the columns of a table; with two classes its score is a lead."""

    model: Classifier
    schema: Schema
    numbers: int  # of its output
    classes: tuple[int, ...]

    source: str = "torch"
    missing: bool = False
    never_missing: tuple[int, ...] = ()
    cut: float = 0.0

    @staticmethod
    def of(model: Classifier, schema: Schema) -> Network:
        """What the network gives; refused are networks whose score has no bounds."""
        if model.module is None:
            raise Unsupported(
                "questions about whole models read torch networks; an ONNX file is one after "
                "onnx2torch.convert(path)"
            )
        if model.bound or model.takes != "tensor" or model.answers == "labels":
            raise Unsupported(f"{model.title}: no network that takes a tensor and answers scores")
        for f in schema.features:
            ends = (f.low, f.high)
            if f.kind != "category" and not all(isinstance(v, int | float) for v in ends):
                raise Unsupported(
                    f"feature '{f.name}' has no bounds, so a network's score has none: give low= "
                    "and high= in the schema"
                )
        row = torch.zeros(1, len(schema), dtype=_dtype(model.module))
        with model.ready(), torch.no_grad():
            out = model.module(row)
            logits = model.logits(row)
        if not isinstance(out, Tensor):
            raise Unsupported("a network with several outputs: give the part with the scores")
        return Network(model, schema, out[0].numel(), tuple(range(logits.shape[1])))

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def n_features(self) -> int:
        return len(self.schema)

    @property
    def outputs(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def base(self) -> Floats:
        return np.zeros(self.outputs)

    @property
    def codes(self) -> tuple[Floats | None, ...]:
        """(d,) the values of categories."""
        return tuple(
            np.sort(np.asarray(f.codes, dtype=np.float64)) if f.kind == "category" else None
            for f in self.schema.features
        )

    @property
    def weights(self) -> Floats:
        """(numbers, outputs) what each number of the output adds to each score."""
        if self.numbers == 1:
            return np.ones((1, 1))
        return np.array([[-1.0], [1.0]]) if self.numbers == 2 else np.eye(self.numbers)

    def raw(self, x: Floats) -> Floats:
        """(n, numbers) what the network itself computes."""
        module = self.model.module
        with self.model.ready(), torch.no_grad():
            rows = torch.from_numpy(np.ascontiguousarray(x)).to(_dtype(module))
            out = module(rows).double().reshape(len(x), -1)
        return np.asarray(out.cpu().numpy())

    def scores(self, x: Floats) -> Floats:
        """(n, outputs)."""
        return self.raw(x) @ self.weights

    def decide(self, x: Floats) -> Ints:
        """(n,) the class."""
        s = self.scores(x)
        if self.outputs == 1:
            return np.asarray(s[:, 0] > 0, dtype=np.int64)
        return np.asarray(s.argmax(axis=1))

    def near_tie(self, x: Floats) -> Bools:
        """(n,) is the class a matter of rounding?"""
        s = self.scores(x)
        top = np.sort(np.hstack([s, -s]) if self.outputs == 1 else s, axis=1)
        return np.asarray(top[:, -1] - top[:, -2] <= 1e-5 * (1 + np.abs(s).max(axis=1)))

    def slack(self) -> float:
        """Nothing: its bounds are of what it computes."""
        return 0.0


class _Both(nn.Module):
    """(x, u) -> the network's numbers for x, then for x with the asked features replaced by u."""

    first: Tensor
    second: Tensor

    def __init__(self, network: nn.Module, d: int, of: tuple[int, ...]) -> None:
        super().__init__()
        self.network = network
        second = torch.arange(d)
        for k, i in enumerate(of):
            second[i] = d + k
        self.register_buffer("first", torch.arange(d))
        self.register_buffer("second", second)
        self.training = network.training

    def forward(self, z: Tensor) -> Any:
        one = self.network(z.index_select(1, self.first)).flatten(1)
        two = self.network(z.index_select(1, self.second)).flatten(1)
        return torch.cat([one, two], 1)


@dataclass(frozen=True, eq=False)
class NetworkSearch:
    """Pairs of records for a network."""

    network: Network
    pairs: Pairs
    box: Box
    near: Near | None
    draw: Draw
    seconds: float
    gap: float

    @property
    def weights(self) -> Floats:
        """(numbers, outputs) what each number of the output adds to each score."""
        return self.network.weights

    def hunt(
        self, costs: list[Costs], stop: float, judge: Judge, counts: Counts,
        known: Hunt | None = None,
    ) -> Hunt:  # fmt: skip
        """Search until a pair counts, or every box is closed, or the time is over."""
        deciding = stop > NEVER
        pair, low = (None, None) if known is None else (known.pair, known.low)
        high, closed, nodes, begin = -np.inf, True, 0, time.process_time()
        reading = self._reading()
        for place, c in enumerate(costs):
            spent = time.process_time() - begin
            left = (self.seconds - spent) / (len(costs) - place)
            one = _One(self, reading, c, stop, judge, counts, left)
            found, least = one.run(low)
            nodes += one.nodes
            if found is not None and (low is None or found[1] > low):
                pair, low = found
            high, closed = max(high, -least), closed and least > stop
            if deciding and pair is not None:
                high = high if c is costs[-1] else np.inf
                break
        closed = closed and (pair is None or not deciding)
        return Hunt(pair, low, high, closed, nodes, time.process_time() - begin)

    def _reading(self) -> Reading:
        module = self.network.model.module
        d = len(self.pairs.schema)
        both = _Both(module, d, self.pairs.moves.of).eval()
        rows = torch.zeros(4, d + len(self.pairs.moves.of), dtype=_dtype(module))
        x, y = self.draw()
        if len(x):
            z = np.concatenate([x, y[:, list(self.pairs.moves.of)]], axis=1)[:4]
            rows = torch.from_numpy(z).to(rows.dtype)
        with self.network.model.ready():
            reading = read_model(adapt(both), rows)
        if reading.program.encoder is not None:
            raise Unsupported(
                f"{type(module).__name__}: a network with a table input is not read for questions "
                "about whole models; give one that takes the columns as numbers"
            )
        return reading


@dataclass(eq=False)
class _One:
    """One question: the largest of a few costs as low as it gets."""

    search: NetworkSearch
    reading: Reading
    costs: Costs
    stop: float
    judge: Judge
    counts: Counts
    seconds: float
    nodes: int = 0
    best: tuple[Pair, float] | None = None

    def run(self, low: float | None) -> tuple[tuple[Pair, float] | None, float]:
        """The best pair with its value, and a bound on how low the costs fall."""
        s, until = self.search, time.process_time() + self.seconds
        deciding = self.stop > NEVER
        self._drawn()
        boxes = [s.box] if s.near is None else list(s.pairs.near(s.box, s.near))
        order, least = itertools.count(), np.inf
        heap: list[tuple[float, int, Box]] = [(-np.inf, next(order), b) for b in boxes]
        while heap:
            floor = low if self.best is None else self.best[1]
            enough = self.stop if deciding else np.inf if floor is None else -floor - s.gap / 2
            over = time.process_time() >= until or (deciding and self.best is not None)
            if over or self._closed(heap[0][0], enough):
                break
            some = [heapq.heappop(heap) for _ in range(min(_BATCH, len(heap)))]
            found = self._bounded([box for *_, box in some], enough, until)
            for (before, _, box), (bound, depends) in zip(some, found, strict=True):
                bound = max(bound, before)
                parts = [] if self._closed(bound, enough) else self._cut(box, depends)
                if not parts and not self._void(box):
                    least = min(least, bound)
                for part in parts:
                    heapq.heappush(heap, (bound, next(order), part))
        return self.best, min([least, *(b for b, *_ in heap)])

    def _bounded(self, boxes: list[Box], enough: float, until: float) -> list[tuple[float, Floats]]:
        """How low the costs fall in each box, and how much that depends on each coordinate."""
        self.nodes += len(boxes)
        sides = [
            torch.from_numpy(np.stack([getattr(b, k) for b in boxes])) for k in ("low", "high")
        ]
        unit = max(self.reading.program.operations[0].unit, 2.0**-53)
        wide = [2 * unit * side.abs() for side in sides]
        low, high = sides[0] - wide[0], sides[1] + wide[1]
        size = low.shape[1]
        flat, eps = torch.ones(size, dtype=torch.float64), torch.zeros(len(boxes), 1).double()
        held = Domain((low + high) / 2, low, high, math.inf, eps, flat, flat * 0)
        network = crown.Network(self.reading.program, held)
        weight, start = self._spec()
        with torch.no_grad():
            network.prepare()
            spec, shift = self.reading.spec(-weight.expand(len(boxes), -1, -1))
            tops = network.highest(spec) + shift
            above, const = network.linear(spec)
        least = (start - tops).numpy()  # of each cost and, of several, of their mean
        slopes, consts = -above.numpy(), (start - shift - const).numpy()
        made = []
        for k, box in enumerate(boxes):
            bound, at = float(least[k].max()), int(least[k].argmax())
            if self._ruled and not self._closed(bound, enough) and time.process_time() < until:
                bound = max(bound, self._under_rules(box, slopes[k], consts[k], wide, k))
            elif not self._closed(bound, enough):
                self._ask(np.where(slopes[k, at] > 0, box.low, box.high))
            made.append((bound, np.abs(slopes[k, at]) * (box.high - box.low)))
        return made

    def _spec(self) -> tuple[Tensor, Tensor]:
        """(1, m, numbers of both) the costs as weights on the output, and what they start from."""
        each = np.concatenate([self.costs.first, self.costs.second]).T
        start = self.costs.base
        if len(each) > 1:
            each, start = np.vstack([each, each.mean(axis=0)]), np.append(start, start.mean())
        return torch.from_numpy(each)[None], torch.from_numpy(np.asarray(start))

    @property
    def _ruled(self) -> bool:
        moves = self.search.pairs.moves
        ties = moves.ordered is not None or bool(np.isfinite(moves.within).any())
        return ties or bool(self.search.pairs.schema.relations) or self._grouped

    @property
    def _grouped(self) -> bool:
        return bool(self.search.pairs.schema.one_hot_groups)

    def _under_rules(
        self, box: Box, slopes: Floats, consts: Floats, wide: list[Tensor], k: int
    ) -> float:
        """The same with the rules: each cost is at least a linear function of both records."""
        none = (None,) * slopes.shape[1]
        blur = torch.maximum(*wide)[k].numpy()  # inputs are rounded before the network sees them
        sums = [
            Sum(w, none, np.zeros(len(w)), float(c - (np.abs(w) * blur).sum()))
            for w, c in zip(slopes, consts, strict=True)
        ]
        program = self.search.pairs.program(box, LOOSE)
        least, at = program.least(sums, 1.0, relaxed=True)
        if at is not None:
            self._ask(at)
        return least

    def _cut(self, box: Box, depends: Floats) -> list[Box]:
        """Two halves, at the coordinate that the bound depends on most; none: it is one point."""
        for k in np.argsort(-depends, kind="stable").tolist():
            i = self.search.pairs.features[k]
            a, b = float(box.low[k]), float(box.high[k])
            codes = self.search.pairs.codes[i]
            if codes is not None:
                held = codes[(codes >= a) & (codes <= b)]
                if len(held) < 2:
                    continue
                at, after = float(held[len(held) // 2 - 1]), float(held[len(held) // 2])
            elif bool(self.search.pairs.schema.whole[i]):
                if math.floor(b) <= math.ceil(a):
                    continue
                at = float(math.floor((a + b) / 2))
                after = at + 1
            else:
                at = after = a + (b - a) / 2
                if not a < at < b or b - a <= 1e-9 * (1 + abs(a)):
                    continue
            top, bottom = box.high.copy(), box.low.copy()
            top[k], bottom[k] = at, after
            return [replace(box, high=top), replace(box, low=bottom)]
        return []

    def _void(self, box: Box) -> bool:
        """Is it one pair, and not a valid one? Relations that are not linear say so only here."""
        if not np.array_equal(box.low, box.high):
            return False
        x, y = self._pair(box.low)
        return not bool(_allowed(self.search, x, y)[0])

    def _pair(self, at: Floats) -> tuple[Floats, Floats]:
        """(1, d) both records of a point (F,)."""
        d, of = len(self.search.pairs.schema), list(self.search.pairs.moves.of)
        x = at[None, :d].copy()
        y = x.copy()
        y[0, of] = at[d:]
        return x, y

    def _ask(self, at: Floats) -> None:
        """Is this point (F,) a valid pair that counts?"""
        at = self.search.pairs.inside(at)
        whole = self.search.pairs.schema.whole.numpy()[list(self.search.pairs.features)]
        self._keep(*self._pair(np.where(whole, np.rint(at), at)))

    def _keep(self, x: Floats, y: Floats) -> None:
        """The best of these pairs, the most promising first."""
        s = self.search
        good = _allowed(s, x, y)
        x, y = x[good], y[good]
        if not len(x):
            return
        raw = s.network.raw(np.concatenate([x, y]))
        cost = raw[: len(x)] @ self.costs.first + raw[len(x) :] @ self.costs.second
        cost = (cost + self.costs.base).max(axis=1)
        for k in np.argsort(cost, kind="stable")[:_TRIED]:
            value = self.judge(x[k], y[k])
            if value is not None and self.counts(value):
                if self.best is None or value > self.best[1]:
                    self.best = (x[k].copy(), y[k].copy()), value
                return

    def _drawn(self) -> None:
        """Valid pairs, then small changes to the best of them."""
        s, rng = self.search, np.random.default_rng(0)
        self._keep(*s.draw())
        d, of = len(s.pairs.schema), list(s.pairs.moves.of)
        for step in range(_STEPS if self.best is not None else 0):
            assert self.best is not None
            x, y = (np.tile(side, (_CHANGES, 1)) for side in self.best[0])
            width = (s.box.high[:d] - s.box.low[:d]) * 0.5**step
            some = rng.random((_CHANGES, d)) < 2 / d
            moved = x + np.where(some, width * rng.normal(size=(_CHANGES, d)), 0.0)
            moved = self._fitting(moved)
            y = self._fitting(y + np.where(some, width * rng.normal(size=(_CHANGES, d)), 0.0))
            y = np.where(np.isin(np.arange(d), of), y, moved)
            self._keep(moved, y)

    def _fitting(self, x: Floats) -> Floats:
        """Whole where whole, between the bounds, and a code where there are codes."""
        schema, d = self.search.pairs.schema, x.shape[1]
        x = np.where(schema.whole.numpy(), np.rint(x), x)
        low, high = (side[:d] for side in (self.search.box.low, self.search.box.high))
        x = np.clip(x, low, high)
        for i, codes in enumerate(self.search.pairs.codes):
            if codes is not None:
                x[:, i] = codes[np.abs(x[:, i, None] - codes).argmin(axis=1)]
        return np.asarray(x)

    def _closed(self, bound: float, enough: float) -> bool:
        return bound > enough if self.stop > NEVER else bound >= enough


def _allowed(s: NetworkSearch, x: Floats, y: Floats) -> Bools:
    schema = s.pairs.schema
    good = valid(schema, x) & valid(schema, y) & s.pairs.moves.allows(x, y)
    return np.asarray(good & s.near.holds(x) if s.near is not None else good)


def _dtype(module: nn.Module) -> torch.dtype:
    first = next(module.parameters(), None)
    return torch.float32 if first is None else first.dtype
