"""From weak to proven robust

The counterexamples of the exact search are the best teachers: the model is refitted with them,
round by round, and the share that is *proven* robust grows.
"""

# %%
from xgboost import XGBClassifier

import durometer as du

url = du.datasets.url()
train = url.train.sample(2000)
model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1)
model.fit(train.x.numpy(), train.y.numpy())
space = url.train.schema.space(eps=0.05, p=float("inf"))
goal = du.Group({"phishing": ["legitimate"]})
hardened = du.training.harden(model, train, space, goal, rounds=4, progress=False)
print(hardened)
