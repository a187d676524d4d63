"""Card fraud: from a red gate to a green one

A thief with a stolen card chooses amount, hour and shop, but not the history of the card. Can they shape a payment
so that it passes? The table is made up, with the rules that real payments keep.
"""

# %%
# **The table**: six columns, two of which a thief cannot change, and two rules.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

import durometer as du

rng = np.random.default_rng(0)
n = 3000
fraud = rng.random(n) < 0.4
mean = rng.uniform(20, 120, n)
amount = np.clip(mean * np.where(fraud, rng.uniform(0.8, 5, n), rng.uniform(0.3, 1.6, n)), 1, 900)
limit = np.clip(mean * rng.uniform(5, 9, n), 100, 1000)
hour = np.where(fraud, rng.integers(0, 24, n), rng.integers(7, 23, n))
abroad = (rng.random(n) < np.where(fraud, 0.55, 0.05)).astype(float)
today = np.where(fraud, rng.integers(1, 9, n), rng.integers(1, 4, n))
amount = np.minimum(amount, limit)
x = np.stack([amount.round(2), mean.round(2), limit.round(2), hour, abroad, today], 1)
schema = du.Schema(
    [
        du.Feature("amount", "real", 1, 1000),
        du.Feature("usual", "real", 10, 200, mutable=False),
        du.Feature("limit", "real", 50, 1100, mutable=False),
        du.Feature("hour", "integer", 0, 23),
        du.Feature("abroad", "boolean"),
        du.Feature("today", "integer", 1, 12),
    ],
    ["amount <= limit"],
)
data = du.Dataset(x, np.where(fraud, "fraud", "genuine"), schema=schema, name="payments")
train, test = data[:2200], data[2200:]

# %%
# **The gate**: of all fraud, at least 55 % must be caught whatever the thief does within a quarter of each range.
model = RandomForestClassifier(30, max_depth=8, random_state=0)
model.fit(train.x.numpy(), train.y.numpy())
space = schema.space(eps=0.25, p=float("inf"))
goal = du.Targeted("genuine")
thefts = test.where(y="fraud")
before = du.evaluate(model, thefts, space=space, goal=goal, progress=False)
print(du.gate(before, "proven >= 0.55"))
print(before.minimal_changes(by="feature").head(3).round(2))

# %%
# **Harden**, and ask the same gate.
hardened = du.training.harden(model, train, space, goal, rounds=8, max_loss=None, progress=False)
after = du.evaluate(hardened.model, thefts, space=space, goal=goal, progress=False)
print(du.gate(after, "proven >= 0.55"))
every = {"before": model, "hardened": hardened.model}
accuracy = {
    k: round(float((m.predict(test.x.numpy()) == test.y.numpy()).mean()), 3)
    for k, m in every.items()
}
print("accuracy on all payments:", accuracy)

# %%
# The gate is green, at a price: nine points of accuracy on all payments. Whether that is worth it is for whoever owns the
# model to say; the two figures are what they need for it.
names = ["before", "hardened"]
plt.figure("Fraud caught before and after hardening", figsize=(6, 2.4))
plt.barh(names, [r.metric("clean").value for r in (before, after)], color="#c9d4f2", label="caught")
plt.barh(
    names,
    [r.metric("proven").value for r in (before, after)],
    color="#4a6fd8",
    label="caught whatever they do",
)
plt.legend()
