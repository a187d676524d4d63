"""Your own data frame and pipeline

A credit pipeline with text columns and one-hot encoding, as it was fitted: durometer asks it by
name, in the form it was fitted on, and finds the applications that would pass with small changes.
"""

# %%
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import durometer as du

frame = du.datasets.german().train.table.drop(columns="row")
text = OneHotEncoder(handle_unknown="ignore")
columns = make_column_transformer(
    (text, make_column_selector(dtype_exclude="number")), remainder="passthrough"
)
pipe = make_pipeline(columns, RandomForestClassifier(30, max_depth=6, random_state=0))
pipe.fit(frame.drop(columns="risk"), frame["risk"])

# %%
# A first schema is read from the data, with reasons; age and origin are not theirs to change.
schema = du.Schema.suggest(frame.drop(columns="risk")).freeze("age", "foreign_worker")
data = du.Dataset(frame, target="risk", schema=schema)
report = du.evaluate(
    pipe,
    data.where(y="bad").sample(20),
    space=data.schema.space(eps=0.3),
    attack=du.Graft(150),
    progress=False,
)
print(report)

# %%
# What was changed, row by row.
print(report.adversarial_frame().head(3).T.to_string()[:1500])
