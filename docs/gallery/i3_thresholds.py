"""A threshold, bands, and a forecast

A payment is blocked from 0.7 on, a claim between 0.3 and 0.7 goes to a clerk, a price must not move by more
than ten. Say so, and that rule is attacked, proven and reported.
"""

# %%
import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import durometer as du

rng = np.random.default_rng(0)
x = rng.uniform(0, 1, (300, 3))
y = (x[:, 0] + 0.3 * x[:, 1] > 0.7).astype(int)
forest = RandomForestClassifier(10, max_depth=4, random_state=0).fit(x, y)
blocks = du.wrap(forest, threshold=0.7)
report = du.evaluate(blocks, du.Dataset(x[:60], y[:60]), space=du.Linf(0.05), progress=False)
print("the block holds:", report.metric("proven"), "to", report.metric("robust"))

# %%
# Bands: can a claim that belongs to the clerk be pushed into "below 0.3"?
triage = du.wrap(forest, bands=[0.3, 0.7])
right = np.searchsorted([0.3, 0.7], forest.predict_proba(x[:60])[:, 1], side="right")
goal = du.Targeted("below 0.3")
pushed = du.evaluate(
    triage, du.Dataset(x[:60], right), space=du.Linf(0.05), goal=goal, progress=False
)
print("not pushed below 0.3:", pushed.metric("robust"))

# %%
# A forecast: which prices move by more than ten when each input moves by 0.05?
prices = RandomForestRegressor(10, max_depth=4, random_state=0).fit(x, 100 * x[:, 0] + 10 * x[:, 1])
moves = du.wrap(prices, tolerance=10)
data = du.Dataset(x[:60], np.zeros(60, int))
steady = du.evaluate(moves, data, space=du.Linf(0.05), progress=False)
print("stays within ten:", steady.metric("proven"))
steady.plot.verdicts()
