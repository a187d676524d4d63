"""Proposals from data: what is planted is found, chance is not, and the text can be read back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from durometer.cli.app import app
from durometer.core.errors import DurometerError
from durometer.tables.discovery.suggest import suggest
from durometer.tables.schema import Schema


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
        "term": rng.choice([36, 60], n),
        "noise_a": rng.normal(size=n), "noise_b": rng.normal(size=n),
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
    assert found.schema.one_hot_groups == {"home": [14, 15]}
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
        (pd.DataFrame({"name": [f"n{i}" for i in range(200)]}), "200 different texts"),
    ],
)
def test_bad_tables(frame, message):
    with pytest.raises(DurometerError, match=message):
        suggest(frame)


def texts(frame):
    return set(suggest(pd.DataFrame(frame)).table.relation)


def test_payments_and_months_are_known_by_heart():
    rng = np.random.default_rng(1)
    n = 300
    amount, rate, term = (
        rng.integers(5, 400, n) * 100.0,
        rng.uniform(5, 30, n),
        rng.choice([36, 60], n),
    )
    r = rate / 1200
    start = rng.integers(1980, 2000, n) * 100 + rng.integers(1, 13, n)
    end = rng.integers(2010, 2020, n) * 100 + rng.integers(1, 13, n)
    age = end // 100 * 12 + end % 100 - start // 100 * 12 - start % 100
    due = (amount * r * (1 + r) ** term / ((1 + r) ** term - 1)).round(2)
    found = texts({"due": due, "amount": amount, "rate": rate, "term": term,
                   "opened": start, "asked": end, "age": age})  # fmt: skip
    growth = "(1 + rate / 1200) ** term"
    assert f"due == amount * (rate / 1200) * {growth} / ({growth} - 1) within 0.01" in found
    months = "floor(asked / 100) * 12 + asked % 100 - (floor(opened / 100) * 12 + opened % 100)"
    assert f"age == {months}" in found


def traffic(empty="25", n=400):
    """Five ports; in one of them nothing ever happens."""
    rng, frame = np.random.default_rng(2), {}
    for port in ("22", "25", "53", "80", "443"):
        packets = rng.integers(0, 40, n) * (port != empty)
        frame[f"bytes_{port}"] = packets * rng.integers(40, 1480, n)
        frame[f"pkts_{port}"] = packets
        low = rng.integers(0, 9, n) * (port != empty)
        frame[f"ms_min_{port}"], frame[f"ms_max_{port}"] = (
            low,
            low + rng.integers(0, 9, n) * (port != empty),
        )
    return frame


def test_what_holds_in_a_family_is_proposed_where_a_column_is_empty():
    table = suggest(pd.DataFrame(traffic())).table.set_index("relation")
    assert table.loc["ms_min_80 <= ms_max_80"].kind == "order"
    alike = table.loc["ms_min_25 <= ms_max_25"]
    assert (alike.kind, alike.support) == ("order (by family)", 0)
    assert table.loc["bytes_80 <= 1500 * pkts_80"].kind == "multiple"
    assert table.loc["bytes_25 <= 1500 * pkts_25"].kind == "multiple (by family)"


def test_parts_stay_below_their_whole():
    rng = np.random.default_rng(3)
    parts = rng.poisson(2, (500, 4))
    frame = {f"nb_{c}": parts[:, i] for i, c in enumerate(("dot", "dash", "at", "slash"))}
    found = texts({**frame, "length": parts.sum(1) + rng.integers(0, 2, 500)})
    assert "nb_dot + nb_dash + nb_at + nb_slash <= length" in found


def test_columns_that_are_zero_together_are_tied_to_the_first_alone():
    rng = np.random.default_rng(4)
    on = rng.random(500) < 0.4
    frame = {c: np.where(on, rng.integers(1, 9, 500), 0) for c in ("a", "b", "c")}
    frame["sub"] = np.where(on & (rng.random(500) < 0.5), rng.integers(1, 9, 500), 0)
    found = {t for t in texts(frame) if " or " in t}
    assert found == {
        "b <= 0 or a > 0", "a <= 0 or b > 0", "c <= 0 or a > 0", "a <= 0 or c > 0",
        "sub <= 0 or a > 0",
    }  # fmt: skip


def test_an_order_that_follows_from_two_others_is_left_out():
    rng = np.random.default_rng(5)
    low = rng.uniform(0, 10, 300)
    mid = low + rng.uniform(0, 1, 300)
    found = texts({"low": low, "mid": mid, "high": mid + rng.uniform(0, 1, 300)})
    assert found == {"low <= mid", "mid <= high"}


def test_unrelated_columns_give_no_relations():
    rng = np.random.default_rng(6)
    assert texts({f"u{i}": rng.uniform(0, 1, 400) + i / 2 for i in range(12)}) == set()


def test_the_command_writes_a_file_that_schema_reads(tmp_path):
    planted().assign(label=1).to_csv(tmp_path / "data.csv", index=False)
    arguments = ["schema", str(tmp_path / "data.csv"), "--drop", "label"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0 and "acc_open <= acc_total" in shown.output
    saved = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "s.toml")])
    assert saved.exit_code == 0 and "relations from 600 rows" in saved.output
    assert "label" not in Schema.read(tmp_path / "s.toml").names


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("none.csv", [], "no file"),
        ("data.csv", ["--drop", "lable"], "did you mean 'label'"),
        ("data.csv", ["--broken", "2"], "from 0 to 0.5"),
        ("data.csv", ["--out", __file__], "is there already"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, name, more, message):
    planted().assign(label=1).to_csv(tmp_path / "data.csv", index=False)
    said = CliRunner().invoke(app, ["schema", str(tmp_path / name), *more])
    assert said.exit_code == 2 and message in said.output


def test_rounded_quotients_products_and_rates_are_found():
    rng = np.random.default_rng(3)
    n = 800
    amount, term = rng.integers(1000, 40000, n).astype(float), rng.choice([36, 60], n)
    income, days = rng.normal(5e4, 1e4, n).round(2), rng.integers(1, 30, n)
    price = rng.uniform(1, 90, n).round(2)
    frame = pd.DataFrame({
        "amount": amount, "term": term, "instalment": (amount / term).round(2),
        "income": income, "tax": (0.2 * income).round(2), "price": price, "days": days,
        "bill": (price * days).round(1), "noise": rng.normal(0, 50, n).round(2),
    })  # fmt: skip
    found = {str(c.relation) for c in suggest(frame).candidates if c.kind == "formula"}
    assert found == {
        "instalment == amount / term within 0.00501", "tax == income * 0.2 within 0.00501",
        "bill == price * days within 0.0501",
    }  # fmt: skip
    frame.loc[:79, "tax"] += 1.0  # a tenth of the rows: no longer a rule
    assert not any("tax" in str(c.relation) for c in suggest(frame).candidates)


def test_differences_and_ordered_dates_are_found():
    rng = np.random.default_rng(4)
    n = 500
    opened = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    bill, paid = rng.integers(0, 5000, n), rng.integers(0, 5000, n)
    frame = pd.DataFrame({
        "opened": opened, "closed": opened + pd.to_timedelta(rng.integers(0, 200, n), "D"),
        "bill": bill, "payment": np.minimum(bill, paid), "left": bill - np.minimum(bill, paid),
    })  # fmt: skip
    found = set(suggest(frame).table.relation)
    assert {"opened <= closed", "payment + left == bill", "payment <= bill"} <= found
