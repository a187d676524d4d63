"""Networks that remember, count their rows or are another than they look like: refused, by name.

One traced graph of such a network says nothing of its next answer. Each was called proven once.
"""

import math

import pytest
import torch
from torch import nn

import durometer as du
from durometer.architectures.tables.tableinput import TableInput
from durometer.proofs.aten.program import UNIT
from durometer.proofs.aten.rows import program_of
from durometer.proofs.bounds.crown import Network
from durometer.proofs.bounds.domain import Domain
from durometer.proofs.bounds.reading import read_model
from durometer.tables.feature import Feature
from durometer.tables.schema import Schema


class Net(nn.Module):
    def __init__(self, bend=torch.relu):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 12), nn.Linear(12, 12), nn.Linear(12, 3)
        self.bend = bend

    def forward(self, x):
        return self.c(self.bend(self.b(self.bend(self.a(x)))))


class Counts(Net):
    asked = 0

    def forward(self, x):
        self.asked += 1
        out = super().forward(x)
        return out if self.asked < 100 else out.flip(1)


class Lists(Net):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(len(x))
        out = super().forward(x)
        return out if len(self.seen) < 100 else out.flip(1)


class CountsInTensor(Net):
    """Neither a parameter nor a buffer; 0 is added for the first hundred questions."""

    def __init__(self):
        super().__init__()
        self.asked = torch.zeros(1)

    def forward(self, x):
        self.asked = self.asked + 1
        return super().forward(x) * (1 - 2 * (self.asked - 100).clamp(0, 1))


class Global(Net):
    def forward(self, x):
        TOLD["asked"] += 1
        out = super().forward(x)
        return out if TOLD["asked"] < 100 else out.flip(1)


TOLD = {"asked": 0}


class Earlier(Net):
    """Adds what it was asked the last time."""

    def __init__(self):
        super().__init__()
        self.last = torch.zeros(1, 4)

    def forward(self, x):
        out = super().forward(x + 0.1 * self.last)
        self.last = x.detach().mean(0, keepdim=True)
        return out


def hooked():
    net, told = Net(), {"asked": 0}

    def turn(module, args, out):
        told["asked"] += 1
        return out if told["asked"] < 100 else -out

    net.b.register_forward_hook(turn)
    return net


@pytest.mark.parametrize("make", [Counts, Lists, CountsInTensor, Global, hooked])
def test_a_network_that_changes_what_it_holds_is_refused(make):
    with pytest.raises(du.Unsupported, match="the network changes '.+' when it is asked"):
        program_of(make().eval(), torch.rand(1, 4))


def test_a_network_that_remembers_another_question_is_refused():
    with pytest.raises(du.Unsupported):
        program_of(Earlier().eval(), torch.rand(1, 4))


class Shows(Net):
    """Keeps what it computed, for whoever wants to look; it never reads it."""

    shown = None

    def forward(self, x):
        self.shown = torch.relu(self.a(x)).detach()
        return super().forward(x)


def test_a_network_that_only_shows_what_it_computed_is_read():
    assert len(program_of(Shows().eval(), torch.rand(1, 4)).operations) == 6


