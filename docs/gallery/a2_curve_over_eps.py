"""Robust accuracy against the size of the change

One budget is one point. Several give the curve, each with its interval.
"""

# %%
import matplotlib.pyplot as plt

import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.sample(80)
sizes = [0.01, 0.02, 0.05, 0.1, 0.15]
robust = [
    du.evaluate(net, data, space=du.Linf(eps), attack=du.APGD(20), progress=False).metric("robust")
    for eps in sizes
]
for eps, figure in zip(sizes, robust, strict=True):
    print(f"{eps:.2f}  {figure}")

# %%
low = [figure.value - figure.low for figure in robust]
high = [figure.high - figure.value for figure in robust]
plt.figure(label="Robust accuracy falls with the size of the change")
plt.errorbar(sizes, [figure.value for figure in robust], [low, high], marker="o", capsize=3)
plt.xlabel("largest change of a pixel")
plt.ylabel("robust accuracy, 95 % interval")
