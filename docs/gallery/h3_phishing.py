"""Phishing: from a red gate to a green one

A mail filter looks at web addresses. Whoever writes them also reads about filters. How many addresses can be
rewritten so that they pass, and what does it cost to stop that?
"""

# %%
# **The model and the gate.** At least half of all phishing must be caught whatever a phisher changes within 5 % of each range.
import matplotlib.pyplot as plt
from xgboost import XGBClassifier

import durometer as du

url = du.datasets.url()
train = url.train.sample(2500)
model = XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1)
model.fit(train.x.numpy(), train.y.numpy())
space = url.train.schema.space(eps=0.05, p=float("inf"))
goal = du.Targeted("legitimate")
rows = url.test.where(y="phishing").sample(150)
before = du.evaluate(model, rows, space=space, goal=goal, progress=False)
print(du.gate(before, "proven >= 0.5"))
print(before.minimal_changes(by="feature").head(3).round(2))

# %%
# **Harden.** The path: how accurate each round is, and how much of it is proven.
hardened = du.training.harden(model, train, space, goal, rounds=6, max_loss=0.05, progress=False)
print(hardened)

# %%
# **The same gate.**
after = du.evaluate(hardened.model, rows, space=space, goal=goal, progress=False)
print(du.gate(after, "proven >= 0.5"))

# %%
# **Beware of robustness that means nothing**: how many of these proofs hang on what nobody can change?
print([flag.text for flag in after.flags if flag.id == "vacuous-robustness"])

# %%
names = ["before", "hardened"]
plt.figure("Phishing caught before and after hardening", figsize=(6, 2.4))
plt.barh(names, [r.metric("clean").value for r in (before, after)], color="#c9d4f2", label="caught")
plt.barh(
    names,
    [r.metric("proven").value for r in (before, after)],
    color="#4a6fd8",
    label="caught whatever they do",
)
plt.legend()
