"""A gate for the build

A criterion with three outcomes: pass, fail, undecided. Rows are played in random order, and it
stops as soon as the evidence suffices.
"""

# %%
import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.sample(300)
report = du.evaluate(net, data, space=du.Linf(0.02), attack=du.APGD(10), progress=False)
for criterion in ("robust >= 0.7", "robust >= 0.99"):
    print(du.gate(report, criterion))
