"""Is the new model better? Paired, row by row

Two intervals that overlap say little. The same rows under both models say much more.
"""

# %%
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import durometer as du

url = du.datasets.url()
phishing = url.test.where(y="phishing").sample(80)
space = phishing.schema.space(eps=0.03, p=float("inf"))
reports = []
for model in (
    XGBClassifier(n_estimators=40, max_depth=4, n_jobs=1),
    RandomForestClassifier(20, max_depth=6, random_state=0),
):
    model.fit(url.train.x.numpy(), url.train.y.numpy())
    reports.append(du.evaluate(model, phishing, space=space, attack=du.Exact(), progress=False))
print(reports[0].compare(reports[1]))
