"""Missing values, and hiding one

A feature may be missing. What that means to an attacker is said in the schema: it stays missing,
may be filled in, or a value may be left blank at a price.
"""

# %%
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import durometer as du
from durometer import Feature, Schema

heart = du.datasets.heart()
table = heart.train.table
print(table.isna().sum()[lambda s: s > 0])

# %%
rng = np.random.default_rng(0)
frame = pd.DataFrame(
    {"income": rng.uniform(0, 100, 500), "age": rng.integers(18, 80, 500).astype(float)}
)
paid = (frame["income"] + rng.normal(0, 10, 500) > 45).astype(int)
frame.loc[rng.random(500) < 0.15, "income"] = np.nan
model = HistGradientBoostingClassifier(max_iter=30).fit(frame, paid)
for name, options in {"stays as it is": {}, "may be left blank": {"hide": 0.05}}.items():
    schema = Schema(
        [
            Feature("income", "real", 0, 100, missing=True, **options),
            Feature("age", "real", 18, 80, mutable=False),
        ]
    )
    data = du.Dataset(frame, paid, schema=schema).where(y=0).head(60)
    report = du.evaluate(model, data, space=schema.space(eps=0.06), progress=False)
    print(f"{name:18} robust {report.metric('robust')}")