@pytest.mark.parametrize("bend", [
    lambda h: h.relu() * (1 + h.shape[0] // 2000),
    lambda h: h.relu() - (torch.arange(h.shape[0])[:, None] // 2000) * h.tanh(),
    lambda h: h.relu() * (1 + (torch.ones(h.shape[0], 1).sum() / 2000).floor()),
    lambda h: h.relu() * (1 + len(h) // 2000),
    lambda h: torch.cat([h[:2000].relu(), -h[2000:]]),
    lambda h: h.relu() * (1 + torch.ones(h.shape[0] // 2000 + 1).sum()),
])  # fmt: skip
def test_the_number_of_rows_may_be_a_size_and_nothing_else(bend):
    """The same program for one row, for two and for a thousand, another one for 2,000."""
    with pytest.raises(du.Unsupported, match="number of rows"):
        program_of(Net(bend).eval(), torch.rand(1, 4))


@pytest.mark.parametrize("bend", [
    lambda h: torch.cat([torch.ones(1, 2).expand(h.shape[0], 2), h.relu()[:, 2:]], 1),
    lambda h: torch.cat([torch.zeros(h.shape[0], 2), h.relu()[:, 2:]], 1),
    lambda h: h.view(h.shape[0] * 3, 4).relu().view(h.shape[0], 12),
    lambda h: h.relu()[: h.shape[0]],
])  # fmt: skip
def test_sizes_are_read(bend):
    program_of(Net(bend).eval(), torch.rand(1, 4))


def bounds_at(program, x):
    size = x.shape[1]
    one, eps = torch.ones(size).double(), torch.zeros(len(x), 1).double()
    point = x.double()
    network = Network(program, Domain(point, point, point, math.inf, eps, one, one * 0))
    network.prepare()
    return network.bounds[len(program.operations) - 1]


class Alone(nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        return self.way(x)


@pytest.mark.parametrize("way", [
    lambda x: (x.bfloat16() * 1e-7).half().float() * 1e7,  # smaller than half precision holds
    lambda x: x.bfloat16().half().float(),
    lambda x: (x * 1e8).int() * 0.1,  # more digits than single precision
    lambda x: x * True + x,
    lambda x: x + True,
])  # fmt: skip
def test_answers_lie_in_the_bounds_of_their_point(way):
    torch.manual_seed(0)
    net = Alone(way).eval()
    x = torch.rand(4000, 3) * torch.tensor([1.0, 1e-2, 1e-5])
    low, high = bounds_at(program_of(net, x[:1]), x)
    out = net(x).double().reshape(low.shape)
    assert bool(((out >= low) & (out <= high)).all())


def test_bfloat16_that_half_precision_does_not_hold_has_no_bound():
    """Its largest number is 65,504: above, the model answers infinity."""
    net = Alone(lambda x: (x.bfloat16() * 1e5).half().float())
    low, high = bounds_at(program_of(net.eval(), torch.rand(1, 3)), torch.ones(1, 3))
    assert not bool(low.isfinite().any() | high.isfinite().any())


def test_a_variance_of_too_few_numbers_is_refused_by_name():
    net = Net(lambda h: h / (0.2 + h.std(1, correction=12, keepdim=True)))
    with pytest.raises(du.Unsupported, match="correction=12 of 12 numbers"):
        program_of(net.eval(), torch.rand(1, 4))


QUICK = du.Bounds(alpha=0, splits=0, seconds=0.0)


def judged(net, **setting):
    x = torch.rand(6, 4)
    return du.evaluate(net, du.Dataset(x, net(x).argmax(1)), space=du.Linf(0.01), attack=QUICK,
                       progress=False, **setting)  # fmt: skip


def test_settings_that_round_products_more_are_refused(monkeypatch):
    net = Net().eval()
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    with pytest.raises(du.Unsupported, match="ONEDNN_DEFAULT_FPMATH_MODE"):
        judged(net)
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "STRICT")
    judged(net)


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="torch before 2.9")
@pytest.mark.parametrize("name", ["matmul", "conv"])
def test_mkldnn_in_bfloat16_is_refused(name):
    held = getattr(torch.backends.mkldnn, name)
    was = held.fp32_precision
    try:
        held.fp32_precision = "bf16"
        with pytest.raises(du.Unsupported, match="fp32_precision is 'bf16'"):
            judged(Net().eval())
    finally:
        held.fp32_precision = was


@pytest.mark.parametrize("change", [
    lambda net: net.b.weight.data.mul_(-2),  # a write that torch does not count
    lambda net: net.b.register_forward_hook(lambda module, args, out: -2 * out),
    lambda net: setattr(net, "bend", torch.tanh),
])  # fmt: skip
def test_a_classifier_whose_network_has_changed_is_read_anew(change):
    net = Net().eval()
    model, x = du.wrap(net), torch.rand(8, 4)
    first = read_model(model, x)
    assert read_model(model, x) is first
    change(net)
    again = read_model(model, x)
    assert again is not first
    low, high = bounds_at(again.program, x)
    out = net(x).double().reshape(low.shape)
    assert bool(((out >= low) & (out <= high)).all())


class Rounded(TableInput):
    """Rounds to the fifth digit, which a comparison to 1e-5 does not see."""

    def forward(self, x):
        return torch.round(super().forward(x), decimals=5)


def test_another_table_input_is_refused():
    schema = Schema([Feature("a", "real", 0, 9), Feature("b", "category", values=("x", "y"))])
    for first in (Rounded(schema), TableInput(schema)):
        net = nn.Sequential(first, nn.Linear(3, 2)).eval()
        if type(first) is TableInput:
            program_of(net, torch.zeros(1, 2))
            first.register_forward_hook(lambda module, args, out: out.clamp(-1, 1.5))
        with pytest.raises(du.Unsupported, match="table input"):
            program_of(net, torch.zeros(1, 2))


def test_every_type_holds_itself():
    """The smallest share of each type, as the reader counts it."""
    for kind, unit in UNIT.items():
        net = Alone(lambda x, kind=kind: x.to(kind).to(kind).float())
        x = torch.rand(500, 3)
        low, high = bounds_at(program_of(net.eval(), x[:1]), x)
        out = net(x).double().reshape(low.shape)
        assert bool(((out >= low) & (out <= high)).all())
        assert float((high - low).max()) <= 8 * max(unit, UNIT[torch.float32])
