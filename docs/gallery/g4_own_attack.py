"""An attack of your own

Two attacks in a few lines each: random corners of the region, and gradient steps with momentum. An attack asks the
problem for everything and never decides that it has succeeded; `check_attack` tries it on small problems with known
answers.
"""

# %%
# Without gradients: submit points, and look at the rows that are still open.
from dataclasses import dataclass

import torch

import durometer as du
from durometer.demo import models
from durometer.extend import Needs, Problem


@dataclass(frozen=True)
class Corner:
    """The corners of the region, drawn at random."""

    tries: int = 20

    @property
    def needs(self) -> Needs:
        return Needs()

    def __call__(self, problem: Problem) -> None:
        for _ in range(self.tries):
            rows = problem.open
            if not len(rows):
                return
            region = problem.region(rows)
            sign = problem.random.sign(rows, region.origin.shape[1], region.origin.dtype)
            problem.submit(rows, region.project(region.origin + region.eps * sign))


# %%
# With gradients. Three things are easy to get wrong, and `check_attack` finds each of them: rows must not see each
# other (so the gradient is scaled row by row), a row that is broken or out of budget must be left alone, and random
# numbers come from `problem.random` only.
@dataclass(frozen=True)
class Momentum:
    """Gradient steps that remember where they came from (Dong et al., 2018)."""

    steps: int = 20
    decay: float = 0.9

    @property
    def needs(self) -> Needs:
        return Needs(gradient=True)

    def __call__(self, problem: Problem) -> None:
        rows = problem.open
        z = problem.region(rows).origin.clone()  # start at the inputs themselves
        velocity = torch.zeros_like(z)
        for _ in range(self.steps):
            _, gradient = problem.value_and_grad(rows, z)  # z is a candidate from now on
            largest = gradient.flatten(1).abs().amax(1).clamp_min(1e-30)  # of each row
            scaled = gradient / largest.reshape(-1, *[1] * (z.ndim - 1))
            velocity = self.decay * velocity + scaled
            alive = problem.alive(rows)  # neither broken nor out of budget
            rows, z, velocity = rows[alive], z[alive], velocity[alive]
            if not len(rows):
                return
            region = problem.region(rows)
            step = torch.full((len(rows),), 0.25 * region.eps, dtype=z.dtype)
            z = region.project(region.ascend(z, velocity, step))
        problem.submit(rows, z)


du.testing.check_attack(Corner())
du.testing.check_attack(Momentum())

# %%
# Both beside a built-in attack.
data, net, space = du.datasets.mnist().test.sample(40), models.mnist(), du.Linf(0.05)
for attack in (Corner(), Momentum(), du.PGD(20)):
    report = du.evaluate(net, data, space=space, attack=attack, progress=False)
    print(f"{type(attack).__name__:8} at most {report.metric('robust')}")
report.plot.examples()
