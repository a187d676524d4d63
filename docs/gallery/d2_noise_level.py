"""How much noise does a decision bear?

The level at which the decision falls below 99 %, record by record, with an interval.
"""

# %%
import matplotlib.pyplot as plt
from xgboost import XGBClassifier

import durometer as du

pima = du.datasets.pima()
model = XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1)
model.fit(pima.train.x.numpy(), pima.train.y.numpy())
data = pima.test.sample(12)
nature = du.Nature(model, du.Normal(sd=0.1 * pima.train.x.std(0)))
levels = nature.breakdown_noise_level(data, 0.99)
print(levels)

# %%
plt.figure(label="Noise level at which each decision falls below 99 %")
order = levels["low"].to_numpy().argsort()
plt.plot(levels["low"].to_numpy()[order], marker="o")
plt.xlabel("record, the weakest first")
plt.ylabel("noise level (times the given sd)")
