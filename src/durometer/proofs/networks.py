"""Bounds: what a network can answer in a whole region at once, so that most rows need no attack.

For each class t of the goal and each class s outside it, the lead of t over s is bounded from above
over the region's box and ball (`bounds/crown.py`). A t that is behind some s everywhere cannot be
reached; a row none of whose t can be reached is proven. In a table whole numbers are rounded
inwards first, and relations only make the set smaller, so the box's bound holds there, too.

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
from dataclasses import field
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
from durometer.proofs.bounds.branches import branches
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
    on_host: ClassVar[bool] = True  # in double precision

    @property
    def needs(self) -> Needs:
        return Needs(ANY, layers=True, box=True, is_proof=True)

    def __call__(self, problem: Problem) -> None:
        if isinstance(problem.regions, SubstitutionRegion):
            module = copy.deepcopy(problem.model.module).cpu().double().eval()
            for parameter in module.parameters():
                parameter.requires_grad_(False)
            self._words(problem, module)
            return
        rows = problem.undecided
        if not len(rows):
            return
        reading = read_model(problem.model, problem.kept(rows[:_TRIED]))
        pairs = int((problem.goal.sum(1) * (~problem.goal).sum(1)).max())
        size = max(64, problem.region(rows[:1]).origin.shape[1])
        each = max(1, _MEMORY // (max(pairs, 64) * size * 4))
        for start in range(0, len(rows), each):
            self._rows(problem, rows[start : start + each], reading)

    def _words(self, problem: Problem, module: Any) -> None:
        """Sentences: sets of choices instead of boxes."""
        whole = getattr(problem.regions, "places", None) is None  # every place has its options
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
        held = domain(region, layer)
        plain, t, s = leads(problem.goal[rows])
        spec, offset = reading.spec(plain)
        slack = torch.zeros(len(rows), dtype=torch.float64)

        def sure(lead: Tensor, at: Tensor, slack_: Tensor | None = None) -> Tensor:
            most = (slack[at] if slack_ is None else slack_)[:, None]
            return proven(lead + offset[at] < -most, t[at], s[at], problem.goal[rows[at]])

        def close(at: Tensor, done: Tensor) -> Tensor:
            """Close what is done of the rows `at`; the others."""
            found = at[done]
            if len(found):
                vacuous = None
                if isinstance(region, TableRegion):
                    wide = domain(region.take(found), layer, anywhere=True)
                    network = bounded(program, wide)
                    vacuous = sure(network.highest(spec[found]), found, reading.slack(network))
                problem.prove(rows[found], vacuous)
            return at[~done]

        left = (held.low.isfinite() & held.high.isfinite()).all(1).nonzero()[:, 0]
        if not len(left):
            return
        network = bounded(program, held.take(left))
        slack[left] = reading.slack(network)
        left = close(left, sure(network.highest(spec[left]), left))
        if self.alpha and len(left):
            climbed, _ = climb(bounded(program, held.take(left)), spec[left], self.alpha)
            left = close(left, sure(climbed, left))
        unit = torch.where(held.scale.isfinite(), held.scale, 1.0)
        few = ((held.high - held.low)[left] > 1e-4 * unit).sum(1) <= self.few
        if self.splits and bool(few.any()):
            at = left[few]
            done = split(
                program, held.take(at), spec[at], lambda v, of: sure(v, at[of]), self.splits
            )
            left = torch.cat([close(at, done), left[~few]])
        table = isinstance(region, TableRegion)
        if self.splits and len(left) and (not table or held.p == math.inf):
            at = left  # in other norms a table's whole numbers, not its ReLUs, keep rows open
            done = branches(
                program, held.take(at), spec[at], lambda v, of: sure(v, at[of]), self.splits
            )
            left = close(at, done)
        if self.seconds and isinstance(region, TableRegion):
            for k in left.tolist():
                one = torch.tensor([k])
                walked = bounded(program, held.take(one))
                if not all(
                    bool(a.isfinite().all() & b.isfinite().all()) for a, b in walked.bounds.values()
                ):
                    continue
                if walked.unstable() <= MOST:
                    safe = self._record(problem, rows[one], region, k, walked, reading)
                    close(one, torch.tensor([safe]))
                elif region.constrained:
                    lead = under_rules(walked, spec[one], region, k, layer, self.seconds)
                    if lead is not None:
                        close(one, sure(lead, one))

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


def leads(goal: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(n, m, C) the leads of each class t of a goal over each s outside it; t and s are (n, m).

    Rows with fewer pairs repeat their first.
    """
    n, classes = goal.shape
    pairs = [[(t, s) for t in g.nonzero()[:, 0].tolist() for s in (~g).nonzero()[:, 0].tolist()]
             for g in goal]  # fmt: skip
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
