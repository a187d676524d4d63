"""A model that answers with labels alone

Some models say *yes* or *no* and nothing else. Then no score says whether a change leads anywhere, and a
search finds less than there is: the figure is an upper bound, and the report says so.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import durometer as du

rng = np.random.default_rng(0)
x = rng.uniform(size=(400, 6))
y = (x[:, 0] + x[:, 1] * x[:, 2] > 0.8).astype(int)
forest = RandomForestClassifier(20, max_depth=5, random_state=0).fit(x, y)
rows = du.Dataset(x[:40], y[:40])
space = du.Linf(0.05)

# %%
# The same forest three times: read (and decided), asked for scores, asked for labels.
answers = {
    "decided": du.evaluate(forest, rows, space=space, progress=False),
    "scores": du.evaluate(
        du.wrap(forest.predict_proba, answers="probabilities"), rows, space=space,
        attack=du.Square(300), progress=False,
    ),
    "labels": du.evaluate(
        du.wrap(forest.predict, answers="labels"), rows, space=space, attack=du.Ray(300),
        progress=False,
    ),
}  # fmt: skip
at_most = {name: report.metric("robust").value for name, report in answers.items()}
print(at_most)
print([flag.id for flag in answers["labels"].flags])

# %%
# What stands under a search by labels is no robustness: it is what the search did not find.
plt.figure("Robust accuracy at most, by what the model answers", figsize=(6, 2.4))
plt.barh(list(at_most), list(at_most.values()), color="#4a6fd8")
plt.xlabel("robust accuracy, at most")
