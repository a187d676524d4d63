"""Sweeps: what a [sweep] table means, one folder per run, resumed, failures noted; export; log."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import durometer as du
from durometer.cli.app import app
from durometer.config.sweep import Plan, parse
from durometer.report.sweep import Sweep

TESTS = Path(__file__).parents[1] / "run"
BASE = """
[data]
name = "mnist"
[model]
demo = "mnist"
[space]
type = "Linf"
eps = 0.1
[attack]
type = "Then"
attacks = [{type = "PGD", steps = 5}, {type = "APGD"}]
"""


def grid(text: str) -> Plan:
    made = parse(BASE + text)
    assert isinstance(made, Plan)
    return made


def test_any_place_can_be_swept() -> None:
    made = grid('[sweep]\nspace.eps = ["8/255", 0.5]\nattack.attacks.0.steps = [1, 2]\nseed = [7]')
    assert [p.name for p in made.points] == [
        "eps=8-255_steps=1_seed=7",
        "eps=8-255_steps=2_seed=7",
        "eps=0.5_steps=1_seed=7",
        "eps=0.5_steps=2_seed=7",
    ]
    last = made.points[-1].config
    assert (last.space.eps, last.attack.attacks[0].steps, last.seed) == (0.5, 2, 7)
    assert made.points[0].config.space.eps == 8 / 255


def test_whole_tables_can_be_swept() -> None:
    made = grid('[sweep]\nmodel = [{demo = "mnist"}, {demo = "gtsrb"}]\nbudget.forwards = [9, 10]')
    assert made.points[2].config.model.demo == "gtsrb"
    assert made.points[1].config.budget == du.Budget(forwards=10)
    assert [p.name for p in made.points][:2] == [
        "model=mnist_forwards=9", "model=mnist_forwards=10"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sweep.space.eps = 0.1", "line 1 .sweep.: 0.1; expected a list"),
        ("sweep.space.epz = [0.1]", "epz"),
        ("sweep.space.eps = [0.1, -1]", "in the sweep, at space.eps = -1"),
        ("sweep.attack.attacks.5.steps = [1]", "number of one of 2 elements"),
        ("sweep.seed = [1, 1]", "two runs would be called 'seed=1'"),
        ("[sweep]", "is empty"),
        ("sweep.seed.deep = [1]", "seed"),
        (f"sweep.seed = {list(range(2000))}", "2000 runs"),
    ],
)
def test_mistakes_are_said_with_their_place(text: str, said: str) -> None:
    with pytest.raises(du.DurometerError, match=said):
        parse(text + "\n" + BASE if "sweep." in text else BASE + text)


def durometer(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def small(tmp_path: Path) -> Path:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from job_for_tests import job

    _, data, _ = job()
    np.savez(tmp_path / "data.npz", x=data.x.numpy(), y=data.y.numpy())
    file = tmp_path / "small.toml"
    file.write_text(
        f'batch = 40\n[data]\npath = "{tmp_path}/data.npz"\n'
        f'[model]\npython = "{TESTS}/job_for_tests.py:net"\n'
        '[space]\ntype = "Linf"\neps = 0.08\n[attack]\ntype = "APGD"\nsteps = 4\n'
        "[sweep]\nspace.eps = [0.02, 0.08]\nseed = [0, 1]\n"
    )
    return file


def test_a_sweep_from_the_command_line(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = durometer("run", str(small), "--out", str(out))
    assert "4/4 eps=0.08_seed=1" in said and "open" in said
    names = ["eps=0.02_seed=0", "eps=0.02_seed=1", "eps=0.08_seed=0", "eps=0.08_seed=1"]
    assert sorted(p.name for p in out.iterdir() if p.is_dir()) == names
    one = du.Report.load(out / names[0])
    times = [(out / n / "chunks" / "0.npz").stat().st_mtime_ns for n in names]
    durometer("run", str(small), "--out", str(out), "--resume")
    assert times == [(out / n / "chunks" / "0.npz").stat().st_mtime_ns for n in names]
    made = Sweep.load(out)
    (line,) = made.lines("space.eps").values()
    assert [x for x, _ in line] == [0, 0.02, 0.08]
    both = [du.Report.load(out / n).metric("robust").value for n in names[:2]]
    assert line[1][1].value == pytest.approx(np.mean(both)) and line[1][1].n == 240
    assert "eps=0.08_seed=1" in durometer("show", str(out))
    assert "holds a sweep" in durometer("show", str(out), "--by", "y", code=2)
    assert f"{one.metric('robust').value:.3f}" in durometer("show", str(out))
    page = (out / "report.html").read_text()
    assert "Robust accuracy against eps" in page and "eps%3D0.02_seed%3D0/report.html" in page
    # The folder of a run reads as one: what was set is in its own file.
    assert "eps = 0.02" in (out / names[0] / "config.toml").read_text()


def test_a_failing_run_does_not_stop_the_others(small: Path, tmp_path: Path) -> None:
    text = small.read_text().replace("space.eps = [0.02, 0.08]", 'goal = [{type="Untargeted"},'
                                     '{type="Targeted",target=77}]')  # fmt: skip
    small.write_text(text.replace("seed = [0, 1]\n", ""))
    said = durometer("run", str(small), "--out", str(tmp_path / "out"), code=1)
    assert "1/2 goal=Untargeted: robust" in said and "class 77" in said
    assert list(Sweep.load(tmp_path / "out").failed) == ["goal=Targeted-77"]


NETS = """
import torch
class Works(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :10]
class Late(Works):
    seen = 0
    def forward(self, x):
        self.seen += len(x)
        if self.seen > 150:
            raise ZeroDivisionError("no answer")
        return super().forward(x)
