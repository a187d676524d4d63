"""A document for the auditor

Every saved run holds a document of what was asked, how, and what it does not say. What only people know, you
add; everything else is derived from the run.
"""

# %%
import json
import tempfile
from pathlib import Path

from sklearn.ensemble import RandomForestClassifier

import durometer as du

url = du.datasets.url()
forest = RandomForestClassifier(20, max_depth=6, random_state=0)
forest.fit(url.train.x.numpy(), url.train.y.numpy())
rows = url.test.where(y="phishing").sample(60)
report = du.evaluate(
    du.wrap(forest, name="phishing filter"), rows, space=rows.schema.space(eps=0.05),
    attack=du.Exact(certificates=True), progress=False,
)  # fmt: skip
folder = Path(tempfile.mkdtemp()) / "filter"
report.save(folder, evidence={"purpose": "warns before suspicious links", "owner": "mail team"})
document = json.loads((folder / "evidence.json").read_text())
print(list(document))
print(json.dumps(document["scope"], indent=1)[:420])

# %%
# Somebody else checks it: every hash, every figure, every example, every proof.
found = du.verify(folder, forest, rows)
print(found.status)

# %%
report.plot.verdicts()
