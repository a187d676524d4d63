"""Only the confusions that do harm

A stop sign read as "yield" stops the car all the same; read as "priority road" it does not. A group
goal counts the second and not the first.
"""

# %%
import matplotlib.pyplot as plt

import durometer as du
from durometer.demo import models

net = models.gtsrb()
signs = du.datasets.gtsrb().test.where(y=["stop", "no entry", "yield"]).head(45)
harm = du.Group(
    {
        "stop": ["priority road", "right of way"],
        "no entry": ["straight"],
        "yield": ["priority road"],
    }
)
space = du.Linf(4 / 255)
report = du.evaluate(
    net,
    signs,
    space=space,
    goal=harm,
    attack=du.Escalation(20),
    also=(du.Untargeted(),),
    progress=False,
)
print(report)

# %%
# By sign: where is the danger?
print(report.metric("robust", by="y"))

# %%
any_wrong = du.evaluate(net, signs, space=space, attack=du.APGD(20), progress=False)
figures = {"any wrong class": any_wrong.metric("robust"), "a harmful one": report.metric("robust")}
plt.figure(figsize=(5, 2.4), label="Robustness to any mistake and to the harmful ones")
for name, value in figures.items():
    plt.barh(
        name, value.value, xerr=[[value.value - value.low], [value.high - value.value]], capsize=3
    )
plt.xlabel("robust accuracy, 95 % interval")
