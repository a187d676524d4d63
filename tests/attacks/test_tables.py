"""CAPGD, CPGD, LowProFool: every claimed success is judged again by plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import durometer as du
from durometer.attacks.apgd import APGD
from durometer.attacks.capgd import CAPGD
from durometer.attacks.combine import Then
from durometer.attacks.cpgd import CPGD
from durometer.attacks.graft import Graft
from durometer.attacks.lowprofool import LowProFool
from durometer.attacks.table_pgd import TablePGD
from durometer.core.streams import Stream
from durometer.data.dataset import Dataset
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema
from durometer.testing import check_attack

SCHEMA = Schema(
    [Feature(n, "integer", "original", 50, scale=(0, 50)) for n in ("tcp", "udp", "out")]
    + [Feature("in", "integer", 0, 60, mutable=False), Feature("pkts", "integer", 0, 40),
       Feature("mean", "real", 0, 50), Feature("low", "real", 0, 9), Feature("high", "real", 0, 9)],
    ["tcp + udp == out + `in`", "mean == divide(out, pkts, 0)", "low <= high",
     "if low > 1 then pkts > 0"],
)  # fmt: skip


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        row = torch.tensor([0])
        stream = Stream(3, row)
        self.a = torch.nn.Parameter(0.5 * stream.normal(row, 8 * 16).reshape(8, 16))
        self.b = torch.nn.Parameter(0.5 * stream.normal(row, 16 * 2).reshape(16, 2))
        self.low = torch.tensor([f.range[0] for f in SCHEMA.features], dtype=torch.float64)
        self.width = torch.tensor(
            [f.range[1] - f.range[0] for f in SCHEMA.features], dtype=torch.float64
        )

    def forward(self, x):
        return torch.tanh((4 * (x - self.low) / self.width - 2) @ self.a) @ self.b

    def numpy(self, x):
        a, b = self.a.detach().numpy(), self.b.detach().numpy()
        return np.tanh((4 * (x - self.low.numpy()) / self.width.numpy() - 2) @ a) @ b


def records(n=80):
    index = torch.arange(n)
    u = Stream(7, index).uniform(index, 8).numpy()
    tcp, udp = np.floor(20 * u[:, 0]), np.floor(20 * u[:, 1])
    total = tcp + udp
    out = np.floor(total * u[:, 2])
    pkts = np.floor(40 * u[:, 4])
    mean = np.divide(out, pkts, out=np.zeros(n), where=pkts > 0)
    low = 9 * u[:, 6] * u[:, 7] * (pkts > 0)
    return np.stack([tcp, udp, out, total - out, pkts, mean, low, np.maximum(low, 9 * u[:, 7])], 1)


def recheck(x0, x, eps):
    """Everything a record must satisfy, written out by hand."""
    tcp, udp, out, inn, pkts, mean, low, high = x.T
    good = tcp + udp == out + inn
    quotient = np.divide(out, pkts, out=np.zeros(len(x)), where=pkts > 0)
    good &= np.abs(mean - quotient) <= 1e-6 * np.maximum(1, np.maximum(abs(mean), abs(quotient)))
    good &= low <= high + 1e-6 * np.maximum(1, high)
    good &= (low <= 1 + 1e-5) | (pkts > 0)
    good &= (x[:, :5] == np.round(x[:, :5])).all(1) & (x[:, 3] == x0[:, 3])
    good &= (x[:, :3] >= x0[:, :3]).all(1) & (x >= 0).all(1)
    good &= (x <= np.array([50, 50, 50, 60, 40, 50, 9, 9])).all(1)
    width = np.array([50, 50, 50, 60, 40, 50, 9, 9])
    return good & (np.linalg.norm((x - x0) / width, axis=1) <= eps * (1 + 1e-6))


MODEL = Scaled()
X0 = records()
Y = MODEL.numpy(X0).argmax(1)
DATA = Dataset(X0, Y, schema=SCHEMA)


def attacked(attack, eps=0.5, **options):
    report = du.evaluate(
        MODEL, DATA, space=SCHEMA.space(eps, **options), attack=attack, progress=False
    )
    return report, report.adversarial


def test_clean_records_are_valid():
    assert recheck(X0, X0, 0.5).all()
    assert SCHEMA.validate(DATA.x).empty


@pytest.mark.parametrize(
    "attack",
    [
        CAPGD(),
        CPGD(),
        CPGD(step=0.4, start="random"),
        TablePGD(restarts=2),
        LowProFool(steps=200, step=0.01, trade_off=0.1),
    ],
    ids=lambda a: type(a).__name__,
)
def test_every_claimed_success_passes_an_independent_check(attack):
    report, x = attacked(attack)
    won = report.table.success.to_numpy()
    assert won.sum() >= 5, "an attack that finds nothing proves nothing"
    assert recheck(X0[won], x[won], 0.5).all()
    assert (MODEL.numpy(x[won]).argmax(1) != Y[won]).all()


def test_capgd_finds_most_and_costs_little():
    report, _ = attacked(CAPGD())
    assert report.table.success.mean() > 0.4
    assert report.table.forwards.max() <= 1 + 2 * 11


def test_capgd_is_apgd_in_a_table():
    marks = CAPGD().checkpoints()
    two = Then(*(APGD(10, "ce", start=s, marks=marks, back=False) for s in ("clean", "random")))
    ours, theirs = attacked(CAPGD())[0].table, attacked(two)[0].table
    assert (ours.success == theirs.success).all() and (ours.forwards == theirs.forwards).all()


def test_published_checkpoints_and_schedule():
    assert CAPGD().checkpoints() == (3, 5, 6, 7, 8, 9, 10)
    assert CAPGD(steps=100).checkpoints()[:4] == (22, 41, 57, 70)
    assert CPGD().lengths() == pytest.approx([10.0**-k for k in range(1, 11)])
    assert CPGD(steps=14).lengths()[:4] == pytest.approx([0.1, 0.1, 0.01, 0.01])
    assert sum(CPGD().lengths()) < 0.1112


def test_the_published_schedule_is_what_makes_cpgd_weak():
    weak, strong = (attacked(a)[0].table.success.mean() for a in (CPGD(), CPGD(step=0.4)))
    assert weak < 0.5 * strong


def test_without_repair_sums_cannot_be_kept():
    with_it, without = (attacked(CAPGD(repair=r))[0].table.success.sum() for r in (True, False))
    assert without < with_it


@pytest.mark.parametrize("off", ["clean", "random", "adaptive"])
def test_ablations_run(off):
    assert attacked(CAPGD(**{off: False}))[0].table.success.mean() > 0.3


def test_a_larger_ball_never_helps_the_defender_much():
    robust = [1 - attacked(CAPGD(), eps)[0].table.success.mean() for eps in (0.1, 0.3, 0.6)]
    assert robust[0] >= robust[1] >= robust[2]


def test_invalid_clean_rows_are_set_apart():
    x = X0.copy()
    x[3, 0] += 1
    report = du.evaluate(
        MODEL, Dataset(x, Y, schema=SCHEMA), space=SCHEMA.space(0.5), attack=CAPGD(), progress=False
    )
    row = report.table.iloc[3]
    assert row.skipped == "invalid" and not row.success
    assert not row.valid and row.violation > 0  # as it is, not as a repair would make it


def test_lowprofool_weights_are_correlations():
    x = np.array([[0.0, 1], [1, 1], [2, 0], [3, 0]])
    y = np.array([0, 0, 1, 1])
    weights = np.array(LowProFool().noticed(x, y).importance)
    expected = np.abs([np.corrcoef(x[:, i], y)[0, 1] for i in range(2)])
    assert weights == pytest.approx(expected / np.linalg.norm(expected))


@pytest.mark.parametrize(
    "attack", [CAPGD(), CPGD(step=0.4), TablePGD(10), LowProFool(steps=100, step=0.2, trade_off=0)]
)
def test_contract(attack):
    check_attack(attack)


def test_two_starts_need_at_least_one():
    with pytest.raises(du.DurometerError, match="at least one start"):
        attacked(CAPGD(clean=False, random=False))


def test_in_linf_one_whole_number_does_not_take_the_others_back():
    schema = Schema([Feature("count", "integer", 0, 7), Feature("share", "real", 0, 1)])
    region = schema.space(eps=0.1, p=np.inf).around(torch.tensor([[3.0, 0.5]]).double())
    # 0.1 of the count's range is 0.7 of a unit: rounded to the nearest it would leave the ball
    corner = region.project(region.origin + 1.0)
    assert region.decode(corner).tolist() == [[3.0, pytest.approx(0.6)]]
    wide = Schema([Feature("count", "integer", 0, 20), Feature("share", "real", 0, 1)])
    region = wide.space(eps=0.1, p=np.inf).around(torch.tensor([[3.0, 0.5]]).double())
    x = region.decode(region.project(region.origin - 1.0))
    assert x.tolist() == [[1.0, pytest.approx(0.4)]] and region.contains(x).all()


def test_what_the_repair_moved_is_taken_over_and_a_fraction_is_kept():
    schema = Schema(
        [Feature("a", "real", 0, 1), Feature("b", "real", 0, 1), Feature("n", "integer", 0, 10)],
        ["a <= b"],
    )
    region = schema.space(eps=0.5).around(torch.tensor([[0.4, 0.4, 5.0]]).double())
    z = torch.tensor([[0.5, 0.4, 0.53]], dtype=torch.float64)
    again = region.repaired(z)[0].tolist()
    assert again[0] <= again[1] + 1e-6 and again[:2] != [0.5, 0.4]
    assert again[2] == 0.53, "rounded to 5, but three such steps must add up to a unit"


def test_the_default_is_never_weaker_than_its_parts():
    space = SCHEMA.space(0.11, p=np.inf)
    few = Graft(evaluations=60, offspring=20, population=10)

    def won(attack):
        report = du.evaluate(MODEL, DATA, space=space, attack=attack, progress=False)
        return report.table.success.to_numpy()

    together = won(du.CAA(Then(CAPGD(), TablePGD()), few))
    parts = [won(part) for part in (CAPGD(), few)]
    assert all(part.sum() >= 5 for part in parts), "an attack that finds nothing proves nothing"
    assert not any((part & ~together).any() for part in parts)
    assert not (won(Graft()) & ~won(du.Standard(proofs=False))).any()
