"""Discovery: a category's value fixes another column, and amounts that never come together."""

import numpy as np
import pandas as pd

import durometer as du

LEVELS = {"none": 0, "school": 9, "bachelor": 13, "master": 14}


def people(n=2000, mixed=0.0):
    rng = np.random.default_rng(0)
    education = rng.choice(list(LEVELS), n)
    number = np.array([LEVELS[e] for e in education])
    number = np.where(rng.random(n) < mixed, rng.integers(0, 15, n), number)
    role = rng.choice(["husband", "wife", "other"], n)
    sex = np.where(role == "husband", "male", np.where(role == "wife", "female",
                   rng.choice(["male", "female"], n)))  # fmt: skip
    gain = np.where(rng.random(n) < 0.2, rng.integers(1, 9000, n), 0)
    loss = np.where((gain == 0) & (rng.random(n) < 0.2), rng.integers(1, 900, n), 0)
    hours = rng.integers(1, 60, n)
    return pd.DataFrame({"education": education, "education_num": number, "role": role, "sex": sex,
                         "gain": gain, "loss": loss, "hours": hours})  # fmt: skip


def test_what_a_category_implies_and_what_excludes_is_found():
    found = du.Schema.suggest(people())
    said = " ; ".join(map(str, (c.relation for c in found.candidates)))
    for level, number in LEVELS.items():
        relation = du.Schema(
            found.features, [f"if education == '{level}' then education_num == {number}"]
        )
        assert str(relation.relations[0]) in said
    roles = du.Schema(
        found.features, ["if role == 'husband' then sex == 'male'", "gain == 0 or loss == 0"]
    )
    assert all(str(r) in said for r in roles.relations)
    assert "hours" not in said
    assert not len(found.schema.validate(people()))


def test_a_habit_that_half_the_rows_break_is_not_proposed():
    found = du.Schema.suggest(people(mixed=0.5))
    assert not [c for c in found.candidates if "education_num" in c.names]
