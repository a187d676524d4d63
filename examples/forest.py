"""A random forest has no gradients: Square asks it questions and reads the answers.

python examples/forest.py
"""

from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler

import assay as ay

splits = ay.datasets.pima()
scale = MinMaxScaler(clip=True).fit(splits.train.x)  # shares of each feature's range
forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0)
forest.fit(scale.transform(splits.train.x), splits.train.y)

test = ay.Dataset(scale.transform(splits.test.x), splits.test.y, name="pima, scaled")
report = ay.evaluate(forest, test, space=ay.Linf(0.05), attack=ay.Square(300))
print(report)
print(report.metric("robust", by="y"))
