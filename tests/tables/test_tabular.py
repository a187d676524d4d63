"""Tables in files: ISO dates are dates, from the command line as from a frame."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.core.errors import DurometerError
from durometer.tables.table_io import read_table

RNG = np.random.default_rng(0)
SINCE = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 1500, 120), unit="D")
FRAME = pd.DataFrame({
    "amount": RNG.normal(100, 20, 120).round(2),
    "since": SINCE,
    "code": RNG.choice(["2020-01-01", "2021-01-01"], 120),
    "note": np.where(np.arange(120) % 2, "2020-02-30", "2020-03-01"),  # no such day
    "german": "01.02.2020",
    "paid": np.where(pd.Timestamp("2022-01-01") < SINCE, "yes", "no"),
})  # fmt: skip
FRAME.loc[3, "since"] = pd.NaT


def test_what_is_a_date_in_every_cell_is_one(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    found = read_table(tmp_path / "t.csv", text=["code"])
    assert (pd.to_datetime(found["since"]) == FRAME["since"]).sum() == 119
    assert found["since"].isna().sum() == 1
    assert found["since"].dtype.kind == "M"
    assert {str(found[c].dtype.kind) for c in ("code", "note", "german", "paid")} <= {"O", "U", "T"}
    assert read_table(tmp_path / "t.csv")["code"].dtype.kind == "M"
    (tmp_path / "bad.csv").write_bytes(b"\x00\xff,\n\x01")
    with pytest.raises(DurometerError, match="cannot be read as a table"):
        read_table(tmp_path / "bad.parquet")


def test_the_command_line_sees_the_dates_that_suggest_sees(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = FRAME.drop(columns=["code", "note", "german"])
    frame.to_csv("t.csv", index=False)
    made = CliRunner().invoke(app, ["schema", "t.csv", "--target", "paid", "--out", "s.toml"])
    assert made.exit_code == 0, made.output
    schema = du.Schema.read("s.toml")
    own = du.Schema.suggest(frame.drop(columns="paid"))
    assert [(f.name, f.kind, f.low, f.high, f.unit, f.missing) for f in schema.features] == [
        (f.name, f.kind, f.low, f.high, f.unit, f.missing) for f in own.features
    ]
    since = schema.features[1]
    assert since.unit == "days since 1970" and since.missing
    (tmp_path / "mine.py").write_text(
        "import pandas as pd\n"
        "def model(frame):\n"
        "    late = frame['since'] > pd.Timestamp('2022-01-01')\n"
        "    return pd.DataFrame({'no': ~late, 'yes': late}).to_numpy(float)\n"
    )
    (tmp_path / "run.toml").write_text("""
[data]
path = "t.csv"
label = "paid"
schema = "s.toml"
rows = 20
[model]
python = "mine.py:model"
inputs = "frame"
answers = "probabilities"
[space]
type = "TableSpace"
eps = 0.2
[attack]
type = "Graft"
evaluations = 200
""")
    ran = CliRunner().invoke(app, ["run", "run.toml", "-q"])
    assert ran.exit_code == 0, ran.output
    report = du.Report.load("runs/run")
    assert report.metric("clean").value == 1.0 and 0 < report.metric("robust").value < 1


def test_dates_come_back_as_dates_and_gaps_are_parts_that_can_be_looked_up():
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "since": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 80), "D"),
            "amount": np.where(rng.random(80) < 0.2, np.nan, rng.normal(size=80)),
            "kind": pd.Series(rng.choice(["a", "b", None], 80), dtype=object),
            "on": rng.random(80) < 0.5,
        }
    )
    y = (frame["amount"] > 0).to_numpy()
    schema = du.Schema.suggest(frame)
    data = du.Dataset(frame, y, schema=schema)
    pd.testing.assert_series_equal(schema.frame(data.x)["since"], frame["since"], check_dtype=False)

    plain = frame.drop(columns=["since", "kind"])
    model = HistGradientBoostingClassifier(max_iter=5).fit(plain, y)
    few = du.Dataset(frame, y, schema=du.Schema.suggest(plain))
    report = du.evaluate(model, few, space=few.schema.space(eps=0.1), attack=du.Graft(20))
    assert set(report.metric("robust", by="kind")) == {"a", "b", None}
    assert {type(k) for k in report.metric("robust", by="on")} == {bool}
    with pytest.raises(
        DurometerError, match=r"feature 'amount': nan.*Schema.suggest\(frame\).space"
    ):
        du.evaluate(model, du.Dataset(plain, y), space=du.Linf(0.1, -np.inf, np.inf))
