"""A sticker on a traffic sign

The attacker may paint a square in the middle of the sign as they like, and nothing else.
"""

# %%
import matplotlib.pyplot as plt
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
figure = plt.figure("Signs before and with sticker", figsize=(7, 4), layout="constrained")
report.plot.examples(figure.gca(), most=5)
