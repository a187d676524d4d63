"""Linear: the exact worst case of a linear model, in every space.

A goal asks for a class t of the goal above every class s outside it. On an Lp ball in a box the
most that t can gain on s has a closed form (`search/highest.py`); in a table it is a mixed-integer
program (`search/milp.py`) with whole numbers, categories and all linear relations, solved only for
rows that the table's box alone does not decide; in a text, for pipelines that count words, it is
the sum of the largest gains (`sentences/bag.py`). The point where it is reached is handed in.

What a reader would get wrong: with several s a bound for each of them alone is only a bound on all
at once; in balls a targeted goal among many classes may stay open, never be called proven wrongly.
"""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.model.answers import ANY
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.proofs.bounds.certify import encode
from durometer.proofs.search.interval_max import interval_max
from durometer.proofs.search.linear_form import LinearForm, read
from durometer.proofs.search.milp import best
from durometer.proofs.text import bag
from durometer.spaces.ball import LpRegion
from durometer.spaces.discrete import SubstitutionRegion
from durometer.tables.region import TableRegion


@noun
class Linear:
    """The exact worst case of a linear model, in every space.

    On Lp balls it has a closed form. In tables it is a mixed-integer program over whole numbers,
    categories and linear relations, solved by HiGHS. In texts it applies to pipelines that count
    words. With several classes outside a targeted goal a row may stay open.

    Args:
        seconds: Time limit of HiGHS per row that needs it, in seconds.
        certificates: Whether to keep a certificate of each proof that rests on bounds and ball
            alone, which `verify` checks with independent code.

    Raises:
        Unsupported: The model is not linear; raised when it is played.

    >>> import numpy as np
    >>> import durometer as du
    >>> from sklearn.linear_model import LogisticRegression
    >>> x = np.random.default_rng(0).random((200, 4))
    >>> y = (x[:, 0] > 0.5).astype(int)
    >>> model = LogisticRegression().fit(x, y)
    >>> report = du.evaluate(
    ...     model, du.Dataset(x[:20], y[:20]), space=du.Linf(0.1), attack=du.Linear()
    ... )
    >>> report.metric("proven").value, report.metric("broken").value, report.metric("open").value
    (0.65, 0.35, 0.0)
    """

    seconds: float = 5.0
    certificates: bool = False
    cpu_only: ClassVar[bool] = True  # in double precision

    @property
    def needs(self) -> Needs:
        return Needs(ANY, is_proof=True)

    def __call__(self, problem: Problem) -> None:
        rows = problem.undecided
        words = problem.region(rows)
        if isinstance(words, SubstitutionRegion):
            self._words(problem, rows, words)
            return
        form = read(problem.model, problem.kept(rows))
        if form is None:
            raise Unsupported(
                f"{self!r}: {problem.model.kind} is not a linear model that can be read (a torch "
                "Linear, or an estimator with coef_, alone or behind scalers); use Bounds or Exact"
            )
        region = problem.region(rows)
        if isinstance(region, LpRegion):
            self._ball(problem, rows, region, form)
        elif isinstance(region, TableRegion):
            self._table(problem, rows, region, form)
        else:
            self._box(problem, rows, region.box(), form)

    def _words(self, problem: Problem, rows: Tensor, region: SubstitutionRegion) -> None:
        """Words that count one by one: the largest gains, as many as may change."""
        counted = bag.read(problem.model.source)
        found, goal = bag.summands(counted, region), problem.goal[rows]
        slack = counted.rounding * (1 + found.size)
        possible = goal.clone()
        for t in range(goal.shape[1]):
            for s in range(goal.shape[1]):
                left = (possible[:, t] & ~goal[:, s]).nonzero()[:, 0]
                if not len(left):
                    continue
                lead, slots = bag.highest(found, region, t, s)
                possible[left, t] &= lead[left] >= -slack[left]
                ask = left[possible[left, t]]
                x = region.options[ask].gather(2, slots[ask][..., None])[..., 0]
                if len(ask):
                    problem.query(rows[ask], x)
        safe = ~possible.any(1) & ~problem.solved[rows]
        problem.prove(rows[safe], region.fixed[safe], passes=goal.shape[1])

    def _ball(self, problem: Problem, rows: Tensor, region: LpRegion, form: LinearForm) -> None:
        """Closed forms, on a ball larger by the slack of `contains` and by Newton's last step."""
        x, by = region.origin.double(), region.channels
        low, high = region.low.double(), region.high.double()
        if by is not None:
            x, low, high = (by.inwards(side.double()) for side in (by.clean, by.low, by.high))
        eps = (region.eps * (1 + 4e-6) + region.rounding()).reshape(-1, 1).expand(len(x), 1)
        if region.p == 0:
            eps = torch.full_like(eps, float(int(region.eps)))
        safe = torch.ones(len(rows), dtype=torch.bool)
        goal = problem.goal[rows]
        for t in range(goal.shape[1]):
            impossible = ~goal[:, t]
            for s in range(goal.shape[1]):
                left = (~impossible & ~goal[:, s]).nonzero()[:, 0]
                if not len(left):
                    continue
                w = (form.weight[t] - form.weight[s]).expand(len(left), -1)
                slope = w if by is None else by.slope(w)
                z = x[left] + interval_max(slope, x[left], low, high, region.p, eps[left])
                at = z if by is None else by.take(left).reached(z)
                lead = (w * at).sum(1) + form.bias[t] - form.bias[s]
                impossible[left[lead < -_slack(form, at)]] = True
                hopeful = lead > 0
                z = region.take(left[hopeful]).project(z[hopeful].to(region.origin.dtype))
                problem.submit(rows[left[hopeful]], z)
            safe &= impossible
        self._prove(problem, rows[safe & ~problem.solved[rows]])

    def _box(
        self, problem: Problem, rows: Tensor, box: tuple[Tensor, Tensor], form: LinearForm
    ) -> Tensor:
        """What the box alone decides: (n,) bool, proven."""
        low, high = (side.reshape(len(rows), -1).double() for side in box)
        goal = problem.goal[rows]
        possible = goal.clone()
        size = _slack(form, torch.maximum(low.abs(), high.abs()))
        for t in range(goal.shape[1]):
            for s in range(goal.shape[1]):
                w = form.weight[t] - form.weight[s]
                lead = torch.where(w > 0, high, low) @ w + form.bias[t] - form.bias[s]
                possible[:, t] &= goal[:, s] | (lead >= -size)
        safe = ~possible.any(1)
        self._prove(problem, rows[safe])
        return safe

    def _prove(self, problem: Problem, rows: Tensor) -> None:
        """Close rows that bounds and ball decide; the checker needs no numbers to redo that."""
        kept = [encode(problem.model.hash, [(-1, 0)], [], [])] if self.certificates else []
        problem.prove(rows, certificates=kept * len(rows), passes=problem.goal.shape[1])

    def _table(self, problem: Problem, rows: Tensor, region: TableRegion, form: LinearForm) -> None:
        low, high = region.box()
        finite = low.isfinite().all(1) & high.isfinite().all(1)
        left = (~self._box(problem, rows, (low, high), form) & finite).nonzero()[:, 0]
        self._corners(problem, rows[left], region.take(left), (low[left], high[left]), form)
        for k in left.tolist():  # a program each: there is nothing to batch
            if not bool(problem.solved[rows[k]].all()):
                self._record(problem, rows[k : k + 1], region, k, (low, high), form)

    def _corners(
        self,
        problem: Problem,
        rows: Tensor,
        region: TableRegion,
        box: tuple[Tensor, Tensor],
        form: LinearForm,
    ) -> None:
        """Ask about the corner of the box where a lead is largest: often it is a valid record."""
        goal = problem.goal[rows]
        for t in range(goal.shape[1]):
            for s in range(goal.shape[1]):
                ask = (goal[:, t] & ~goal[:, s] & ~problem.solved[rows]).nonzero()[:, 0]
                if not len(ask):
                    continue
                w = form.weight[t] - form.weight[s]
                corner = torch.where(w > 0, box[1][ask], box[0][ask])
                corner = torch.where(w == 0, region.x0[ask], corner)
                one = region.take(ask)
                problem.query(rows[ask], corner)
                problem.submit(rows[ask], one.project(one.encode(corner)))

    def _record(
        self,
        problem: Problem,
        row: Tensor,
        region: TableRegion,
        k: int,
        box: tuple[Tensor, Tensor],
        form: LinearForm,
    ) -> None:
        goal = problem.goal[row[0]]
        size = torch.maximum(box[0][k].abs(), box[1][k].abs())[None]
        slack = float(_slack(form, size)[0]) + 1e-6
        ends = time.monotonic() + self.seconds
        safe = True
        for t in goal.nonzero()[:, 0].tolist():
            scores = [
                ((form.weight[t] - form.weight[s]).numpy(), float(form.bias[t] - form.bias[s]))
                for s in (~goal).nonzero()[:, 0].tolist()
            ]
            left = max(0.01, ends - time.monotonic())
            bound, point = best(region, k, box, scores, left)
            if point is not None and bound > 0:
                x = torch.from_numpy(np.asarray(point))[None]
                whole = region.space.schema.whole
                x = torch.where(whole, x.round(), x)
                x = torch.where(region.space.schema.mutable, x, region.x0[k])
                one = problem.region(row)
                problem.query(row, x)
                problem.submit(row, one.project(one.encode(x)))
                if bool(problem.solved[row].all()):
                    return
            safe &= bound < -slack
        if safe:
            problem.prove(row)


def _slack(form: LinearForm, x: Tensor) -> Tensor:
    """(n,): what the model's own arithmetic may add to a difference of two scores at x."""
    size = x.abs() @ form.weight.abs().T + form.bias.abs()
    return 2 * form.rounding * size.amax(1)
