"""DOA (Wu, Tong & Vorobeychik, ICLR 2020): the best place for a sticker, then what to print on it.

The place: windows are ranked by the squared gradient they hold (at corners `stride` pixels apart),
the best `candidates` are tried with a grey sticker, and the one of highest loss is taken. Then
signed gradient steps inside that window.

What a reader would get wrong: the place is searched *once*, before the colours, on the clean image.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.attacks.pgd import climb, places_of
from durometer.core.errors import Unsupported
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.rectangle import RectangleRegion
from durometer.spaces.region import Region


@noun
class DOA:
    """The rectangular occlusion attack: finds the best place for a sticker, then its colours (Wu et
    al., ICLR 2020).

    It works in `Rectangle` spaces only. The place is searched once, on the clean image.

    Args:
        steps: Signed gradient steps on the colours.
        step: Length of a step, as a share of the box; 4 / 255 as published.
        stride: Distance between the places that are considered, in pixels.
        candidates: Number of places that are tried with a grey sticker; the one of highest loss is
            taken.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.

    >>> import durometer as du
    >>> net, data = du.testing.toy((1, 8, 8))
    >>> du.evaluate(net, data, space=du.Rectangle(3, 3), attack=du.DOA(5, stride=2)).metric(
    ...     "robust"
    ... ).value
    0.625
    """

    steps: int = 50
    step: float = 4 / 255
    stride: int = 10
    candidates: int = 30
    loss: Loss | LossName | None = None

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        region = rectangle(problem.region(rows))
        window = region.window(self._place(problem, rows, region))
        z = torch.where(window, torch.full_like(region.origin, _grey(region)), region.origin)
        slot = places_of(rows)

        def move(region: Region, rows: Tensor, z: Tensor, grad: Tensor) -> Tensor:
            return z + self.step * region.eps * grad.sign() * window[slot[rows]]

        climb(problem, rows, z, [move] * self.steps)

    def _place(self, problem: Problem, rows: Tensor, region: RectangleRegion) -> Tensor:
        _, grad = problem.value_and_grad(rows, region.origin)
        grad = grad / grad.abs().amax(1, keepdim=True).clamp_min(1e-30)
        energy = region.energy(grad)
        off = torch.ones_like(energy[0], dtype=torch.bool)
        off[:: self.stride, :: self.stride] = False
        energy = energy.masked_fill(off, -1.0).flatten(1)
        count = min(self.candidates, math.prod(-(-s // self.stride) for s in off.shape))
        best, places = torch.full((len(rows),), -torch.inf), energy.topk(count, 1).indices
        best = best.to(energy)
        chosen = places[:, 0].clone()
        grey = torch.full_like(region.origin, _grey(region))
        for k in range(count):
            z = torch.where(region.window(places[:, k]), grey, region.origin)
            value = problem.value(rows, z).to(best)
            better = value > best
            chosen, best = torch.where(better, places[:, k], chosen), best.maximum(value)
        return chosen


def _grey(region: RectangleRegion) -> float:
    return (region.low + region.high) / 2


def rectangle(region: Region) -> RectangleRegion:
    """The region as a rectangle, or an error that says which space has one."""
    if not isinstance(region, RectangleRegion):
        raise Unsupported("DOA looks for the best place of a Rectangle(h, w); use PGD elsewhere")
    return region
