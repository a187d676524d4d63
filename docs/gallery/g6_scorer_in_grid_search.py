"""Choose hyper-parameters by robustness

`robust_scorer` goes wherever scikit-learn takes `scoring=`. A deeper tree is more accurate; here is what it
costs.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import durometer as du

url = du.datasets.url()
x, y = url.train.x.numpy()[:1500], url.train.y.numpy()[:1500]
proven = du.robust_scorer(url.train.schema.space(eps=0.02), side="at least", rows=60)
depths = [1, 2, 3, 5, 8]
search = GridSearchCV(
    DecisionTreeClassifier(random_state=0), {"max_depth": depths}, cv=3, refit="robust",
    scoring={"robust": proven, "accuracy": "accuracy"},
)  # fmt: skip
search.fit(x, y)
print(search.best_params_)

# %%
plt.figure("Accuracy and proven robust accuracy by depth", figsize=(6, 3))
for name, label in (("accuracy", "accuracy"), ("robust", "proven robust accuracy")):
    plt.plot(depths, search.cv_results_[f"mean_test_{name}"], "o-", label=label)
plt.xlabel("depth of the tree")
plt.legend()
