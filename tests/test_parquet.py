"""Data larger than memory: the same records as if they were held, in the same memory."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import durometer as du
from durometer.core.records import FIELDS, TIMES, Records
from durometer.report.totals import Tally
from durometer.run.executors import from_pickle, to_pickle
from durometer.run.job import Job
from durometer.run.store import Store

HOW: dict[str, Any] = {"space": du.Linf(0.05), "attack": du.PGD(3), "batch": 64}
NAMES = ("a", "b", "c")


def model() -> torch.nn.Module:
    net = torch.nn.Linear(3, 2).double().eval()
    net.weight.data = torch.tensor([[1.0, -1.0, 0.5], [-0.5, 1.0, 0.0]]).double()
    net.bias.data.zero_()
    return net


def rows(n: int) -> pd.DataFrame:
    x = np.random.default_rng(0).random((n, 3))
    frame = pd.DataFrame(x, columns=list(NAMES))
    frame["y"] = model()(torch.from_numpy(x)).argmax(1).numpy()
    return frame


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """700 rows in two files, of row groups of 200."""
    frame, made = rows(700), tmp_path / "data"
    made.mkdir()
    frame[:450].to_parquet(made / "1.parquet", row_group_size=200, index=False)
    frame[450:].to_parquet(made / "2.parquet", row_group_size=200, index=False)
    return made


def whole() -> du.Report:
    return du.evaluate(model(), du.Dataset(rows(700), target="y"), **HOW)


def same(a: Records, b: Records) -> None:
    for name in FIELDS:
        if name not in TIMES:
            np.testing.assert_array_equal(a.columns[name], b.columns[name], name)
    assert a.adversarial is not None and b.adversarial is not None
    np.testing.assert_array_equal(a.adversarial, b.adversarial)


def test_the_same_records_as_data_that_are_held(folder: Path, tmp_path: Path) -> None:
    data = du.Parquet(folder, target="y", rows=150)
    assert [(p.group, p.start, p.first) for p in data.parts] == [
        *((0, 0, 0), (0, 150, 150), (1, 0, 200), (1, 150, 350), (2, 0, 400)),
        *((0, 0, 450), (0, 150, 600), (1, 0, 650)),
    ]
    report, held = du.evaluate(model(), data, **HOW, run=du.Run(tmp_path / "run")), whole()
    store = Store(tmp_path / "run")
    same(Records.concat(store.read(k) for k in sorted(store.done())), held.records)
    same(report.records, held.records)  # 700 rows are fewer than the sample holds
    report.save(tmp_path / "run")
    for other in (report, du.Report.load(tmp_path / "run"), store.report()):
        for name in ("clean", "robust", "success", "broken", "open", "valid", "blocked"):
            assert other.metric(name) == held.metric(name)
        for name in ("distance", "forwards", "backwards"):
            mine, theirs = other.metric(name), held.metric(name)
            assert (mine.n, mine.value) == (theirs.n, pytest.approx(theirs.value))
            assert mine.low == pytest.approx(theirs.low, rel=0.01)
        assert other.metric("robust", by="y") == held.metric("robust", by="y")


def test_a_worker_reads_its_own_row_groups(folder: Path) -> None:
    """The job that is sent to a worker holds the plan and no rows but those of the probe."""
    data, held = du.Parquet(folder, target="y", rows=50), whole()
    head = data.head()
    job = Job(model(), head, HOW["space"], du.Untargeted(), HOW["attack"], 0, 64, du.Budget(),
              source=data, asked=du.Untargeted())  # fmt: skip
    content = to_pickle(job)
    (folder / "1.parquet").unlink()  # the third row group is in the other file
    there = from_pickle(content)
    assert there.count == len(data.parts) == 14
    k = next(k for k, part in enumerate(data.parts) if part.first == 650)
    same(there.play(k).records, held.records.take(np.arange(650, 700)))
    with pytest.raises(du.DurometerError, match="1.parquet' cannot be read"):
        there.play(0)


def test_a_file_that_changes_during_a_run_ends_it(folder: Path) -> None:
    """Its rows would be recorded under the hash of those that were there before."""
    data = du.Parquet(folder, target="y", rows=50)
    asked, first = data.hash, data.part(0)
    frame = pd.read_parquet(folder / "1.parquet")
    frame.loc[70, "a"] += 0.01
    frame.to_parquet(folder / "1.parquet", row_group_size=200, index=False)
    with pytest.raises(du.DurometerError, match=r"1.parquet' has changed since"):
        data.part(1)  # the same row group, half read
    anew = du.Parquet(folder, target="y", rows=50)
    assert float(anew.part(1).x[20, 0]) == frame.loc[70, "a"]
    assert torch.equal(anew.part(0).x, first.x) and anew.hash != asked
    assert len(data.part(13)) == 50  # the other file is as it was


def test_workers_read_each_row_group_once_and_the_driver_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "run"))
    from job_for_tests import Counted

    data = Counted(folder, target="y")
    run = du.Run(tmp_path / "run", workers=2)
    report = du.evaluate(model(), data, **HOW, run=run)
    same(report.records, whole().records)
    read = {p.name: p.read_text().splitlines() for p in tmp_path.glob("read-by-*")}
    assert f"read-by-{os.getpid()}" not in read
    assert sorted(line for lines in read.values() for line in lines) == [
        *("1.parquet:0 200", "1.parquet:1 200", "1.parquet:2 50"),
        *("2.parquet:0 200", "2.parquet:1 50"),
    ]


def test_a_lost_chunk_is_played_again_from_its_own_rows(folder: Path, tmp_path: Path) -> None:
    data = du.Parquet(folder, target="y")
    du.evaluate(model(), data, **HOW, run=du.Run(tmp_path / "run"))
    store = Store(tmp_path / "run")
    store.chunk(3).unlink()
    du.evaluate(model(), data, **HOW, run=du.Run(tmp_path / "run", resume=True))
    same(Records.concat(store.read(k) for k in sorted(store.done())), whole().records)
    rows(699).to_parquet(folder / "2.parquet")
    with pytest.raises(du.DurometerError, match="data_hash"):
        run = du.Run(tmp_path / "run", resume=True)
        du.evaluate(model(), du.Parquet(folder, target="y"), **HOW, run=run)


def test_a_sample_depends_on_ids_and_not_on_parts() -> None:
    records = Records.of(900, id=np.arange(900), y=np.arange(900) % 3, clean=0, forwards=2)
    drawn = []
    for size in (900, 250, 60):
        tally = Tally(shown=50)
        for k, start in reversed(list(enumerate(range(0, 900, size)))):
            tally.add(k, records.take(np.arange(start, min(start + size, 900))))
        drawn.append(tally.records.columns["id"].tolist())
        assert len(tally) == len(tally.totals) == 900
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(set(drawn[0])) == 50
    assert 300 < np.mean(drawn[0]) < 600  # from all over


def test_memory_does_not_grow_with_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durometer._evaluate.SHOWN", 500)
    peaks = []
    for n in (2_000, 10_000, 30_000):
        file = tmp_path / f"{n}.parquet"
        rows(n).to_parquet(file, row_group_size=2_000, index=False)
        data = du.Parquet(file, target="y", rows=2_000)
        how = HOW | {"attack": du.FGSM(), "batch": 2_000}
        tracemalloc.start()
        du.evaluate(model(), data, **how, run=du.Run(tmp_path / str(n)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.3 * peaks[1], peaks  # the first also pays for imports


def test_text_labels_and_features(tmp_path: Path) -> None:
    frame = rows(60).assign(y=["no", "yes", "maybe"] * 20, job=["clerk", "cook"] * 30)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=20)
    with pytest.raises(du.DurometerError, match=r"'job' holds .*string.*extra=\['job'\]"):
        du.Parquet(tmp_path, target="y").part(0)
    data = du.Parquet(tmp_path, target="y", extra=("job",))
    assert data.labels == ("maybe", "no", "yes")
    assert data.part(2).y[:3].tolist() == [2, 0, 1]  # row 40
    assert set(data.head().table["job"]) == {"clerk", "cook"}
    features = [*(du.Feature(n, "real", 0, 1) for n in NAMES),
                du.Feature("job", "category", values=("cook", "clerk"))]  # fmt: skip
    coded = du.Parquet(tmp_path, target="y", schema=du.Schema(features)).part(1)
    assert coded.x[:2, 3].tolist() == [1.0, 0.0]


def test_what_files_cannot_do_is_said(folder: Path, tmp_path: Path) -> None:
    data = du.Parquet(folder, target="y")
    for match, ask in (
        ("need a folder", lambda: du.evaluate(model(), data, **HOW)),
        ("until", lambda: du.evaluate(model(), data, **HOW, run=du.Run(tmp_path, until=0.1))),
        ("no column 'z'", lambda: du.Parquet(folder, target="z").labels),
        ("expected a Parquet file", lambda: len(du.Parquet(tmp_path / "none", target="y"))),
        ("whole number", lambda: du.Parquet(folder, target="y", rows=0)),
    ):
        with pytest.raises(du.DurometerError, match=match):
            ask()
    rows(9).assign(z=0).to_parquet(folder / "2.parquet")
    with pytest.raises(du.DurometerError, match="no one table: column 'z'"):
        len(du.Parquet(folder, target="y"))
    (folder / "2.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(du.DurometerError, match=r"2.parquet' cannot be read as Parquet"):
        len(du.Parquet(folder, target="y"))
