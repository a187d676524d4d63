"""The smallest change that flips a decision

Not "is it robust at 0.05" but "how far away is the nearest valid counterexample": `Exact` minimises
the distance and says how near its bound is.
"""

# %%
import matplotlib.pyplot as plt
from xgboost import XGBClassifier

import durometer as du

url = du.datasets.url()
model = XGBClassifier(n_estimators=30, max_depth=3, n_jobs=1)
model.fit(url.train.x.numpy(), url.train.y.numpy())
phishing = url.test.where(y="phishing").sample(60)
space = phishing.schema.space(eps=0.3, p=float("inf"))
report = du.evaluate(
    model, phishing, space=space, attack=du.Exact(minimise="distance"), progress=False
)
print(report)

# %%
# One run gives the whole curve: a row falls at its own distance.
figure = plt.figure("Robust accuracy at every radius from one run", layout="constrained")
report.plot.curve(figure.gca())
