"""Broken, proven, open: who may say so, and what a report makes of it."""

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch

import durometer as du
from durometer.core.errors import Contradiction
from durometer.core.records import Records
from durometer.extend import Needs
from durometer.report.report import Report
from durometer.run.merge import merge, report_of


class Line(torch.nn.Module):
    """Class 1 right of 0.5."""

    def forward(self, x):
        return torch.stack([0.5 - x[:, 0], x[:, 0] - 0.5], 1)


X = torch.linspace(0.01, 0.47, 24, dtype=torch.float64)[:, None]
DATA = du.Dataset(X, [0] * 24, classes=("left", "right"))
SPACE = du.Linf(0.2)


@dataclass(frozen=True)
class Interval:
    """The exact answer for `Line`: proven below 0.3, unless it is told a `lie`."""

    lie: float = 0.0
    share: float = 1.0
    vacuous: bool = False

    @property
    def needs(self):
        return Needs(is_proof=True)

    def __call__(self, problem):
        rows = problem.undecided
        _, high = problem.region(rows).box()
        sure = high[:, 0] < 0.5 + self.lie
        sure &= torch.arange(len(rows)) < self.share * len(rows)
        problem.prove(rows[sure], sure[sure] if self.vacuous else None)


def play(attack, data=DATA, **more):
    return du.evaluate(Line(), data, space=SPACE, attack=attack, progress=False, **more)


def test_a_row_ends_proven_broken_or_open():
    report = play(du.Then(Interval(), du.PGD(5)))
    verdict = report.table["verdict"].to_numpy()
    right = np.where(X[:, 0].numpy() + 0.2 < 0.5, "proven", "broken")
    assert (verdict == right).all()
    assert report.metric("proven").value == (right == "proven").mean()
    assert report.metric("broken").value == (right == "broken").mean()
    assert report.metric("open").value == 0
    assert report.metric("proven") == report.metric("robust")  # nothing is unknown
    half = play(Interval(share=0.2))
    counts = half.table["verdict"].value_counts()
    assert counts["proven"] == 5 and counts["open"] == 19
    assert half.metric("proven").value == 5 / 24 and half.metric("robust").value == 1.0


def test_rows_that_are_proven_cost_the_attack_nothing():
    table = play(du.Then(Interval(), du.PGD(5))).table
    assert (table.loc[table["verdict"] == "proven", "forwards"] == 1).all()
    assert (table.loc[table["verdict"] == "broken", "forwards"] > 1).all()
    alone = play(du.PGD(5)).table
    assert (
        (alone.loc[alone["success"], "id"]).tolist() == table.loc[table["success"], "id"].tolist()
    )


@pytest.mark.parametrize("how", [du.Then, du.Worst])
def test_a_proof_of_a_broken_row_is_a_contradiction(how):
    with pytest.raises(Contradiction, match="broken"):
        play(how(du.PGD(5), LiesAboutAll()))


@pytest.mark.parametrize("how", [du.Then, du.Worst])
def test_a_success_on_a_proven_row_is_a_contradiction(how):
    with pytest.raises(Contradiction, match="proven"):
        play(how(Interval(lie=0.05), AttacksAll()))


@dataclass(frozen=True)
class LiesAboutAll:
    @property
    def needs(self):
        return Needs(is_proof=True)

    def __call__(self, problem):
        problem.prove(torch.arange(len(problem.y)))


@dataclass(frozen=True)
class AttacksAll:
    """Hands in points for rows that are closed, too."""

    @property
    def needs(self):
        return Needs()

    def __call__(self, problem):
        rows = torch.arange(len(problem.y))
        problem.submit(rows, problem.region(rows).origin + 0.2)


def test_rows_without_a_question_have_no_verdict():
    data = du.Dataset(X, [0, 1] * 12)
    table = play(du.Then(Interval(), du.PGD(5)), data, goal=du.Targeted(1)).table
    skipped = table["skipped"] != ""
    assert skipped.sum() == 12 and (table.loc[skipped, "verdict"] == "").all()
    assert set(table.loc[~skipped, "verdict"]) == {"proven", "broken"}


def test_rows_wrong_from_the_start_are_broken():
    table = play(Interval(), du.Dataset(X, [1] * 24)).table
    assert (table["verdict"] == "broken").all() and (table["winner"] == "clean").all()


def test_a_model_that_moves_cannot_be_proven():
    game = du.Transductive(du.defenses.TENT(Norm()), batch=24)
    with pytest.raises(du.Unsupported, match="moves after the attacker"):
        du.evaluate(game, DATA, space=SPACE, attack=Interval())


