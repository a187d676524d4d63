"""Which instrument should be better?

Each feature's noise costs some certainty. Importance says how much at least, feature by feature.
"""

# %%
import matplotlib.pyplot as plt
from xgboost import XGBClassifier

import durometer as du

pima = du.datasets.pima()
model = XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1)
model.fit(pima.train.x.numpy(), pima.train.y.numpy())
nature = du.Nature(model, du.Normal(sd=0.1 * pima.train.x.std(0)))
found = nature.importance(pima.test.sample(10))
low = found["low"].mean()  # over the records
print(low)

# %%
plt.figure(label="What each feature's noise costs at least")
plt.barh([str(name) for name in low.index], low)
plt.xlabel("probability lost to the noise of this feature, lower bound")
