"""Greedy and Beam: searches for sequences that replace one symbol after the other.

    Greedy("gain")        every single replacement is tried; positions are then gone through by what
                          the best replacement gained, each time taking what helps most now (PWWS,
                          Ren et al. 2019, without its softmax over saliencies)
    Greedy("importance")  positions in the order of what the score loses when their symbol is taken
                          out (TextFooler, Jin et al. 2020)
    Beam(width)           at each step all single replacements of the best `width` sequences are
                          tried and the best `width` kept; Beam(1) reconsiders every position

Neither plan looks back, so what is still open afterwards gets up to `swaps` exchanges: the change
that matters least is taken back and the best other one made, or, if that was none, the next least.
The pass is steered by the goal's log odds, all its classes together; the exchange by the margin,
the one class that is nearest: what the first cannot reach is often near by the second.
`Greedy(order, swaps=0)` is the plan of the papers.

All rows are asked at once. They work in any region of choices: words, letters, bytes.

What a reader would get wrong: a replacement counts only if it raises the score; what makes it worse
is not taken even if the budget allows it.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

import torch
from torch import Tensor

from durometer import losses
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.losses import Loss
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.discrete import SubstitutionRegion

BLOCK = 4096  # queries at a time
OUT = 0.0  # in the place of a symbol that is taken out: padding, which no vocabulary knows


@noun
class Greedy:
    """Replaces words or symbols one position after the other; no gradients needed.

    `Greedy("gain", swaps=0)` is PWWS (Ren et al., 2019) without its softmax over saliencies,
    `Greedy("importance", swaps=0)` the order of TextFooler (Jin et al., 2020).

    Args:
        order: Which position comes first: "gain" (the one whose best replacement helps most) or
            "importance" (the one whose removal changes the score most).
        swaps: Exchanges tried afterwards on rows still open: the change that matters least is taken
            back and the best other one made.

    Raises:
        DurometerError: There is no such order.

    >>> import torch
    >>> import durometer as du
    >>> likes = lambda texts: torch.tensor([[float("good" in t), 0.5] for t in texts])
    >>> film = du.wrap(likes, inputs="text")
    >>> data = du.Dataset(["a good film", "such a good and good film"], [0, 0])
    >>> space = du.Text(du.Synonyms({"good": ("fine",)}), most=0.3)
    >>> report = du.evaluate(film, data, space=space, attack=du.Greedy())
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.5)
    """

    order: Literal["gain", "importance"] = "gain"
    swaps: int = field(default=8, metadata={"least": 0})

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        region = choices_of(problem, rows, self)
        if region.options.shape[2] == 1:  # nothing can change
            return
        slots = torch.zeros(region.options.shape[:2], dtype=torch.int64)
        value = _ask(problem, rows, region, slots)
        others = region.there[..., 1:].any(2)  # (n, L)
        singles = None
        if self.order == "gain":
            singles = _singles(problem, rows, region, slots, others)
            gain = singles.amax(2)
        else:
            gain = _without(problem, rows, region, others)  # the goal gains where a word is missed
        order = gain.masked_fill(~others, -torch.inf).argsort(dim=1, descending=True, stable=True)
        for k in range(int(others.sum(1).max()) if len(rows) else 0):
            place = order[:, k]
            spare = (slots > 0).sum(1) < region.most
            go = problem.alive(rows) & spare & others[torch.arange(len(rows)), place]
            at = go.nonzero()[:, 0]
            if not len(at):
                continue
            if k == 0 and singles is not None:  # nothing has changed since they were asked
                found = singles[at]
            else:
                only = torch.zeros_like(others[at])
                only[torch.arange(len(at)), place[at]] = True
                found = _singles(problem, rows[at], region.take(at), slots[at], only)
            best, slot = found[torch.arange(len(at)), place[at]].max(1)
            better = best > value[at]
            slots[at[better], place[at[better]]] = slot[better] + 1
            value[at[better]] = best[better]
        if self.swaps:
            self._swap(problem, rows, region, slots)

    def _swap(
        self, problem: Problem, rows: Tensor, region: SubstitutionRegion, slots: Tensor
    ) -> None:
        """Take back the change that matters least, make the best one instead; then the next."""
        left = (problem.alive(rows) & (slots > 0).any(1)).nonzero()[:, 0]
        rows, region, slots = rows[left], region.take(left), slots[left]
        value = _ask(problem, rows, region, slots, losses.margin)
        back = _taken_back(problem, rows, region, slots)
        for _ in range(self.swaps):
            left = (problem.alive(rows) & (back > -torch.inf).any(1)).nonzero()[:, 0]
            if not len(left):
                return
            rows, region = rows[left], region.take(left)
            slots, value, back = slots[left], value[left], back[left]
            here, out = torch.arange(len(rows)), back.argmax(1)
            new = slots.clone()
            new[here, out] = 0
            others = (new == 0) & region.there[..., 1:].any(2)
            found = _singles(problem, rows, region, new, others, losses.margin)
            best, at = found.flatten(1).max(1)
            new[here, at // found.shape[2]] = at % found.shape[2] + 1
            back[here, out] = -torch.inf  # tried
            better = (best > value).nonzero()[:, 0]
            slots[better], value[better] = new[better], best[better]
            back[better] = _taken_back(problem, rows[better], region.take(better), slots[better])


@noun
class Beam:
    """A beam search over replacements of words or symbols; no gradients needed.

    Args:
        width: Number of sequences that are kept at each step. 1 reconsiders every position at each
            step.

    Raises:
        DurometerError: The width is below 1.

    >>> import torch
    >>> import durometer as du
    >>> likes = lambda texts: torch.tensor([[float("good" in t), 0.5] for t in texts])
    >>> film = du.wrap(likes, inputs="text")
    >>> data = du.Dataset(["a good film", "such a good and good film"], [0, 0])
    >>> space = du.Text(du.Synonyms({"good": ("fine",)}), most=0.3)
    >>> report = du.evaluate(film, data, space=space, attack=du.Beam(2))
    >>> report.metric("clean").value, report.metric("robust").value
    (1.0, 0.5)
    """

    width: int = 4

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        region = choices_of(problem, rows, self)
        if region.options.shape[2] == 1:  # nothing can change
            return
        beams = torch.zeros(len(rows), 1, region.options.shape[1], dtype=torch.int64)
        value = _ask(problem, rows, region, beams[:, 0])[:, None]
        for _ in range(int(region.most.max()) if len(rows) else 0):
            alive = problem.alive(rows)
            rows, region, beams, value = (
                rows[alive], region.take(alive), beams[alive], value[alive]
            )  # fmt: skip
            if not len(rows):
                return
            beams, value = self._grown(problem, rows, region, beams, value)

    def _grown(
        self,
        problem: Problem,
        rows: Tensor,
        region: SubstitutionRegion,
        beams: Tensor,
        value: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The best of all sequences that differ from one of the beams in one more position."""
        n, width, length = beams.shape
        each = torch.arange(n).repeat_interleave(width)
        flat = beams.reshape(n * width, length)
        wide = region.take(each)
        free = wide.there[..., 1:].any(2) & (flat == 0)
        free &= ((flat > 0).sum(1) < wide.most)[:, None] & value.reshape(-1, 1).isfinite()
        found = _singles(problem, rows[each], wide, flat, free)  # (n * width, L, K)
        found = torch.cat([value, found.reshape(n, -1)], dim=1)
        top = found.topk(min(self.width, found.shape[1]), dim=1)
        made = []
        options = found.shape[1] - width
        for pick in top.indices.T:
            new = pick >= width
            move = (pick - width).clamp_min(0)
            size = max(1, options // width)  # replacements of one beam
            beam, inside = torch.where(new, move // size, pick), move % size
            child = beams[torch.arange(n), beam].clone()
            k = region.options.shape[2] - 1
            at = new.nonzero()[:, 0]
            child[at, (inside // k)[at]] = (inside % k)[at] + 1
            made.append(child)
        return torch.stack(made, dim=1), top.values


def choices_of(problem: Problem, rows: Tensor, attack: object) -> SubstitutionRegion:
    """The region of these rows, which must be one of choices."""
    region = problem.region(rows)
    if not isinstance(region, SubstitutionRegion):
        raise Unsupported(
            f"{attack!r} replaces symbols of sequences: it works in du.Text and du.Symbols spaces"
        )
    return region


def _ask(
    problem: Problem,
    rows: Tensor,
    region: SubstitutionRegion,
    slots: Tensor,
    score: Loss = losses.odds,
) -> Tensor:
    """(m,) scores of the goal for hard choices (m, L)."""
    return _scores(problem, rows, region.written(slots), score)


def _scores(problem: Problem, rows: Tensor, x: Tensor, score: Loss = losses.odds) -> Tensor:
    found = []
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK]
        logits = problem.query(part, x[start : start + BLOCK])
        found.append(score(logits, problem.targets[part]).double())
    return torch.cat(found).nan_to_num(-torch.inf) if found else torch.empty(0).double()


def _singles(
    problem: Problem, rows: Tensor, region: SubstitutionRegion, slots: Tensor, where: Tensor,
    score: Loss = losses.odds,
) -> Tensor:  # fmt: skip
    """(m, L, K - 1) scores with one more position changed, -inf where `where` (m, L) is false."""
    there = region.there[..., 1:] & where[..., None]
    found = torch.full(there.shape, -torch.inf, dtype=torch.float64)
    base, symbols = region.written(slots), region.options[..., 1:]
    for part in torch.split(there.nonzero(), BLOCK):  # all at once are too many
        row, place, slot = part.T
        x = base[row]
        inside = place if region.places is None else region.places[place]
        x[torch.arange(len(row)), inside] = symbols[row, place, slot]
        found[row, place, slot] = _scores(problem, rows[row], x, score)
    return found


def _taken_back(
    problem: Problem, rows: Tensor, region: SubstitutionRegion, slots: Tensor
) -> Tensor:
    """(m, L) margins with one change taken back, -inf where there is none."""
    found = torch.full(slots.shape, -torch.inf, dtype=torch.float64)
    row, place = (slots > 0).nonzero(as_tuple=True)
    back = slots[row]
    back[torch.arange(len(row)), place] = 0
    found[row, place] = _ask(problem, rows[row], region.take(row), back, losses.margin)
    return found


def _without(problem: Problem, rows: Tensor, region: SubstitutionRegion, where: Tensor) -> Tensor:
    """(m, L) log odds with one symbol taken out: asked for its order, never handed in."""
    found = torch.full(where.shape, torch.inf, dtype=torch.float64)
    row, place = where.nonzero(as_tuple=True)
    inside = place if region.places is None else region.places[place]
    here = torch.arange(region.x0.shape[1])
    after = torch.cat([region.x0, torch.full_like(region.x0[:, :1], OUT)], dim=1)[row]
    x = after.gather(1, here + (here >= inside[:, None]))  # what follows moves up, as when deleted
    found[row, place] = _scores(problem, rows[row], x)
    return found