class Norm(Line):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(1)

    def forward(self, x):
        return super().forward(self.norm(x.float()))


def test_the_report_prints_both_sides_and_who_settled_what():
    report = play(du.Then(Interval(), du.PGD(5)))
    text = str(report)
    assert (X < 0.3).sum() == 15
    assert "robust accuracy: at least 0.625 [" in text and "(attacked)" in text
    assert "settled by: Interval 15 proven of 24" in text and "PGD 9 broken of 9" in text
    assert report.stages["rows"].tolist() == [24, 9]
    page = report.html()
    assert "<b>15</b> rows proven" in page and 'class="proven"' in page
    assert "Who settled what" in page
    alone = play(du.PGD(5))
    assert "at most (attacked)" in str(alone) and "proven" not in str(alone)
    assert "verdict proven" not in alone.html()


def test_slices_and_comparisons_know_the_verdict():
    both = play(du.Then(Interval(), du.PGD(5)))
    alone = play(du.PGD(5))
    assert both.metric("proven", by="y")["left"] == both.metric("proven")
    assert "of it proven             0.625 against 0.000" in str(both.compare(alone))
    assert both.compare(alone).proven == (15, 0)


def test_runs_shards_and_files_keep_the_verdict(tmp_path):
    attack = du.Then(Interval(share=0.5), du.PGD(1))
    whole = play(attack, batch=8)
    folders = []
    for k in (1, 2):
        folders.append(tmp_path / f"shard{k}")
        play(attack, batch=8, run=du.Run(folders[-1], shard=(k, 2)))
    merged = report_of(folders, merge(folders, tmp_path / "whole"))
    assert merged.table["verdict"].tolist() == whole.table["verdict"].tolist()
    again = play(attack, batch=8, run=du.Run(folders[0], shard=(1, 2), resume=True))
    assert set(again.table["verdict"]) <= {"proven", "broken", "open"}
    loaded = Report.load(whole.save(tmp_path / "saved"))
    assert loaded.metric("proven") == whole.metric("proven") and loaded.two_sided


def test_a_run_of_version_0_1_reads_as_broken_or_open(tmp_path):
    report = play(du.PGD(5))
    file = report.save(tmp_path / "old") / "records.parquet"
    gone = ["verdict", "vacuous", "improving", "stages"]
    pd.read_parquet(file).drop(columns=gone).to_parquet(file)
    spec = json.loads((tmp_path / "old" / "spec.json").read_text())
    del spec["saved"]  # digests of the files, which 0.1 did not write
    (tmp_path / "old" / "spec.json").write_text(json.dumps(spec))
    old = Report.load(tmp_path / "old")
    assert (old.table["verdict"] == np.where(old.table["success"], "broken", "open")).all()
    assert old.metric("proven").value == 0 and old.metric("open") == old.metric("robust")


def test_probabilities_are_no_verdicts():
    records = Records.of(
        2, id=[1, 2], probability_low=[0.5, np.nan], probability_high=[0.6, np.nan]
    )
    assert records.columns["verdict"].tolist() == ["", "open"]


def test_flags_say_what_is_unknown_and_what_is_vacuous():
    def ids(attack):
        return {f.id: f.text for f in play(attack).flags}

    assert "19 of 24 rows are neither proven nor broken" in ids(Interval(share=0.2))["wide-gap"]
    assert "wide-gap" not in ids(du.Then(Interval(), du.PGD(5)))
    assert "wide-gap" not in ids(du.PGD(1))  # nobody tried to prove anything
    assert "15 of 15 proofs" in ids(Interval(vacuous=True))["vacuous-robustness"]
    assert "vacuous-robustness" not in ids(Interval())


def test_a_proof_needs_no_query_and_so_no_budget():
    budget = du.Budget(forwards=2)
    table = play(du.Then(du.PGD(50), Interval()), budget=budget).table
    assert (table["verdict"] == "proven").sum() == 15


def test_what_a_proof_needs_is_asked_before_any_work():
    @dataclass(frozen=True)
    class Walks(Interval):
        @property
        def needs(self):
            return Needs(layers=True, is_proof=True)

    with pytest.raises(du.Unsupported, match="layers of a torch module"):
        du.evaluate(lambda x: 2 * x - 1, DATA, space=SPACE, attack=Walks())
    assert (Needs(trees=True) | Needs(layers=True)) == Needs(trees=True, layers=True)
