"""Boosted trees, decided exactly

For trees a search is not needed to the end: `Exact` decides each row in milliseconds, with all the
relations of the table. Robust accuracy then has no gap.
"""

# %%
import matplotlib.pyplot as plt
from xgboost import XGBClassifier

import durometer as du

url = du.datasets.url()
model = XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
model.fit(url.train.x.numpy(), url.train.y.numpy())
phishing = url.test.where(y="phishing").sample(100)
space = phishing.schema.space(eps=0.05, p=float("inf"))
exact = du.evaluate(model, phishing, space=space, attack=du.Exact(), progress=False)
print(exact)

# %%
# What a search finds of it.
search = du.evaluate(model, phishing, space=space, attack=du.Graft(200), progress=False)
print("attackable rows:", int(exact.table["success"].sum()))
print("found by search:", int(search.table["success"].sum()))

# %%
figure = plt.figure("Rows broken, proven and open", figsize=(6, 1.8), layout="constrained")
exact.plot.verdicts(figure.gca())
