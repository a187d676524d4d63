"""A random forest has no gradients: Square asks it questions and reads the answers.

python examples/forest.py
"""

from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler

import durometer as du

splits = du.datasets.pima()
scale = MinMaxScaler(clip=True).fit(splits.train.x)  # shares of each feature's range
forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
forest.fit(scale.transform(splits.train.x), splits.train.y)

test = du.Dataset(scale.transform(splits.test.x), splits.test.y, name="pima, scaled")
report = du.evaluate(forest, test, space=du.Linf(0.05), attack=du.Square(300))
print(report)
print(report.metric("robust", by="y"))
