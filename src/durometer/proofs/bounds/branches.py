"""Branching on ReLUs: what one bound cannot prove is asked for "on" and for "off" apart.

A network whose ReLUs all stand on one side is affine, and its bound is exact; most rows need only a
few of them fixed (Bunel et al. 2020). Each round bounds many parts of all rows at once, with slopes
and multipliers climbed from the parent's (beta-CROWN, Wang et al. 2021). A part that is good, or
empty, is forgotten; the others are cut at one ReLU. A row is proven when none of its parts is left,
and given up when it has used its number of parts.

ReLUs        bounds inside a part                 which ReLU is cut
up to FINE   found anew, by intervals and walks   the one whose chord costs the bound most
more         those of the whole row, met with     of the few that cost most (by chord, by
             the part's own intervals             intercept) the one whose worse side bounds best
                                                  (filtered smart branching, De Palma et al. 2021)

In large networks a row is given up early, where its parts so far say that twice what a cut has
gained, times the cuts that are left, does not reach a proof.

What a reader would get wrong: with many features this beats cutting the box (`splits.py`), which
must halve them one by one; with a handful it does not. And nothing here looks at a clock: a row's
answer must not depend on one. Who wants to end earlier raises in `sure`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from durometer.proofs.aten.curves import Hinge
from durometer.proofs.aten.program import Bound, Curve, Program
from durometer.proofs.bounds.climb import climb, used
from durometer.proofs.bounds.crown import Free, Network
from durometer.proofs.bounds.domain import Domain

FINE = 1024  # ReLUs: in larger networks parts keep the bounds of their row
_ROUNDS = 8  # of climbing, a part
_LAST = 200  # of climbing, a part in which every ReLU is fixed: its bound is a linear program's
_FIRST = 40  # of climbing, a whole row of a large network
_AT_ONCE = 128  # parts
_MEMORY = 2 * 10**7  # numbers carried backwards at a time
_TRIED = 3  # ReLUs of a part by each of two scores, of which the best is cut
_EARLY = 3  # cuts of a part before its row may be given up for slow progress
_HOPE = 2.0  # times what a cut has gained so far

Sure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class _Parts:
    """Parts of rows: whose they are, which ReLUs are fixed, where the climb goes on from."""

    of: Tensor
    signs: dict[int, Tensor]
    free: Free
    depth: Tensor  # how many are fixed

    def take(self, at: Tensor) -> _Parts:
        signs = {n: v[at] for n, v in self.signs.items()}
        return _Parts(self.of[at], signs, self.free.take(at), self.depth[at])


def kinks(program: Program) -> int:
    """How many numbers of an input go through a curve."""
    return sum(math.prod(op.shape) for op in program.operations if isinstance(op, Curve))


def branches(
    program: Program, held: Domain, spec: Tensor, sure: Sure, most: int,
    known: dict[int, Bound] | None = None, fine: int = FINE, early: bool = True,
) -> Tensor:  # fmt: skip
    """(n,) bool: rows all of whose parts are proven; `sure(leads, rows)` judges parts.

    In networks with more than `fine` ReLUs parts keep the bounds of their row, which `known` may
    give, operation by operation; `early` gives up rows there that gain too little.
    """
    n, size = held.centre.shape
    count = kinks(program)
    if count <= fine:
        each = max(1, min(_AT_ONCE, _MEMORY // (max(1, count) * size)))
        return _Search(program, held, spec, sure, most, each, {}).run(Free())
    each = max(1, min(_AT_ONCE, _MEMORY // (16 * (count + size))))
    done = torch.zeros(n, dtype=torch.bool)
    for rows in torch.split(torch.arange(n), each):
        network = Network(program, held.take(rows), known=_rows(known or {}, rows))
        with torch.no_grad():
            network.prepare()
        lead, free = climb(network, spec[rows], _FIRST)
        done[rows] = sure(lead, rows)
        left = (~done[rows]).nonzero()[:, 0]
        if len(left):
            at = rows[left]

            def judge(v: Tensor, of: Tensor, at: Tensor = at) -> Tensor:
                return sure(v, at[of])

            search = _Search(
                program, held.take(at), spec[at], judge, most, each,
                _rows(network.bounds, left), lead[left] if early else None,
            )  # fmt: skip
            done[at] = search.run(free.take(left))
    return done


def _rows(bounds: dict[int, Bound], rows: Tensor) -> dict[int, Bound]:
    return {k: (low[rows], high[rows]) for k, (low, high) in bounds.items()}


@dataclass(eq=False)
class _Search:
    """One batch of rows and all their parts."""

    program: Program
    held: Domain
    spec: Tensor
    sure: Sure
    most: int
    each: int
    known: dict[int, Bound]  # bounds of the rows; empty: parts find their own
    start: Tensor | None = None  # (n, m): leads of the rows

    def run(self, free: Free) -> Tensor:
        """(n,) bool: are all parts of the rows proven?"""
        n = len(self.spec)
        given_up = torch.zeros(n, dtype=torch.bool)
        used = torch.ones(n, dtype=torch.int64)
        queue = [_Parts(torch.arange(n), {}, free, torch.zeros(n, dtype=torch.int64))]
        while queue:
            parts = queue.pop()
            parts = parts.take((~given_up[parts.of]).nonzero()[:, 0])
            for first in range(0, len(parts.of), self.each):
                now = parts.take(torch.arange(first, min(first + self.each, len(parts.of))))
                network = self.network(now)
                lead, free = climb(network, self.spec[now.of], _ROUNDS, now.free)
                left = ~(self.sure(lead, now.of) | network.empty())
                if self.start is not None:
                    hopeless = left & self.slow(lead, now, used)
                    given_up[now.of[hopeless]] = True
                    left &= ~given_up[now.of]
                if not bool(left.any()):
                    continue
                cut, stuck = self.cut(network, lead, free, now, left)
                if len(stuck):
                    given_up[self.unproven(now.take(stuck), free.take(stuck))] = True
                used += torch.bincount(cut.of, minlength=n) // 2
                given_up |= used > self.most
                if len(cut.of):
                    queue.append(cut)
        return ~given_up

    def network(self, parts: _Parts) -> Network:
        """The parts with the bounds of their operations."""
        known = _rows(self.known, parts.of)
        network = Network(self.program, self.held.take(parts.of), parts.signs, known)
        with torch.no_grad():
            network.prepare()
        return network

    def slow(self, lead: Tensor, parts: _Parts, used: Tensor) -> Tensor:
        """(n,) bool: parts whose cuts gain too little for what is left of their row's number."""
        assert self.start is not None
        worst = lead.argmax(1, keepdim=True)
        end = lead.gather(1, worst)[:, 0]
        gained = (self.start[parts.of].gather(1, worst)[:, 0] - end) / parts.depth.clamp_min(1)
        ahead = (self.most / used[parts.of].double()).clamp_min(1).log2()
        return (parts.depth >= _EARLY) & (end > _HOPE * gained * ahead)

    def unproven(self, parts: _Parts, free: Free) -> Tensor:
        """Rows of parts that have nothing left to cut and are not closed by a long climb either."""
        lead, _ = climb(self.network(parts), self.spec[parts.of], _LAST, free)
        return parts.of[~self.sure(lead, parts.of)]

    def cut(
        self, network: Network, lead: Tensor, free: Free, parts: _Parts, left: Tensor
    ) -> tuple[_Parts, Tensor]:
        """Both sides of one ReLU, for the parts that are left; parts without one."""
        chord, intercept = self.costs(network, lead, free, parts)
        best, at = chord.max(1)
        can = left & (best > 0)
        stuck, rows = (left & ~can).nonzero()[:, 0], can.nonzero()[:, 0]
        at, parts, free = at[rows], parts.take(rows), free.take(rows)
        if self.known and len(rows):
            few = min(_TRIED, chord.shape[1])
            some = [score[rows].topk(few, dim=1).indices for score in (chord, intercept)]
            at = self.best_of(torch.cat(some, 1), lead[rows], free, parts)
        return self.sides(at, free, parts), stuck

    def costs(
        self, network: Network, lead: Tensor, free: Free, parts: _Parts
    ) -> tuple[Tensor, Tensor]:
        """(n, ReLUs) twice: what each costs the worst lead, by both lines and by the one above; 0
        where it stands on one side."""
        n = len(lead)
        seen: dict[int, Tensor] = {}
        lines = network.relaxations
        alpha = used(network, free).alpha if self.known else {}
        with torch.no_grad():
            worst = self.spec[parts.of, lead.argmax(1)][:, None]
            network.highest(worst, free=Free(alpha, seen=seen))
        chord, intercept = [], []
        for k, op in _hinges(self.program):
            line = lines[k]
            low, high = network.bounds[op.inputs[0]]
            w = seen.get(k, torch.zeros_like(low)[:, None])[:, 0]
            room = high.clamp_min(0).minimum((-low).clamp_min(0))
            above = w.clamp_min(0) * line.upper_bias
            both = above + (-w).clamp_min(0) * room * 0.5
            chord.append(torch.where(line.unstable, both + 1e-12, 0.0).flatten(1))
            intercept.append(torch.where(line.unstable, above, 0.0).flatten(1))
        if not chord:
            return lead.new_zeros(n, 1), lead.new_zeros(n, 1)
        return torch.cat(chord, 1), torch.cat(intercept, 1)

    def best_of(self, some: Tensor, lead: Tensor, free: Free, parts: _Parts) -> Tensor:
        """(n,): of ReLUs (n, k), the one whose worse side has the lowest bound without a climb."""
        n, k = some.shape
        which = lead.argmax(1)
        ends = torch.empty(2, n * k, dtype=torch.float64)
        rows = torch.arange(n).repeat_interleave(k)
        for at in torch.split(torch.arange(n * k), max(1, self.each // 2)):
            of = rows[at]
            both = self.sides(some.flatten()[at], free.take(of), parts.take(of))
            tried = self.network(both)
            with torch.no_grad():
                spec = self.spec[both.of, which[of].repeat(2)][:, None]
                end = tried.highest(spec, free=used(tried, both.free))[:, 0]
            ends[:, at] = torch.where(tried.empty(), -torch.inf, end).reshape(2, -1)
        worse, better = ends.amax(0), ends.amin(0)
        floor = torch.where(better.isfinite(), better, torch.inf).amin()
        worse = worse + 1e-3 * better.clamp_min(float(floor.clamp(-1e6, 1e6)))  # of equals
        return some.gather(1, worse.reshape(n, k).argmin(1, keepdim=True))[:, 0]

    def sides(self, at: Tensor, free: Free, parts: _Parts) -> _Parts:
        """The parts with their ReLU `at` (n,) on, then the parts with it off."""
        n = len(at)
        place, both = at.repeat(2), torch.arange(n).repeat(2)
        side = torch.cat([torch.ones(n), -torch.ones(n)]).to(torch.int8)
        signs, first = {}, 0
        for k, op in _hinges(self.program):
            size = math.prod(op.shape)
            old = parts.signs.get(k)
            flat = torch.zeros(2 * n, size, dtype=torch.int8)
            if old is not None:
                flat = old[both].flatten(1).clone()
            here = place - first
            mine = ((here >= 0) & (here < size)).nonzero()[:, 0]
            flat[mine, here[mine]] = side[mine]
            signs[k] = flat.reshape(2 * n, *op.shape)
            first += size
        return _Parts(parts.of[both], signs, free.take(both), parts.depth[both] + 1)


def _hinges(program: Program) -> list[tuple[int, Hinge]]:
    return [(k, op) for k, op in enumerate(program.operations) if isinstance(op, Hinge)]
