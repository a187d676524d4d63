"""Questions about a whole model

Not "can this row be flipped" but "can *any* two valid applicants who differ only in one column get different
answers", and "does the score ever fall when income grows". For trees such questions are proven or answered by a pair.
"""

# %%
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import durometer as du

rng = np.random.default_rng(0)
n = 600
income, debt, young = rng.integers(10, 90, n), rng.integers(0, 60, n), rng.integers(0, 2, n)
x = np.stack([income, debt, young], 1).astype(float)
paid = (income - debt - 12 * young + rng.normal(0, 15, n) > 15).astype(int)
schema = du.Schema(
    [
        du.Feature("income", "integer", 10, 90),
        du.Feature("debt", "integer", 0, 60),
        du.Feature("young", "boolean"),
    ]
)
free = HistGradientBoostingClassifier(max_iter=30, max_depth=4, random_state=0).fit(x, paid)
tied = HistGradientBoostingClassifier(
    max_iter=30, max_depth=4, random_state=0, monotonic_cst=[1, -1, 0]
).fit(x, paid)

# %%
# Does more income ever lower the score? The free model: yes, and here is the pair. The tied one: never, proven.
for name, model in (("free", free), ("tied", tied)):
    answer = du.monotone(model, schema, in_="income")
    print(name, answer.status)
    if answer.status == "found":
        print(answer.pair)

# %%
# Does youth alone ever decide?
answer = du.flips(tied, schema, of=["young"])
print(answer.status)
print(answer.pair if answer.status == "found" else "")

# %%
# Can anybody with more debt than income be accepted?
print(du.reachable(tied, schema, 1, where=["debt >= income + 10"]).status)
