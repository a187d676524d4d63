"""Bounds: what a network can answer in a whole region at once, so that most rows need no attack.

For each class t of the goal and each class s outside it, the lead of t over s is bounded from above
over the region's box and ball (`bounds/crown.py`). A t that is behind some s everywhere cannot be
reached; a row none of whose t can be reached is proven. In a table whole numbers are rounded
inwards first, and relations only make the set smaller, so the box's bound holds there, too.

Of a goal with many classes each t is bounded against the best class outside alone, and whatever
follows takes, for each t, the s that it is furthest behind. A row whose plain bound ends further
from a proof than `within` of its own clean margins is left: better slopes and cuts at ReLUs do not
bridge that, and its record says so.

Where that is not enough, in this order: the slopes of the bounds are climbed (`alpha` rounds);
boxes with few features that can move are cut in halves, others at their ReLUs (`splits` parts for a
row); and a record of a table is decided by a program of the whole network and all linear rules
(HiGHS, `seconds` a row), which may also break it; of a network too large for that, the last linear
bound is maximised under the rules. In texts the sets are not boxes but choices of words
(`sentences/hull.py`), and cut by words (`splits` sets).

The network is read as a program (`aten/`): a closed list of operations with all their arguments,
each with the rounding of its own arithmetic, so that the bounds hold for what the model computes.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.kernels.arrays import Array
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.aten.program import Program
from durometer.proofs.bounds.branches import FINE, branches, kinks
from durometer.proofs.bounds.certify import certify
from durometer.proofs.bounds.climb import climb
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain
from durometer.proofs.bounds.inputs import domain
from durometer.proofs.bounds.reading import Reading, read_model
from durometer.proofs.bounds.relu_program import MOST, solve
from durometer.proofs.bounds.splits import split
from durometer.proofs.bounds.under_rules import under_rules
from durometer.proofs.text.hull import Bounded
from durometer.proofs.text.search import Sure, decide
from durometer.spaces.discrete import SubstitutionRegion
from durometer.tables.region import TableRegion

_TRIED = 8  # rows on which the network must answer as it was read
_MEMORY = 2 * 10**7  # numbers carried backwards at a time
_PARTS = 1024  # of a certificate
_PAIRS = 64  # leads of a row: of more, each class of the goal against the best other class alone
_SMALL = 24  # unstable ReLUs of a row: so few are cut however far off its plain bound is


@noun
class Bounds:
    """Proves rows of a neural network robust by linear bounds on its outputs over the whole region.

    The methods, in order: CROWN (Zhang et al., 2018); optimised slopes (alpha-CROWN, Xu et al.,
    2021); branch and bound on inputs or ReLUs; for tables a mixed-integer program of the network
    and the linear relations. In texts it bounds sets of word choices. It needs a torch module with
    known layers. Rows are broken only in texts and by the mixed-integer program.

    Args:
        alpha: Rounds of slope optimisation for rows that CROWN leaves open.
        splits: Largest number of parts that a row's region is cut into; 0: none.
        few: Largest number of features that can change for which the inputs are cut; above it ReLUs
            are.
        seconds: Time limit of HiGHS per row of a table, in seconds; 0: not used.
        certificates: Whether to keep a certificate of each proof, which `verify` checks with
            independent code; of networks of linear layers, convolutions and ReLUs.
        within: How far from a proof the plain bound of a row may end, in clean margins of that row,
            for slopes to be optimised and ReLUs to be cut. Rows beyond stay open, and their record
            says why. None: any distance. Rows with few features that can change or few unstable
            ReLUs, and records of a table, are cut and decided at any distance.

    Raises:
        Unsupported: The model is no torch module, or has a layer without bounds; raised when it is
            played.

    >>> import durometer as du
    >>> _, data = du.testing.toy()
    >>> build = lambda: torch.nn.Sequential(
    ...     torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
    ... ).double()
    >>> net = du.training.fresh(build)
    >>> _ = du.training.fit(net, data, du.training.Standard(), epochs=50, rate=0.05)
    >>> report = du.evaluate(net, data, space=du.Linf(0.05), attack=du.Bounds())
    >>> report.metric("proven").value, report.metric("open").value
    (0.8125, 0.1875)
    """

    alpha: int = field(default=20, metadata={"least": 0})
    splits: int = field(default=128, metadata={"least": 0})
    few: int = field(
        default=12, metadata={"least": 0}
    )  # features that can move: more are not worth cutting
    seconds: float = 0.2
    certificates: bool = False
    within: float | None = field(default=None, metadata={"least": 0})
    cpu_only: ClassVar[bool] = True  # in double precision

    @property
    def needs(self) -> Needs:
        return Needs(ANY, layers=True, is_proof=True)

    def __call__(self, problem: Problem) -> None:
        if isinstance(problem.regions, SubstitutionRegion):
            module = copy.deepcopy(problem.model.module).cpu().double().eval()
            for parameter in module.parameters():
                parameter.requires_grad_(False)
            self._words(problem, module)
            return
        rows = problem.undecided
        rows = rows[~problem.left(rows)]
        if not len(rows):
            return
        reading = read_model(problem.model, problem.kept(rows[:_TRIED]))
        pairs = int((problem.goal.sum(1) * (~problem.goal).sum(1)).max())
        pairs = pairs if pairs <= _PAIRS else int(problem.goal.sum(1).max())
        size = max(64, problem.region(rows[:1]).origin.shape[1])
        each = max(1, _MEMORY // (max(pairs, 64) * size * 4))
        for start in range(0, len(rows), each):
            self._rows(problem, rows[start : start + each], reading)

    def _words(self, problem: Problem, module: Any) -> None:
        """Sentences: sets of choices instead of boxes."""
        regions = problem.regions
        whole = isinstance(regions, SubstitutionRegion) and regions.places is None
        if not (whole and isinstance(module, Bounded) and hasattr(module, "words")):
            raise Unsupported(
                f"{self!r}: nothing bounds what {type(module).__name__} says to many sentences at "
                "once (TextCNN and TextLSTM have such bounds; a module of your own gives `parts` "
                "and `highest`, see durometer.proofs.text.hull); use Enumerate"
            )
        for rows in torch.split(problem.undecided, 32):
            spec, t, s = leads(problem.goal[rows])
            decide(problem, rows, module, spec, self._closes(problem, rows, t, s), self.splits)

    def _closes(self, problem: Problem, rows: Tensor, t: Tensor, s: Tensor) -> Sure:
        """What bounds of the leads of t over s must say of the rows `at`."""
        slack = _slack(problem, rows)

        def sure(lead: Tensor, at: Tensor) -> Tensor:
            return proven(lead < -slack[at, None], t[at], s[at], problem.goal[rows[at]])

        return sure

    def _rows(self, problem: Problem, rows: Tensor, reading: Reading) -> None:
        region = problem.region(rows)
        program, layer = reading.program, reading.program.encoder
        rounds = program.operations[0].unit
        held = domain(region, layer, unit=rounds)
        goal = problem.goal[rows]
        every = Leads.of(reading, goal, problem.clean[rows])
        slack = torch.zeros(len(rows), dtype=torch.float64)

        def sure(of: Leads, lead: Tensor, at: Tensor, slack_: Tensor | None = None) -> Tensor:
            most = (slack[at] if slack_ is None else slack_)[:, None]
            return proven(lead + of.offset[at] < -most, of.t[at], of.s[at], goal[at])

        def close(at: Tensor, done: Tensor) -> Tensor:
            """Close what is done of the rows `at`; the others."""
            found = at[done]
            if len(found):
                vacuous = None
                if isinstance(region, TableRegion):
                    wide = domain(region.take(found), layer, anywhere=True, unit=rounds)
                    network = bounded(program, wide)
                    reach = network.highest(every.spec[found])
                    vacuous = sure(every, reach, found, reading.slack(network))
                kept = [
                    self._certificate(
                        problem, rows[k : k + 1], held.take(torch.tensor([k])), reading
                    )
                    for k in (found.tolist() if self.certificates else ())
                ]
                problem.prove(rows[found], vacuous, kept)
            return at[~done]

        left = (held.low.isfinite() & held.high.isfinite()).all(1).nonzero()[:, 0]
        if not len(left):
            return
        table = isinstance(region, TableRegion)
        gap = problem.gap(rows).cpu()
        small = torch.zeros(len(rows), dtype=torch.bool)
        order = -problem.clean[rows].cpu().double().gather(1, every.s)
        # what was found before and did not do is not found again; a softmax needs it for its slack
        again = gap.isnan() if self.within is None else ~(gap <= self.within)
        fresh = left[again[left] | (self.alpha > 0) | reading.turns]
        if len(fresh):
            network = bounded(program, held.take(fresh))
            slack[fresh] = reading.slack(network)
            reach = network.highest(every.spec[fresh])
            order[fresh] = reach + every.offset[fresh]
            gap[fresh] = every.gap(order, goal, reading.margins(problem.clean[rows]))[fresh]
            small[fresh] = network.unstable_of_rows() <= _SMALL
            problem.record_gap(rows[fresh], gap[fresh])
            done = torch.zeros(len(rows), dtype=torch.bool)
            done[fresh] = sure(every, reach, fresh)
            left = close(left, done[left])
        chosen = every.one_each(order)
        near = torch.ones_like(small) if self.within is None else gap <= self.within
        if self.alpha and bool(near[left].any()):
            at = left[near[left]]
            climbed, _ = climb(bounded(program, held.take(at)), chosen.spec[at], self.alpha)
            left = torch.cat([close(at, sure(chosen, climbed, at)), left[~near[left]]])
        unit = torch.where(held.scale.isfinite(), held.scale, 1.0)
        few = ((held.high - held.low) > 1e-4 * unit).sum(1) <= self.few
        if self.splits and bool(few[left].any()):
            at = left[few[left]]
            done = split(
                program, held.take(at), every.spec[at], lambda v, of: sure(every, v, at[of]),
                self.splits,
            )  # fmt: skip
            left = torch.cat([close(at, done), left[~few[left]]])
        # in other norms a table's whole numbers, not its ReLUs, keep rows open
        if self.splits and (not table or held.p == math.inf):
            at = left[(near | small)[left]]
            if len(at):
                if kinks(program) > FINE:
                    done = self._lead_by_lead(program, held.take(at), chosen.take(at), slack[at])
                else:
                    done = branches(
                        program, held.take(at), chosen.spec[at],
                        lambda v, of: sure(chosen, v, at[of]), self.splits,
                    )  # fmt: skip
                left = torch.cat([close(at, done), left[~(near | small)[left]]])
        if not table:
            far = left[~(near | small | few)[left]]
            problem.leave(rows[far], [_far(g) for g in gap[far].tolist()])
        if self.seconds and isinstance(region, TableRegion):
            for k in left.tolist():
                one = torch.tensor([k])
                close(
                    one, self._one_table_row(problem, rows, region, held, k, reading, every, sure)
                )

    def _lead_by_lead(self, program: Program, held: Domain, chosen: Leads, slack: Tensor) -> Tensor:
        """(n,) bool: rows of which every lead is below 0, each cut for itself, the highest first;
        a row that fails at one is asked for no other."""
        network = bounded(program, held)
        every = torch.arange(len(held.centre))
        reach = network.highest(chosen.spec)
        done = reach + chosen.offset < -slack[:, None]
        order = (reach + chosen.offset).argsort(dim=1, descending=True)
        failed = torch.zeros(len(every), dtype=torch.bool)
        for column in order.unbind(1):
            at = (~failed & ~done[every, column]).nonzero()[:, 0]
            if not len(at):
                continue
            one = chosen.pick(at, column[at])
            known = {k: (low[at], high[at]) for k, (low, high) in network.bounds.items()}
            limit = -slack[at] - one.offset[:, 0]

            def judge(v: Tensor, of: Tensor, limit: Tensor = limit) -> Tensor:
                return v[:, 0] < limit[of]

            closed = branches(program, held.take(at), one.spec, judge, self.splits, known)
            failed[at[~closed]] = True
        return ~failed

    def _one_table_row(
        self, problem: Problem, rows: Tensor, region: TableRegion, held: Domain, k: int,
        reading: Reading, every: Leads, sure: Callable[[Leads, Tensor, Tensor], Tensor],
    ) -> Tensor:  # fmt: skip
        """(1,): is the k-th of the rows proven by a program of the whole network, or by its
        relations?"""
        one, program = torch.tensor([k]), reading.program
        walked = bounded(program, held.take(one))
        nothing = torch.tensor([False])
        if not all(
            bool(a.isfinite().all() & b.isfinite().all()) for a, b in walked.bounds.values()
        ):
            return nothing
        if walked.unstable() <= MOST:
            return torch.tensor([self._record(problem, rows[one], region, k, walked, reading)])
        if not region.constrained:
            return nothing
        lead = under_rules(walked, every.spec[one], region, k, program.encoder, self.seconds)
        return nothing if lead is None else sure(every, lead, one)

    def _certificate(
        self, problem: Problem, row: Tensor, held: Domain, reading: Reading
    ) -> bytes | None:
        """What another needs to redo the proof of a row; of scores, not of a softmax."""
        if reading.heads or bool((reading.shift != 0).any()):
            return None
        goal = problem.goal[row]
        spec, _ = reading.spec(leads(goal)[0])
        return certify(reading.program, held, spec, goal, problem.model.hash, _PARTS)

    def _record(
        self, problem: Problem, row: Tensor, region: TableRegion, k: int, network: Network,
        reading: Reading,
    ) -> bool:  # fmt: skip
        """Decide one record by a program of the whole network: broken at once, or is it proven?"""
        goal = problem.goal[row[0]]
        slack = float(reading.slack(network))
        until = time.process_time() + self.seconds
        safe = True
        for t in goal.nonzero()[:, 0].tolist():
            only = torch.zeros_like(goal)
            only[t] = True
            # over the classes outside the goal
            spec, offset = reading.spec(leads(only[None])[0][:, ~goal[~only]])
            left = max(0.01, until - time.process_time())
            most = slack + float(offset.max())
            layer = reading.program.encoder
            below, point = solve(network, spec, region, k, layer, left, most)
            if point is not None and not below and self._tried(problem, row, region, k, point):
                return False
            safe &= below
        return safe

    def _tried(
        self, problem: Problem, row: Tensor, region: TableRegion, k: int, point: Array
    ) -> bool:
        """Hand in a record that should break the row; whether it did."""
        schema, one = region.space.schema, problem.region(row)
        x = torch.from_numpy(np.asarray(point))[None]
        x = torch.where(schema.whole, x.round(), x)
        x = torch.where(schema.mutable, x, region.x0[k])
        problem.submit(row, one.project(one.encode(x)))
        return bool(problem.solved[row].all())


def _slack(problem: Problem, rows: Tensor) -> Tensor:
    """(n,): what single precision may add to a lead."""
    return 3e-5 * problem.clean[rows].abs().amax(1).double() + 1e-6


def bounded(program: Program, held: Domain) -> Network:
    """The network on these domains, with the bounds of its operations."""
    network = Network(program, held)
    with torch.no_grad():
        network.prepare()
    return network


@dataclass(frozen=True, eq=False)
class Leads:
    """The leads of classes t over classes s (n, m) as weights on the output, row by row."""

    spec: Tensor  # (n, m, *shape)
    offset: Tensor  # (n, m): what is added to them
    t: Tensor
    s: Tensor

    @classmethod
    def of(cls, reading: Reading, goal: Tensor, clean: Tensor) -> Leads:
        """Of each class of the goal over each other one; of many, over the best of them alone."""
        weights, t, s = leads(goal, clean)
        return cls(*reading.spec(weights), t, s)

    def take(self, rows: Tensor) -> Leads:
        """These rows (indices, repeats allowed)."""
        return Leads(*(v[rows] for v in (self.spec, self.offset, self.t, self.s)))

    def pick(self, rows: Tensor, column: Tensor) -> Leads:
        """One lead of each of these rows."""
        parts = (self.spec, self.offset, self.t, self.s)
        return Leads(*(v[rows, column][:, None] for v in parts))

    def one_each(self, order: Tensor) -> Leads:
        """One lead for each t: over the s that comes first by `order` (n, m)."""
        found = []
        for t, ranks in zip(
            self.t.tolist(), order.argsort(dim=1, stable=True).tolist(), strict=True
        ):
            best: dict[int, int] = {}
            for j in ranks:
                best.setdefault(t[j], j)
            found.append(sorted(best.values()))
        most = max(len(f) for f in found)
        at = torch.tensor([f + f[:1] * (most - len(f)) for f in found])
        row = torch.arange(len(at))[:, None]
        return Leads(*(v[row, at] for v in (self.spec, self.offset, self.t, self.s)))

    def gap(self, reach: Tensor, goal: Tensor, clean: Tensor) -> Tensor:
        """(n,): how far above 0 the bound of some class of the goal ends, in clean margins."""
        lowest = torch.full(goal.shape, torch.inf, dtype=torch.float64)
        lowest.scatter_reduce_(1, self.t, reach, "amin")
        end = lowest.masked_fill(~goal, -torch.inf).amax(1)
        margin = clean.masked_fill(goal, -torch.inf).amax(1)
        margin = margin - clean.masked_fill(~goal, -torch.inf).amax(1)
        return torch.where(margin > 0, end / margin, torch.inf).nan_to_num(torch.inf)


def _far(gap: float) -> str:
    """Why a row is left."""
    size = f"{gap:.1f}" if gap < 10 else f"{gap:,.0f}"
    away = f"{size} clean margins" if gap < 1e6 else "more than a million clean margins"
    return (
        f"the bounds of its region end {away} away from a proof: too far for better slopes or cuts"
    )


def leads(goal: Tensor, clean: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(n, m, C) the leads of each class t of a goal over each s outside it; t and s are (n, m).

    Rows with fewer pairs repeat their first. With `clean` scores (n, C) and more than `_PAIRS`
    pairs, each t has one: over the class outside the goal whose score is highest.
    """
    n, classes = goal.shape
    many = clean is not None and int((goal.sum(1) * (~goal).sum(1)).max()) > _PAIRS
    outside = (~goal).tolist()
    others = [[s for s, out in enumerate(row) if out] for row in outside]
    if clean is not None and many:
        best = clean.masked_fill(goal.to(clean.device), -torch.inf).argmax(1).tolist()
        others = [[s] for s in best]
    pairs = [[(t, s) for t in g.nonzero()[:, 0].tolist() for s in of]
             for g, of in zip(goal, others, strict=True)]  # fmt: skip
    most = max((len(p) for p in pairs), default=1)
    filled = torch.tensor([p + [p[0]] * (most - len(p)) for p in pairs]).reshape(n, most, 2)
    t, s = filled[..., 0], filled[..., 1]
    one = torch.nn.functional.one_hot
    return (one(t, classes) - one(s, classes)).double(), t, s


def proven(behind: Tensor, t: Tensor, s: Tensor, goal: Tensor) -> Tensor:
    """(n,): is every class of the goal behind some class outside it, wherever one goes?"""
    lost = torch.zeros_like(goal, dtype=torch.int64)
    lost.scatter_add_(1, t, behind.long())
    return ((lost > 0) | ~goal).all(1)
