"""Pixels are whole numbers

A camera writes 256 levels. An attack that uses levels in between breaks a network that no real
picture breaks; `Quantised` lets only pictures through that can be stored.
"""

# %%
import durometer as du
from durometer.demo import models

net = models.mnist()
data = du.datasets.mnist().test.sample(60)
for space in (du.Linf(0.06), du.Quantised(du.Linf(0.06))):
    report = du.evaluate(net, data, space=space, attack=du.APGD(20), progress=False)
    print(f"{type(space).__name__:10} {report.metric('robust')}")
    print("   levels between the camera's:", bool(((report.adversarial * 255) % 1 > 1e-3).any()))
