"""The eyeglasses attack (Sharif et al. 2016, as run by Lin et al. 2024): steps with momentum.

Start: the mask painted in the best of five plain colours, row by row. Then, with g the gradient,

    v <- 0.4 v + alpha g / max|g|,   entries of v that would leave the region are set to 0,
    x <- round(x + v)                to the 256 levels that a printer and a camera know

It runs in any space; `Patch("eyeglasses")` is what it was made for.

What a reader would get wrong: the step is scaled by the largest entry of the gradient, not by its
sign, so most pixels move little; and the velocity is *zeroed* at the border, not clipped.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from durometer.attacks.base import compact
from durometer.attacks.pgd import climb, places_of
from durometer.core.devices import widest
from durometer.core.validation import noun
from durometer.losses import Loss, LossName
from durometer.problem.needs import Needs
from durometer.problem.problem import Problem
from durometer.spaces.region import Region

# Grey, orange, brown, olive, yellow: RGB of 255, the published frames.
COLOURS = ((128, 128, 128), (220, 130, 0), (160, 105, 55), (200, 175, 30), (220, 210, 50))


@noun
class Eyeglasses:
    """The eyeglasses attack: gradient steps with momentum, rounded to printable colours (Sharif et
    al., 2016, as run by Lin et al., 2024).

    It works in any space; `Patch("eyeglasses")` is the published one.

    Args:
        steps: Gradient steps; 300 as published.
        step: Length of a step at the pixel with the largest gradient, in units of the region's
            size; 20 / 255 as published.
        momentum: Share of the last step that is kept.
        levels: Levels of brightness that colours are rounded to.
        loss: The loss to climb; see `losses`. None: the one that the goal implies.

    >>> import torch
    >>> import durometer as du
    >>> net, data = du.testing.toy((3, 8, 8))
    >>> du.evaluate(
    ...     net,
    ...     data,
    ...     space=du.Patch(lambda h, w: torch.ones(h, w).triu()),
    ...     attack=du.Eyeglasses(5),
    ... ).metric("robust").value
    0.0
    """

    steps: int = 300
    step: float = 20 / 255
    momentum: float = 0.4
    levels: int = 256
    loss: Loss | LossName | None = None

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        z = self._painted(problem, rows)
        rows, z = compact(problem.alive(rows), rows, z)
        velocity, slot = torch.zeros_like(z), places_of(rows)

        def move(region: Region, rows: Tensor, z: Tensor, grad: Tensor) -> Tensor:
            v = velocity[slot[rows]]
            largest = grad.abs().amax(1, keepdim=True).clamp_min(1e-30)
            v = self.momentum * v + self.step * region.eps * grad / largest
            if region.p == math.inf:  # elsewhere a border is not a matter of single entries
                moved = z + v
                # The projection's own rounding is not a border.
                v = v * ((region.project(moved) - moved).abs() <= 1e-6 * region.eps)
            velocity[slot[rows]] = v
            return self._rounded(z + v, region.eps)

        climb(problem, rows, z, [move] * self.steps)

    def _rounded(self, z: Tensor, width: float) -> Tensor:
        scale = (self.levels - 1) / width
        return (z * scale).round() / scale

    def _painted(self, problem: Problem, rows: Tensor) -> Tensor:
        """The colour whose loss is highest, row by row."""
        region = problem.region(rows)
        shape = region.decode(region.origin).shape[1:]
        best: Tensor | None = None
        wide = widest(rows.device)
        best_value = torch.full((len(rows),), -torch.inf, dtype=wide, device=rows.device)
        for colour in COLOURS:
            paint = torch.tensor(colour, dtype=region.origin.dtype, device=rows.device)
            paint = paint * (region.eps / 255)
            if len(shape) != 3 or shape[0] != 3:
                paint = paint.mean()[None]
            plane = paint[:, None, None] if len(shape) == 3 else paint
            z = region.project(plane.expand(shape).reshape(1, -1).expand_as(region.origin).clone())
            value = problem.value(rows, z).to(wide)
            better = value > best_value
            best = z if best is None else torch.where(better[:, None], z, best)
            best_value = best_value.maximum(value)
        return region.origin.clone() if best is None else best
