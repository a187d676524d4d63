"""A network, proven

Bounds through the layers decide rows before any attack is tried: what is proven costs no attack.
"""

# %%
import matplotlib.pyplot as plt
import torch

import durometer as du

digits = du.datasets.mnist()
net = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(784, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10)
)
du.training.fit(net, digits.train.sample(2000), du.training.Standard(), epochs=4, progress=False)
data = digits.test.sample(100)
shares = {}
for eps in (0.002, 0.005, 0.01, 0.02):
    report = du.evaluate(
        net, data, space=du.Linf(eps), attack=du.Then(du.Bounds(), du.APGD(20)), progress=False
    )
    shares[eps] = [report.metric(name).value for name in ("proven", "open", "broken")]
    print(eps, dict(zip(("proven", "open", "broken"), shares[eps], strict=True)))

# %%
plt.figure(label="Proven, open and broken at four budgets")
plt.stackplot(
    list(shares), *zip(*shares.values(), strict=True), labels=("proven", "open", "broken")
)
plt.xlabel("largest change of a pixel")
plt.legend(loc="lower left")
