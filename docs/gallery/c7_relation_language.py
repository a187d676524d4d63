"""Writing down what hangs together

A schema from scratch: types, bounds, what may not change, and relations in plain formulas.
"""

# %%
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import durometer as du
from durometer import F, Feature, Schema

schema = Schema(
    [
        Feature("amount", "real", 1000, 40_000, unit="$"),
        Feature("income", "real", 5000, 200_000),
        Feature("ratio", "real", 0, 10),
        Feature("term", "integer", 36, 60, mutable=False),
    ],
    [F.ratio == F.amount / F.income, "term in {36, 60}"],
)
print(schema)

# %%
# Loans drawn at random: they pay back where the amount is small next to the income.
rng = np.random.default_rng(0)
frame = pd.DataFrame(
    {"amount": rng.uniform(1000, 40_000, 400), "income": rng.uniform(5000, 200_000, 400)}
)
frame["ratio"] = frame["amount"] / frame["income"]
frame["term"] = rng.choice([36, 60], 400)
paid = (frame["ratio"] + rng.normal(0, 0.1, 400) < 0.4).astype(int)
model = HistGradientBoostingClassifier(max_iter=20).fit(frame, paid)
data = du.Dataset(frame, paid, schema=schema)
refused = data.where(y=0).head(30)
report = du.evaluate(model, refused, space=schema.space(eps=0.05), progress=False)
print(report)

# %%
# The ratio follows from the other two: whoever changes the amount changes it too.
after = schema.frame(report.adversarial)
print(
    "largest error of the ratio:",
    float((after["ratio"] - after["amount"] / after["income"]).abs().max()),
)
