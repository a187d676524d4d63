"""Proposals from data: what is planted is found, what is chance is not, and the text can be read back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from assay.errors import AssayError
from assay.spaces.schema import Schema
from assay.spaces.suggest import suggest


def planted(n=600):
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 50, n)
    amount, income = rng.uniform(1e3, 4e4, n), rng.uniform(1e4, 1e5, n)
    opened = rng.integers(1, 30, n)
    months = rng.integers(0, 5, n)
    parts = rng.integers(0, 100, (n, 6))
    frame = {
        "acc_open": opened, "acc_total": opened + rng.integers(0, 20, n),
        "pulse_min": low, "pulse_max": low + rng.uniform(0, 9, n),
        "amount": amount, "income": income, "ratio_amount_income": amount / income,
        "defaults": (d := rng.integers(0, 3, n)), "months": months,
        "ratio_defaults_months": np.where(months > 0, d / np.maximum(months, 1), -1.0),
        "term": rng.choice([36, 60], n), "noise_a": rng.normal(size=n), "noise_b": rng.normal(size=n),
        "kind": rng.choice(["car", "house"], n),
        "home_own": (h := rng.integers(0, 2, n)), "home_rent": 1 - h,
        "age": rng.integers(18, 90, n),
    }  # fmt: skip
    for j, port in enumerate(("80", "443", "OTHER")):
        frame[f"tcp_{port}"], frame[f"udp_{port}"] = parts[:, j], parts[:, j + 3]
    total = parts.sum(1)
    cut = rng.integers(0, 50, n)
    frame |= {"out_80": cut, "out_443": total - cut, "out_OTHER": 0 * cut}
    return pd.DataFrame(frame)


def test_planted_relations_are_found_and_noise_is_not():
    found = suggest(planted())
    texts = set(found.table.relation)
    assert {
        "acc_open <= acc_total", "pulse_min <= pulse_max", "ratio_amount_income == amount / income",
        "ratio_defaults_months == divide(defaults, months, -1)", "term in {36, 60}",
    } <= texts  # fmt: skip
    sums = found.table.relation[found.table.kind == "sum"]
    assert len(sums) == 1 and sums.iloc[0].count("_") == 9
    assert not any("noise" in t for t in texts)


def test_kinds_groups_and_what_to_consider():
    found = suggest(planted())
    kinds = {f.name: f.kind for f in found.features}
    assert (kinds["amount"], kinds["acc_open"], kinds["kind"]) == ("real", "integer", "category")
    assert found.schema.groups == {"home": [14, 15]}
    assert "age" in found.consider


def test_the_proposal_is_editable_text_that_fits_the_data(tmp_path):
    data = planted()
    text = Schema.suggest(data).toml()
    assert "support" in text and "broken by 0" in text
    path = tmp_path / "proposal.toml"
    path.write_text(text, encoding="utf-8")
    assert Schema.read(path).validate(data).empty


def test_rare_exceptions_are_counted_not_fatal():
    data = planted()
    data.loc[7, "pulse_max"] = data.loc[7, "pulse_min"] - 1
    row = suggest(data).table.set_index("relation").loc["pulse_min <= pulse_max"]
    assert row.broken == 1 and row.support > 20


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": []}), "at least one row"),
        (pd.DataFrame({"a": [1.0, None]}), "1 of 2 values are missing"),
        (pd.DataFrame({"name": [f"n{i}" for i in range(200)]}), "200 different texts"),
    ],
)
def test_bad_tables(frame, message):
    with pytest.raises(AssayError, match=message):
        suggest(frame)
