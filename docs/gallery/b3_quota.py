"""Three of five keys: a quota

A vault opens when three different members of staff are recognised. Five burglars with printed
eyeglass frames stand before the camera; each passes for one person at most.
"""

# %%
import matplotlib.pyplot as plt

import durometer as du
from durometer.demo import models

net = models.orl()
faces = du.datasets.orl()
report = du.evaluate(
    net, faces.test, space=du.Patch("eyeglasses"), goal=faces.vault(k=3),
    attack=du.Campaign(du.APGD(15), order=du.orders.ByMD(1)), progress=False,
)  # fmt: skip
print(report)

# %%
figure = plt.figure("Faces that pass for staff", figsize=(7, 4.5), layout="constrained")
report.plot.examples(figure.gca(), most=5)
