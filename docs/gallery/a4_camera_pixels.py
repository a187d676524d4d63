"""Pixels are whole numbers

A camera writes 256 levels. An attack that uses levels in between breaks a network that no real
picture breaks; `Quantised` lets only pictures through that can be stored.
"""

# %%
import assay as ay
from assay.demo import models

net = models.mnist()
data = ay.datasets.mnist().test.sample(60)
for space in (ay.Linf(0.06), ay.Quantised(ay.Linf(0.06))):
    report = ay.evaluate(net, data, space=space, attack=ay.APGD(20), progress=False)
    print(f"{type(space).__name__:10} {report.metric('robust')}")
    print("   levels between the camera's:", bool(((report.adversarial * 255) % 1 > 1e-3).any()))
