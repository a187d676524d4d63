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
won = report.table.index[report.table["success"]][:5]
figure, axes = plt.subplots(1, max(len(won), 2), figsize=(7, 2), label="Faces that pass for staff")
for axis, row in zip(axes, won, strict=False):
    axis.imshow(report.adversarial[row].squeeze(), cmap="gray")
    axis.set_title(f"passes for {report.table['final'][row]}", fontsize=7)
    axis.axis("off")
