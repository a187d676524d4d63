"""Errors that come together

Two sensors on one power supply err together. Correlation may help or harm; it is part of the noise.
"""

# %%
import numpy as np
from sklearn.tree import DecisionTreeClassifier

import durometer as du

pima = du.datasets.pima()
tree = DecisionTreeClassifier(max_depth=4, random_state=0)
tree.fit(pima.train.x.numpy(), pima.train.y.numpy())
data = pima.test.sample(15)
sd = 0.1 * pima.train.x.std(0).numpy()
for strength in (0.0, 0.5, 0.9):
    correlation = np.full((len(sd), len(sd)), strength)
    np.fill_diagonal(correlation, 1.0)
    noise = du.Normal(cov=correlation * np.outer(sd, sd))
    report = du.evaluate(du.Nature(tree, noise, tolerance=1e-3), data, progress=False)
    low, high = report.table["probability_low"].mean(), report.table["probability_high"].mean()
    print(f"correlation {strength}: the decision stays with {low:.4f} to {high:.4f}")
