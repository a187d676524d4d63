"""Pima's rows as a table: whole numbers where the readings are, bounds of all 768 rows."""

import durometer as du

SCHEMA = du.Schema(
    [
        du.Feature("pregnancies", "integer", 0, 17),
        du.Feature("glucose", "integer", 0, 199),
        du.Feature("blood_pressure", "integer", 0, 122),
        du.Feature("skin_fold", "integer", 0, 99),
        du.Feature("insulin", "integer", 0, 846),
        du.Feature("bmi", "real", 0, 67.1),
        du.Feature("pedigree", "real", 0.078, 2.5),
        du.Feature("age", "integer", 21, 81),
    ]
)


def train():
    """What models are fitted on."""
    return du.datasets.pima().train.in_schema(SCHEMA)


def test():
    """What is attacked."""
    return du.datasets.pima().test.in_schema(SCHEMA)
