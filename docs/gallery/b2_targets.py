"""Any wrong class, a chosen one, the least likely one

The same network and the same budget, with three attackers who want different things.
"""

# %%
import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.where(y=["7", "4"]).head(50)
goals = {
    "any wrong class": du.Untargeted(),
    "a nine": du.Targeted("9"),
    "a class drawn at random": du.RandomTarget(),
    "the least likely class": du.LeastLikely(),
}
for name, goal in goals.items():
    report = du.evaluate(
        net, data, space=du.Linf(0.1), goal=goal, attack=du.APGD(20), progress=False
    )
    print(f"{name:26} succeeds on {report.metric('success')}")
