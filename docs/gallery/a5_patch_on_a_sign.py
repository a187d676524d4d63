"""A sticker on a traffic sign

The attacker may paint a square in the middle of the sign as they like, and nothing else.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import durometer as du
from durometer.demo import models

net = models.gtsrb()
signs = du.datasets.gtsrb().test.sample(30)
mask = torch.zeros(signs.x.shape[-2:], dtype=torch.bool)
middle = mask.shape[0] // 2
mask[middle - 4 : middle + 4, middle - 4 : middle + 4] = True
report = du.evaluate(net, signs, space=du.Patch(mask), attack=du.APGD(30), progress=False)
print(report)

# %%
broken = report.table.index[report.table["success"]][:6]
figure, axes = plt.subplots(2, len(broken), figsize=(7, 2.8), label="Signs before and with sticker")
for column, row in enumerate(broken):
    for line, picture in enumerate((signs.x[row], report.adversarial[row])):
        axes[line, column].imshow(np.moveaxis(np.asarray(picture), 0, 2).clip(0, 1))
        axes[line, column].axis("off")
    axes[1, column].set_title(signs.classes[report.table["final"][row]][:12], fontsize=6)
