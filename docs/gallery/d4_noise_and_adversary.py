"""Noise and an adversary together

A smoothed model has a certified radius: with noise of known size, no shift within it changes the
decision. For trees the probability behind it is exact, and so the radius has no cap by sampling.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from xgboost import XGBClassifier

import durometer as du

x, y = load_breast_cancer(return_X_y=True)
x = (x - x.min(0)) / (x.max(0) - x.min(0))
model = XGBClassifier(n_estimators=40, max_depth=3, n_jobs=1).fit(x[:400], y[:400])
data = du.Dataset(x[400:430], y[400:430])
nature = du.Nature(model, du.Normal(sd=0.05))
radius = nature.certified_radius(data)
print(radius.head())

# %%
plt.figure(label="Share of records certified at each radius")
at = np.sort(radius["L2"].to_numpy())
plt.step(at, 1 - np.arange(len(at)) / len(at), where="post")
plt.xlabel("certified L2 radius")
plt.ylabel("share of records")
