"""Pima's rows as a table: whole numbers where the readings are, bounds of all 768 rows."""

import assay as ay

SCHEMA = ay.Schema(
    [
        ay.Feature("pregnancies", "integer", 0, 17),
        ay.Feature("glucose", "integer", 0, 199),
        ay.Feature("blood_pressure", "integer", 0, 122),
        ay.Feature("skin_fold", "integer", 0, 99),
        ay.Feature("insulin", "integer", 0, 846),
        ay.Feature("bmi", "real", 0, 67.1),
        ay.Feature("pedigree", "real", 0.078, 2.5),
        ay.Feature("age", "integer", 21, 81),
    ]
)


def train():
    """What models are fitted on."""
    return ay.datasets.pima().train.in_schema(SCHEMA)


def test():
    """What is attacked."""
    return ay.datasets.pima().test.in_schema(SCHEMA)