"""


def test_a_model_that_breaks_down_does_not_stop_the_others(small: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NETS)
    models = 'model = [{python = "net.py:Late"}, {python = "net.py:Works"}]\n'
    text = small.read_text().partition("[sweep]")[0] + "[sweep]\n" + models
    small.write_text(text)
    durometer("run", str(small), "--out", str(tmp_path / "out"), code=1)
    made = Sweep.load(tmp_path / "out")
    assert list(made.failed.values()) == ["ZeroDivisionError: no answer"]
    assert len(made.reports) == 1


def test_shards_of_a_sweep_make_the_whole(small: Path, tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    durometer("run", str(small), "--out", str(whole))
    for i in "12":
        said = durometer("run", str(small), "--out", str(parts), "--shard", f"{i}/2")
        assert "--resume without --shard joins them" in said
        assert not (parts / "report.html").exists()
    played = {p.parent.name: p.stat().st_mtime_ns for p in parts.glob("*/chunks")}
    durometer("run", str(small), "--out", str(parts), "--resume")
    assert played == {p.parent.name: p.stat().st_mtime_ns for p in parts.glob("*/chunks")}
    a, b = (json.loads((folder / "sweep.json").read_text()) for folder in (whole, parts))
    assert a == b and not a["failed"]
    for name in a["settings"]:
        records = [du.Report.load(folder / name).table["success"] for folder in (whole, parts)]
        assert (records[0] == records[1]).all()
    said = durometer("run", str(small), "--out", str(parts), "--shard", "90/99", code=2)
    assert "make fewer shards" in said
    assert "which one" in durometer("run", str(small), "--out", str(tmp_path / "o"), "--seed", "3",
                                code=2)  # fmt: skip


@pytest.fixture
def saved(tmp_path: Path) -> tuple[du.Report, Path]:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    from job_for_tests import job

    net, data, how = job()
    data = du.Dataset(data.x, data.y, classes=("a", "b,c", '"d"'))
    report = du.evaluate(net, data, **how, run=du.Run(tmp_path / "run"))
    report.save(tmp_path / "run")
    return report, tmp_path / "run"


def test_exports_hold_the_records(saved: tuple[du.Report, Path], tmp_path: Path) -> None:
    report, folder = saved
    durometer("export", str(folder), "--to", "csv", "--inputs")
    table = pd.read_csv(folder / "records.csv")
    assert (table["success"] == report.table["success"]).all()
    names = np.array(["a", "b,c", '"d"'])
    assert (table["y_name"] == names[report.table["y"]]).all()
    assert report.adversarial is not None
    np.testing.assert_allclose(table[[f"x_{i}" for i in range(8)]], report.adversarial, rtol=1e-6)
    durometer(
        "export", str(folder), "--to", "parquet", "--out", str(tmp_path / "deep" / "r.parquet")
    )
    assert len(pd.read_parquet(tmp_path / "deep" / "r.parquet")) == 120
    durometer("export", str(folder), "--to", "json")
    known = json.loads((folder / "report.json").read_text())
    assert known["figures"]["robust"]["n"] == 120 and len(known["records"]) == 120
    assert known["records"][0]["score"] is None  # JSON has no NaN
    assert "cannot write" in durometer("export", str(folder), "--out", "/proc/no/file.csv", code=2)


def test_export_to_mlflow(
    saved: tuple[du.Report, Path], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    report, folder = saved
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "pip install mlflow" in durometer("export", str(folder), "--to", "mlflow", code=2)
    logged: dict[str, Any] = {"files": []}

    class Started:
        info = types.SimpleNamespace(run_id="r1")

        def __enter__(self) -> Started:
            return self

        def __exit__(self, *error: object) -> None:
            logged["ended"] = True

    fake = types.SimpleNamespace(
        start_run=lambda run_name: Started(),
        log_params=lambda p: logged.update(params=p),
        log_metrics=lambda m: logged.update(metrics=m),
        set_tag=lambda k, v: None,
        log_artifact=lambda path: logged["files"].append(Path(path).name),
    )
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    assert "run r1" in durometer("export", str(folder), "--to", "mlflow")
    assert logged["metrics"]["robust"] == report.metric("robust").value
    assert logged["params"]["seed"] == "0" and logged["ended"]
    assert "report.html" in logged["files"]


def test_the_log_tells_what_happened(saved: tuple[du.Report, Path]) -> None:
    _, folder = saved
    lines = (folder / "log.txt").read_text().splitlines()
    assert "start:" in lines[0] and "10 of 10 chunks" in lines[1] and "end:" in lines[-1]
    assert sum(" rows, " in line and "broken" in line for line in lines) == 10


def test_compare_writes_a_page(saved: tuple[du.Report, Path], tmp_path: Path) -> None:
    _, folder = saved
    durometer("compare", str(folder), str(folder))
    assert "Same model: both runs broke the same rows." in (tmp_path / "run-run.html").read_text()
    durometer("compare", str(folder), str(folder), "--out", str(tmp_path / "c.html"))
    assert (tmp_path / "c.html").exists()


def test_time_left_comes_from_chunks_played_now() -> None:
    from durometer.core.records import Records
    from durometer.run.progress import Progress

    bar = Progress(100, show=False)
    bar.advance(Records.of(50), stored=True)
    assert bar.left is None
    bar._paces = [(10, 2.0), (10, 4.0)]
    low, high = bar.left or (0, 0)
    assert low < 0.3 * 50 < high
    assert (low + high) / 2 == pytest.approx(0.3 * 50)
    text = "".join(str(c) for column in bar.table().columns for c in column.cells)
    assert "50/100" in text


def test_the_page_of_a_long_sweep_is_not_made_for_every_few_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page is about all runs so far: made every fifth time, 200 runs would cost 4,000."""
    net, data = du.testing.toy()
    report = du.evaluate(net, data, space=du.Linf(0.1), attack=du.FGSM())
    made: list[int] = []
    monkeypatch.setattr("durometer._sweep._play", lambda *args: report)
    monkeypatch.setattr(Sweep, "save", lambda self, folder: made.append(len(self.reports)))
    seeds = ", ".join(map(str, range(50)))
    du.sweep(grid(f"[sweep]\nspace.eps = [0.1, 0.2, 0.3, 0.4]\nseed = [{seeds}]"), tmp_path)
    assert made[:3] == [5, 10, 15] and made[-1] == 200 and sum(made) < 4 * 200
