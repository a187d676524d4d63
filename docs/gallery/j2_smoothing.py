"""Randomised smoothing with few draws

The answer under noise has a certified radius: no change up to it can alter what most noisy copies say. Draws stop
as soon as the question is decided, and the interval holds whenever they stop.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import durometer as du

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 2)).astype(np.float32)
y = (x[:, 0] * x[:, 1] > 0).astype(int)
net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
du.training.fit(net, du.Dataset(x, y), du.training.Standard(), epochs=30)
rows = du.Dataset(x[:60], y[:60])

# %%
nature = du.Nature(net, du.Normal(sd=0.2), threshold=0.9)
radii = nature.certified_radius(rows, precision=0.1)
print(radii.head(3) if hasattr(radii, "head") else radii[:3])

# %%
# "Does the answer stay with at least 0.9?" takes few draws far from the border and many next to it.
report = du.evaluate(nature, rows, progress=False)
draws, low = report.table["forwards"], report.table["probability_low"]
print("draws: least", draws.min(), "median", int(draws.median()), "most", draws.max())
plt.figure("Draws that each record needed, by its probability", figsize=(6, 2.8))
plt.scatter(low, draws, s=12, color="#4a6fd8")
plt.yscale("log")
plt.xlabel("probability that the answer stays, at least")
plt.ylabel("draws")
