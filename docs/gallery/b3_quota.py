"""Three of five keys: a quota

A vault opens when three different members of staff are recognised. Five burglars with printed
eyeglass frames stand before the camera; each passes for one person at most.
"""

# %%
import matplotlib.pyplot as plt

import assay as ay
from assay.demo import models

net = models.orl()
faces = ay.datasets.orl()
report = ay.evaluate(
    net, faces.test, space=ay.Patch("eyeglasses"), goal=faces.vault(k=3),
    attack=ay.Campaign(ay.APGD(15), order=ay.orders.ByMD(1)), progress=False,
)  # fmt: skip
print(report)

# %%
won = report.table.index[report.table["success"]][:5]
figure, axes = plt.subplots(1, max(len(won), 2), figsize=(7, 2), label="Faces that pass for staff")
for axis, row in zip(axes, won, strict=False):
    axis.imshow(report.adversarial[row].squeeze(), cmap="gray")
    axis.set_title(f"passes for {report.table['final'][row]}", fontsize=7)
    axis.axis("off")
