"""Credit: from a red gate to a green one

A bank decides on loans. Applicants can ask for less money or a shorter term, and nobody checks what they say
about their savings. Would a small change turn a refusal into a loan? First the gate is red; then the model is
hardened, and the same gate is green.
"""

# %%
# **The model.** German loans: what an applicant says about themselves, and whether they paid.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import durometer as du

german = du.datasets.german()
everybody = pd.concat([german.train.table, german.test.table]).drop(columns="row")
everybody = everybody.sample(frac=1, random_state=0).reset_index(drop=True)
frame, rest = everybody[:450], everybody[450:]
text = OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")
model = make_pipeline(
    make_column_transformer(text, remainder="passthrough"),
    RandomForestClassifier(40, max_depth=14, class_weight={"bad": 2.5, "good": 1}, random_state=0),
)
model.fit(frame.drop(columns="risk"), frame["risk"])
schema = german.train.schema
train = du.Dataset(frame, target="risk", schema=schema, name="loans")
test = du.Dataset(rest, target="risk", schema=schema, name="new loans")
refused = test.where(y="bad")
space = schema.space(eps=0.3, p=float("inf"))
print(len(train), len(test), len(refused))

# %%
# **The gate**, fixed beforehand: of those who will not pay, at least 45 % must be refused whatever they do within the rules.
goal = du.Targeted("good")
before = du.evaluate(model, refused, space=space, goal=goal, progress=False)
print(du.gate(before, "proven >= 0.45"))

# %%
# **Why?** What did the successes change?
print(before.minimal_changes(by="feature").head(4).round(2))

# %%
# **Harden.** Counterexamples go back into training; a fifth of the rows is held out to choose the round.
hardened = du.training.harden(model, train, space, goal, rounds=6, max_loss=None, progress=False)
print(hardened)

# %%
# **The same gate, the hardened model, rows that neither has seen.**
after = du.evaluate(hardened.model, refused, space=space, goal=goal, progress=False)
print(du.gate(after, "proven >= 0.45"))

# %%
names = ["before", "hardened"]
plt.figure("Before and after hardening", figsize=(6, 2.4))
plt.barh(
    names, [r.metric("clean").value for r in (before, after)], color="#c9d4f2", label="recognised"
)
plt.barh(
    names, [r.metric("proven").value for r in (before, after)], color="#4a6fd8", label="proven"
)
plt.legend()
