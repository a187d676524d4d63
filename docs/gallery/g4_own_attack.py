"""An attack of your own

A frozen dataclass with `needs` and `__call__`. It asks the problem for everything and never decides
that it has succeeded; `check_attack` tries it on small problems with known answers.
"""

# %%
from dataclasses import dataclass

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


du.testing.check_attack(Corner())
data = du.datasets.mnist().test.sample(40)
report = du.evaluate(models.mnist(), data, space=du.Linf(0.1), attack=Corner(), progress=False)
print(report.metric("robust"))
