"""Choose the most robust model that is accurate enough

`robust_scorer` goes wherever scikit-learn takes `scoring=`. A deeper tree is more accurate and easier to fool. So
among all settings within a point of the best accuracy, take the one with the most proven rows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeClassifier

import durometer as du

url = du.datasets.url()
x, y = url.train.x.numpy()[:1500], url.train.y.numpy()[:1500]
proven = du.robust_scorer(url.train.schema.space(eps=0.02), side="at least", rows=200)


def most_robust_within_a_point(results):
    """The index of the most robust setting whose accuracy is at most .01 below the best."""
    accuracy, robust = results["mean_test_accuracy"], results["mean_test_robust"]
    return int(np.where(accuracy >= accuracy.max() - 0.01, robust, -1.0).argmax())


depths = [1, 2, 3, 5, 8]
search = GridSearchCV(
    DecisionTreeClassifier(random_state=0), {"max_depth": depths}, cv=3,
    refit=most_robust_within_a_point, scoring={"robust": proven, "accuracy": "accuracy"},
)  # fmt: skip
search.fit(x, y)

for k, depth in enumerate(depths):
    accuracy, robust = (search.cv_results_[f"mean_test_{n}"][k] for n in ("accuracy", "robust"))
    chosen = "  <- chosen" if k == search.best_index_ else ""
    print(f"depth {depth}: accuracy {accuracy:.3f}, proven robust {robust:.3f}{chosen}")

# %%
plt.figure("Accuracy and proven robust accuracy by depth", figsize=(6, 3))
for name, label in (("accuracy", "accuracy"), ("robust", "proven robust accuracy")):
    plt.plot(depths, search.cv_results_[f"mean_test_{name}"], "o-", label=label)
plt.axvline(search.best_params_["max_depth"], color="grey", linestyle=":", label="chosen")
plt.xlabel("depth of the tree")
plt.legend()
