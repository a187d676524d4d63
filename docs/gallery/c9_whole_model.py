"""Does sex alone flip a decision?

Not "on the rows at hand" but for every valid record: found, with the pair as evidence, or proven.
Beside it: how many real records do it, and what the relations of the table rule out.
"""

# %%
from xgboost import XGBClassifier

import durometer as du

adult = du.datasets.adult()
model = XGBClassifier(n_estimators=100, max_depth=4, n_jobs=1)
model.fit(adult.train.x.numpy(), adult.train.y.numpy())
schema = adult.train.schema
answer = du.flips(model, schema, of=["sex"], data=adult.test, seconds=3)
print(answer)

# %%
# Years of schooling never lower the score, but only because the degree says them: without the
# relations between the two the score does fall.
print(du.monotone(model, schema, in_="education_num", data=adult.test, seconds=3))

# %%
# Claims, as a gate and a page have them; here of German credits.
german = du.datasets.german()
credit = XGBClassifier(n_estimators=50, max_depth=3, n_jobs=1)
credit.fit(german.train.x.numpy(), german.train.y.numpy())
claims = [
    "personal_status never flips a decision by more than 2",
    "age never flips a decision",
]
report = du.check_properties(credit, german.train.schema, claims, german.test, seconds=3)
print(report)
