"""A gate for the build

A criterion with three outcomes: pass, fail, undecided. Rows are played in random order, and it
stops as soon as the evidence suffices.
"""

# %%
import assay as ay
from assay.demo import models

net = models.mnist()
data = ay.datasets.mnist().test.sample(300)
report = ay.evaluate(net, data, space=ay.Linf(0.02), attack=ay.APGD(10), progress=False)
for criterion in ("robust >= 0.7", "robust >= 0.99"):
    print(ay.gate(report, criterion))
