"""A linear model has an exact answer

For logistic regression the worst valid change is found by sorting, not by searching.
"""

# %%
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import durometer as du

url = du.datasets.url()
model = make_pipeline(StandardScaler(), LogisticRegression())
model.fit(url.train.x.numpy(), url.train.y.numpy())
data = url.test.sample(50)
for share in (0.01, 0.03, 0.1):
    report = du.evaluate(
        model, data, space=data.schema.space(eps=share, p=float("inf")), progress=False
    )
    proven, left = (report.metric(name).value for name in ("proven", "open"))
    print(f"{share:.2f}: proven {proven:.2f}, open {left:.2f}")
