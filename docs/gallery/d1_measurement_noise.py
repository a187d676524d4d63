"""A forest under measurement noise

No adversary, only an instrument that is a little off: how likely does the decision change? For
trees the probability is bounded from both sides, not sampled.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestClassifier

import durometer as du

pima = du.datasets.pima()
forest = RandomForestClassifier(30, max_depth=5, random_state=0)
forest.fit(pima.train.x.numpy(), pima.train.y.numpy())
data = pima.test.sample(40)
noise = du.Normal(sd=0.05 * pima.train.x.std(0))
report = du.evaluate(du.Nature(forest, noise), data, progress=False)
print(report)

# %%
table = report.table.sort_values("probability_low").reset_index()
plt.figure(label="Certified probability that each decision stays")
plt.fill_between(
    table.index, table["probability_low"], table["probability_high"], step="mid", alpha=0.4
)
plt.plot(table.index, table["probability_low"], drawstyle="steps-mid")
plt.xlabel("record, worst first")
plt.ylabel("probability that the decision stays")
