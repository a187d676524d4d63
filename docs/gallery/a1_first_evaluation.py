"""A first evaluation: digits

How many digits does a small network still read when an attacker may change every pixel by 0.1? One
call, one report, with intervals and with the price the attacker paid.
"""

# %%
# The data come with the package. The network is a small CNN trained in seconds.
import matplotlib.pyplot as plt

import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.sample(60)
report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.APGD(20), progress=False)
print(report)

# %%
# Every row has a verdict: *broken* (an input was found), *proven* (there is none), or *open*.
print(report.table["verdict"].value_counts())

# %%
# What was handed in, beside what it was made from.
figure = plt.figure("Digits before and after", figsize=(7, 4), layout="constrained")
report.plot.examples(figure.gca(), most=5)
