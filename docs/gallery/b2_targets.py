"""Any wrong class, a chosen one, the least likely one

The same network and the same budget, with three attackers who want different things.
"""

# %%
import assay as ay
from assay.demo import models

net = models.mnist()
data = ay.datasets.mnist().test.where(y=["7", "4"]).head(50)
goals = {
    "any wrong class": ay.Untargeted(),
    "a nine": ay.Targeted("9"),
    "a class drawn at random": ay.RandomTarget(),
    "the least likely class": ay.LeastLikely(),
}
for name, goal in goals.items():
    report = ay.evaluate(
        net, data, space=ay.Linf(0.1), goal=goal, attack=ay.APGD(20), progress=False
    )
    print(f"{name:26} succeeds on {report.metric('success')}")
