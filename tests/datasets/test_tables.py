"""URL, LCLD, CTU-13, WiDS: relations against the authors' code and plain numpy; loaders."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from durometer import datasets
from durometer.core.errors import DurometerError
from durometer.data.splits import TestOnly
from durometer.datasets import ctu13 as ctu13_loader
from durometer.datasets import lcld as lcld_loader
from durometer.datasets import lending, source

ctu13_file = ctu13_loader.__globals__
lcld_file = lcld_loader.__globals__
wids_file = datasets.wids.__globals__

DATA = Path(__file__).parents[1] / "data"
SAMPLES = Path(source.__file__).parent / "samples"
SHA256 = {
    "ctu13": "db02d46ee9d7857a622a342e466741d077ad06c9494032793c19f5f540f11e1e",
    "lcld": "e661a5b4577a9a2bf161ad144c07c03504f8ede671e2651394ed4b939dec5a05",
}


def oracle(name):
    with np.load(DATA / f"relations_{name}.npz") as archive:
        return {key: archive[key] for key in archive.files}


def holds(schema, x, tolerance=1e-6):
    x = torch.as_tensor(x)
    return schema.program.holds(x, x, tolerance).numpy()


def broken(data):
    """How many rows break each relation, by text; and the ids of all rows that break something."""
    found = data.schema.validate(data.x)
    return found["rule"].value_counts().to_dict(), sorted(data.ids[found["row"]].tolist())


# The relations, against the authors' own code


@pytest.mark.parametrize(
    ("name", "key", "schema"),
    [
        ("url", "meant", lambda: datasets.url().test.schema),
        ("url", "published", lambda: datasets.url(relations="published").test.schema),
        ("lcld28", "holds", lambda: datasets.lcld(28).test.schema),
        ("ctu13", "holds", lambda: datasets.ctu13().test.schema),
    ],
)
@pytest.mark.parametrize("tolerance", [0.0, 1e-6])
def test_each_relation_holds_on_the_rows_the_authors_code_says(name, key, schema, tolerance):
    known, schema = oracle(name), schema()
    assert len(schema.relations) == known[key].shape[1]
    assert not known[key].all()
    assert (holds(schema, known["x"], tolerance) == known[key]).all()
    x = torch.as_tensor(known["x"])
    assert ((schema.program.penalties(x, x, tolerance) == 0).numpy() == known[key]).all()


def test_the_published_if_thens_of_url_never_fail():
    known = oracle("url")
    conditional = [2, 3, 5, 6, 7, 8]
    assert known["published"][:, conditional].all()
    assert (~known["meant"][:, conditional]).sum() == 31


def check_ctu13(x):
    """(n, 360): the relations by names and loops."""
    place = {name: i for i, name in enumerate(ctu13_file["FEATURES"])}

    def col(name):
        return x[:, place[name]]

    ports = [n.rsplit("_", 1)[1] for n in ctu13_file["FEATURES"][:: 2 * 21]]
    out = []
    for way in "sd":
        left = sum(col(f"{p}_sum_{way}_{port}") for p in ("tcp", "udp", "icmp") for port in ports)
        right = sum(col(f"bytes_{io}_sum_{way}_{port}") for io in ("in", "out") for port in ports)
        out.append(left == right)
    for way in "sd":
        for port in ports[:-1]:
            packets = col(f"pkts_out_sum_{way}_{port}")
            size = col(f"bytes_out_sum_{way}_{port}") / np.where(packets == 0, 1, packets)
            out.append((packets == 0) | (size <= 1500))
    for what in ("bytes_out", "pkts_out", "duration"):
        for port in ports:
            for way in "ds":
                low, high, total = (col(f"{what}_{k}_{way}_{port}") for k in ("min", "max", "sum"))
                out += [high <= total, low <= total, low <= high]
    return np.stack(out, axis=1)


def test_ctu13_relations_on_rows_that_break_every_one_of_them():
    data = datasets.ctu13().test
    rng = np.random.default_rng(0)
    x = data.x.numpy()[rng.integers(0, len(data), 400)]
    noisy = rng.random(x.shape) < 0.3
    x = np.where(noisy, np.floor(10 ** rng.uniform(0, 6, x.shape)), x)
    expected = check_ctu13(x)
    assert (~expected).any(0).all() and expected[:, 2:].any(0).all()
    assert (holds(data.schema, x, 0.0) == expected).all()


def check_lcld(table, features):
    """The relations of either version by formulas on named columns, ratios to 1e-6."""
    age = "month_since_earliest_cr_line" if features == 28 else "diff_issue_d_earliest_cr_line"

    def same(a, b):
        return (np.abs(a - b) <= 1e-6 * np.maximum(1, np.maximum(np.abs(a), np.abs(b)))).to_numpy()

    t, r = table, table["int_rate"] / 1200
    due = t.loan_amnt * r * (1 + r) ** t.term / ((1 + r) ** t.term - 1)
    share = np.where(t.pub_rec == 0, -1, t.pub_rec_bankruptcies / t.pub_rec.where(t.pub_rec != 0))
    out = [
        (np.abs(t.installment - due) <= (0.01 if features == 28 else 0.1)).to_numpy(),
        (t.open_acc <= t.total_acc).to_numpy(),
        (t.pub_rec_bankruptcies <= t.pub_rec).to_numpy(),
        t.term.isin([36, 60]).to_numpy(),
        same(t.ratio_loan_amnt_annual_inc, t.loan_amnt / t.annual_inc),
        same(t.ratio_open_acc_total_acc, t.open_acc / t.total_acc),
        same(t[f"ratio_pub_rec_{age}"], t.pub_rec / t[age]),
        same(t[f"ratio_pub_rec_bankruptcies_{age}"], t.pub_rec_bankruptcies / t[age]),
        same(t.ratio_pub_rec_bankruptcies_pub_rec, pd.Series(share)),
    ]
    if features == 47:
        months = [t[d] // 100 * 12 + t[d] % 100 for d in ("issue_d", "earliest_cr_line")]
        out.insert(6, same(t[age], months[0] - months[1]))
    return np.stack(out, axis=1)


@pytest.mark.parametrize("features", [28, 47])
def test_lcld_relations_on_clean_and_on_changed_loans(features):
    data = datasets.lcld(features).test
    rng = np.random.default_rng(1)
    x = data.x.numpy().copy()
    other = x[rng.permutation(len(x))]
    changed = np.where(rng.random(x.shape) < 0.2, other, x)
    # Shuffling breaks neither the term nor, often, the bankruptcies: these have to be made.
    names = data.schema.names
    changed[::7, names.index("term")] = 48
    changed[::5, names.index("pub_rec_bankruptcies")] = 9
    x = np.concatenate([x, changed])
    expected = check_lcld(pd.DataFrame(x, columns=names), features)
    assert (~expected).any(0).all() and expected.any(0).all()
    assert (holds(data.schema, x) == expected).all()


# Clean rows: which break what


def test_eight_clean_urls_break_the_relations_as_meant():
    splits = datasets.url()
    counts, ids = {}, []
    for part in (splits.train, splits.val, splits.test):
        found, rows = broken(part)
        counts = {r: counts.get(r, 0) + found.get(r, 0) for r in {*counts, *found}}
        ids += rows
    assert counts == {
        "abnormal_subdomain <= 0 or ratio_digits_host > 0": 7,
        "ip <= 0 or ratio_digits_url > 0": 1,
    }
    assert sorted(ids) == [705, 3336, 5424, 6279, 7360, 8274, 11312, 11405]


def test_no_clean_url_breaks_the_published_relations():
    splits = datasets.url(relations="published")
    assert all(broken(p) == ({}, []) for p in (splits.train, splits.val, splits.test))


@pytest.mark.parametrize("features", [28, 47])
def test_one_loan_pays_other_than_its_rate_and_term_say(features):
    data = datasets.lcld(features).test
    counts, ids = broken(data)
    assert ids == [543]
    assert [rule.split(" ==")[0] for rule in counts] == ["installment"]


def test_every_botnet_row_keeps_all_rules():
    assert broken(datasets.ctu13().test) == ({}, [])


# What an attacker may do


def test_url_bounds_are_the_ranges_of_the_data():
    splits = datasets.url()
    x = torch.cat([p.x for p in (splits.train, splits.val, splits.test)])
    low, high = splits.test.schema.bounds(x[:1])
    assert torch.equal(low[0], x.amin(0)) and torch.equal(high[0], x.amax(0))
    kinds = [f.kind for f in splits.test.schema.features]
    assert kinds.count("real") == 5 and kinds.count("integer") == 58


def test_url_knows_two_lists_of_relations():
    with pytest.raises(
        DurometerError, match='relations=\'paper\'; expected "meant" or "published"'
    ):
        datasets.url(relations="paper")


def test_traffic_can_only_be_added():
    data = datasets.ctu13().test
    low, high = data.schema.bounds(data.x)
    free = data.schema.mutable
    assert int(free.sum()) == 432
    assert torch.equal(low[:, free], data.x[:, free])
    assert bool((data.x <= high).all())
    less = data.x.clone()
    less[:, free] -= 1
    rules = data.schema.validate(data.x)
    assert rules.empty
    region = data.schema.space(eps=10.0).around(data.x[:2])
    assert region.contains(data.x[:2]).tolist() == [True, True]
    assert region.contains(less[:2]).tolist() == [False, False]


def test_lcld_versions_differ_in_what_is_immutable():
    small, large = datasets.lcld(28).test.schema, datasets.lcld(47).test.schema
    assert int(small.mutable.sum()) == 14 and int(large.mutable.sum()) == 28
    assert not small.mutable[small.names.index("term")]
    assert large.mutable[large.names.index("term")]
    assert {k: len(v) for k, v in large.one_hot_groups.items()} == {
        "home_ownership": 4,
        "verification_status": 3,
        "purpose": 14,
    }
    # MOEVA's scaler: ranges rounded outwards to whole numbers.
    assert large.features[large.names.index("installment")].range == (4.0, 1720.0)
    assert large.features[large.names.index("annual_inc")].range == (33.0, 10999200.0)


def test_lcld_categories_come_back_as_words():
    data = datasets.lcld(28).test
    row = data.schema.frame(data.x[data.ids == 0])
    assert row["purpose"].tolist() == ["credit_card"]
    assert row["home_ownership"].tolist() == ["RENT"]
    assert row["fico_score"].tolist() == [677.0]


@pytest.mark.parametrize(("features", "rows", "bad"), [(28, 993, 199), (47, 1082, 216)])
def test_lcld_sample(features, rows, bad):
    data = datasets.lcld(features).test
    assert tuple(data.x.shape) == (rows, features)
    assert int(data.y.sum()) == bad
    assert data.classes == ("fully paid", "charged off")
    assert datasets.lcld(features).test.hash == data.hash


@pytest.mark.parametrize("name", SHA256)
def test_stored_bytes_are_the_released_ones(name):
    assert source.sha256(SAMPLES / f"{name}.npz") == SHA256[name]


@pytest.mark.parametrize("name", ["ctu13", "lcld"])
def test_samples_without_training_rows_say_where_they_are(name):
    splits = getattr(datasets, name)()
    assert isinstance(splits, TestOnly)
    for part in ("train", "val"):
        with pytest.raises(DurometerError, match="pass path="):
            getattr(splits, part)


# Raw loans

LOANS = """loan_amnt,term,int_rate,installment,sub_grade,emp_length,home_ownership,annual_inc,\
verification_status,issue_d,loan_status,purpose,dti,earliest_cr_line,open_acc,pub_rec,revol_bal,\
revol_util,total_acc,initial_list_status,application_type,mort_acc,pub_rec_bankruptcies,\
fico_range_low,fico_range_high
6000, 36 months,9.49,192.17,B2,10+ years,RENT,60000,Not Verified,Sep-2016,Fully Paid,credit_card,\
15.99,Aug-1998,22,3,7326,18.1,35,w,Individual,0,1,675,679
20850,60, 6.00%,653.38,G5,< 1 year,NONE,80000,Verified,Jan-2014,Charged Off,house,\
10,Dec-2013,5,0,100,5%,10,f,Joint App,2,0,700,704
20850,60, 6.00%,653.38,A1,n/a,OWN,80000,Verified,Jan-2014,Charged Off,house,\
10,Dec-2009,5,0,100,5%,10,f,Joint App,2,0,700,704
20850,60, 6.00%,653.38,A1,1 year,OWN,0,Verified,Jan-2014,Charged Off,house,\
10,Dec-2009,5,0,100,5%,10,f,Joint App,2,0,700,704
1000,36,5,30,A1,1 year,OWN,1,Verified,Jan-2014,Current,car,\
1,Dec-2009,5,0,1,5,10,f,Individual,2,0,7,7
"""


def write(tmp_path, text, name="loans.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_raw_loans_become_numbers(tmp_path):
    loans = lending.prepare(lending.read(write(tmp_path, LOANS)))
    # Without a job's length, without an income, and not finished: three of five are left out.
    assert loans.index.tolist() == [1, 0]
    first = loans.loc[1]
    assert (first["term"], first["int_rate"], first["revol_util"]) == (60, 6.0, 5.0)
    assert (first["sub_grade"], first["grade"], first["emp_length"]) == (34, 7, 0)
    assert (first["home_ownership"], first["fico_score"]) == ("OTHER", 702)
    assert (first["issue_d"], first["earliest_cr_line"]) == (201401, 201312)
    assert loans["charged_off"].tolist() == [1, 0]
    table = lcld_file["engineer"](loans, 28).loc[0]
    assert table["month_since_earliest_cr_line"] == 18 * 12 + 1
    assert table["month_of_year"] == 8
    assert table["ratio_pub_rec_bankruptcies_pub_rec"] == 1 / 3
    assert lcld_file["engineer"](loans, 28).loc[1, "ratio_pub_rec_bankruptcies_pub_rec"] == -1
    wide = lcld_file["engineer"](loans, 47).loc[1]
    assert (wide["home_ownership_OTHER"], wide["home_ownership_RENT"]) == (1, 0)
    assert (wide["application_type_Joint App"], wide["initial_list_status_w"]) == (1, 0)
    assert wide["purpose_house"] == 1 and wide.filter(like="purpose_").sum() == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fico_range_low", "fico", "lacks the columns .'fico_range_low'.*accepted_2007_to_2018Q4"),
        ("Sep-2016", "2016-09", "issue_d '2016-09': expected a date like Dec-2015"),
        ("7326", "lots", "revol_bal 'lots': expected a number"),
        ("Fully Paid", "Default", "no loan with the status|none of"),
        ("credit_card", "crypto", "category 'crypto' is not in values"),
    ],
)
def test_raw_loans_that_cannot_be_read(tmp_path, old, new, message):
    text = "\n".join(LOANS.splitlines()[:2]).replace(old, new)
    with pytest.raises(DurometerError, match=message):
        datasets.lcld(path=write(tmp_path, text))


def test_loans_without_a_needed_value_in_any_row_say_which(tmp_path):
    text = "\n".join(LOANS.splitlines()[:2]).replace("675,679", ",")
    with pytest.raises(DurometerError, match="none of 1 finished loans is complete: fico_score"):
        datasets.lcld(path=write(tmp_path, text))


def test_lcld_has_two_versions():
    with pytest.raises(DurometerError, match="28 and with 47 features; asked for 30"):
        datasets.lcld(30)


def test_lcld_split_sizes_are_those_of_the_periods(tmp_path):
    raw = lcld_file["_bundled"]()
    path = tmp_path / "accepted.csv.gz"
    raw.to_csv(path, index=False)
    splits = datasets.lcld(28, path)
    sample = lending.prepare(raw)["issue_d"]
    assert len(splits.test) == int(((sample > 201600) & (sample < 201800)).sum())
    assert len(splits.val) == int(sample.between(201507, 201512).sum())
    assert len(splits.train) + len(splits.val) + len(splits.test) == 993
    rows = [set(p.ids.tolist()) for p in (splits.train, splits.val, splits.test)]
    assert not rows[0] & rows[1] and not rows[0] & rows[2] and not rows[1] & rows[2]
    wide = datasets.lcld(47, path)
    assert wide.val is None and len(wide.test) == 271 and len(wide.train) == 811


# CTU-13 from files


def test_ctu13_reads_arrays_and_tables(tmp_path):
    data = datasets.ctu13().test
    x = data.x.numpy()
    np.save(tmp_path / "x_candidates_common.npy", x[:5])
    np.savez(tmp_path / "samples.npz", x_candidates_common=x[:5], other=x[0])
    np.savez(tmp_path / "labelled.npz", x=x[:5], y=np.array([0, 1, 1, 0, 1]))
    frame = pd.DataFrame(x[:5], columns=ctu13_file["FEATURES"]).assign(is_botnet=[0, 1, 1, 0, 1])
    frame.to_csv(tmp_path / "table.csv", index=False)
    for name in ("x_candidates_common.npy", "samples.npz", "labelled.npz", "table.csv"):
        found = datasets.ctu13(tmp_path / name).test
        assert torch.equal(found.x, data.x[:5])
        labelled = name in ("labelled.npz", "table.csv")
        assert found.y.tolist() == ([0, 1, 1, 0, 1] if labelled else [1] * 5)


def test_ctu13_splits_the_full_table_as_published(monkeypatch, tmp_path):
    x = datasets.ctu13().test.x.numpy()
    y = np.arange(387) % 2
    np.savez(tmp_path / "full.npz", x=x, y=y)
    monkeypatch.setitem(ctu13_file, "TRAIN_ROWS", 300)
    splits = datasets.ctu13(tmp_path / "full.npz")
    assert splits.test.ids.tolist() == list(range(300, 387))
    assert (len(splits.train), len(splits.val)) == (240, 60)
    assert sorted([*splits.train.ids, *splits.val.ids]) == list(range(300))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((3, 755)), "y": np.ones(3)}, r"shape \(3, 755\).*expected \(rows, 756\)"),
        ({"x": np.ones((3, 756)), "y": np.ones(2)}, r"labels of shape \(2,\)"),
        ({"features": np.ones((3, 756))}, "expected x and y, or x_candidates_common"),
    ],
)
def test_ctu13_files_of_another_shape(tmp_path, arrays, message):
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(DurometerError, match=message):
        datasets.ctu13(tmp_path / "wrong.npz")


def test_ctu13_table_without_the_columns(tmp_path):
    with pytest.raises(DurometerError, match="lacks 757 of 757 columns"):
        datasets.ctu13(write(tmp_path, "a,b\n1,2\n"))


# WiDS: no data, so a made-up table in its form


def stays(n=60):
    rng = np.random.default_rng(0)
    table = {"encounter_id": np.arange(n) + 1000, "hospital_death": np.arange(n) % 4 == 0}
    for name in wids_file["FEATURES"]:
        if name in wids_file["CATEGORIES"]:
            table[name] = rng.choice(["A", "B"], n)
        elif name in wids_file["FLAGS"]:
            table[name] = rng.integers(0, 2, n)
        else:
            table[name] = rng.normal(100, 5, n).round(1)
    for name in wids_file["RANGES"]:
        low, high = np.sort([table[f"{name}_min"], table[f"{name}_max"]], axis=0)
        table[f"{name}_min"], table[f"{name}_max"] = low, high
    frame = pd.DataFrame(table)
    frame["hospital_death"] = frame["hospital_death"].astype(int)
    return frame


def read(frame, tmp_path):
    buffer = io.StringIO()
    frame.to_csv(buffer, index=False)
    return datasets.wids(write(tmp_path, buffer.getvalue(), "training_v2.csv"))


def test_wids_prepares_a_licensed_file(tmp_path):
    frame = stays()
    frame.loc[3, "age"] = np.nan
    frame.loc[4, "gender"] = None
    frame.loc[5, "d1_bun_min"] = 1000.0
    splits = read(frame, tmp_path)
    assert [len(p) for p in (splits.train, splits.val, splits.test)] == [38, 10, 12]
    schema = splits.train.schema
    assert len(schema) == 106 and len(schema.relations) == 31
    whole = {i: p for p in (splits.train, splits.val, splits.test) for i in p.ids.tolist()}
    assert len(whole) == 60
    part = whole[1003]
    filled = part.x[part.ids.tolist().index(1003), schema.names.index("age")]
    train = frame[frame.encounter_id.isin(splits.train.ids)]
    assert float(filled) == train["age"].median()
    assert schema.features[schema.names.index("gender")].values == ("A", "B", "missing")
    found = schema.validate(whole[1005].x)
    assert found["rule"].tolist() == ["d1_bun_min <= d1_bun_max"]
    assert not schema.mutable[schema.names.index("apache_4a_icu_death_prob")]
    assert schema.mutable[schema.names.index("d1_spo2_min")]


def test_wids_tells_where_to_get_the_data():
    with pytest.raises(DurometerError, match="physionet.org/content/widsdatathon2020"):
        datasets.wids()


def test_wids_refuses_other_tables(tmp_path):
    with pytest.raises(DurometerError, match="lacks 1 columns, first .'d1_wbc_min'"):
        read(stays().drop(columns="d1_wbc_min"), tmp_path)
    with pytest.raises(DurometerError, match="hospital_death must be 0 or 1"):
        read(stays().assign(hospital_death=np.nan), tmp_path)
    with pytest.raises(DurometerError, match="column 'bmi' is empty"):
        read(stays().assign(bmi=np.nan), tmp_path)
