"""Networks as people write them: whatever `Bounds` calls proven, no point of the region breaks.

The oracle shares nothing with the proofs: it asks the module itself about corners, random points
and a few gradient steps (in a small table: about every record). A network that is refused has no
proven rows, which is allowed here; `PLAIN` must keep its proofs.
"""

import itertools
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import durometer as du
from durometer.proofs.aten.rows import program_of

WIDTH = 12


class Written(nn.Module):
    """Two hidden layers, and what a subclass does between them."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.c(self.bend(self.b(self.bend(self.a(x)))))

    def bend(self, h):
        return torch.relu(h)


def written(bend):
    return type("Written_", (Written,), {"bend": staticmethod(bend)})


class InPlaceResidual(Written):
    def forward(self, x):
        h = self.a(x)
        return self.c(self.relu(h) - 2 * h + self.b(torch.relu(h)))


class ClonedResidual(Written):
    def forward(self, x):
        h = self.a(x)
        kept = h.clone()
        return self.c(self.relu(h) - 2 * kept + self.b(kept))


class FunctionalInPlace(Written):
    def forward(self, x):
        h = self.a(x)
        r = F.relu(h, inplace=True)
        return self.c(self.b(h) - r)


class AugmentedResidual(Written):
    """`+=` changes what the other name holds, too."""

    def forward(self, x):
        h = self.a(x)
        kept = h
        h += torch.relu(h)
        return self.c(torch.relu(h) - 2 * kept)


class Rounds(Written):
    def forward(self, x):
        return super().forward((x * 8).to(torch.int32).float() / 8)


class RoundsByMethod(Written):
    def forward(self, x):
        return super().forward((x * 8).int().float() / 8)


class RoundsAsOther(Written):
    """The type comes from another tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.zeros(1, dtype=torch.int64))

    def forward(self, x):
        return super().forward((x * 8).to(self.whole).to(x) / 8)


class Half(Written):
    def forward(self, x):
        h = torch.relu(self.a(x)).to(torch.float16).float()
        return self.c(torch.relu(self.b(h)).to(torch.float16).float()).half().float()


class Autocast(Written):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()


class Cancels(Written):
    """Hidden numbers of this size, which cancel before the answer."""

    size = 1e6

    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.c(torch.relu((self.b(h) + self.size) - self.size))


class CancelsInWeights(Written):
    """relu(z + s) - relu(z + s - small) with s so large that z loses its last digits."""

    size = 1e5

    def forward(self, x):
        h = self.b(torch.relu(self.a(x)))
        up = F.linear(h, torch.eye(WIDTH, dtype=h.dtype) * self.size)
        down = F.linear(h, torch.eye(WIDTH, dtype=h.dtype) * (1 - self.size))
        return self.c(torch.relu(up + down))


class Dropped(Written):
    def forward(self, x):
        return super().forward(F.dropout(x, 0.3, training=True))


class Noisy(Written):
    def forward(self, x):
        return super().forward(x + 0.3 * torch.randn(x.shape[1:], dtype=x.dtype))


class Alternates(Written):
    """Answers differently twice, without torch's random numbers."""

    asked = 0

    def forward(self, x):
        Alternates.asked += 1
        return super().forward(x) * (1 if Alternates.asked % 2 else -1)


def hooked(kind):
    def make():
        net = Written()
        if kind == "forward":
            net.a.register_forward_hook(lambda m, args, out: -2 * out)
        elif kind == "forward pre":
            net.b.register_forward_pre_hook(lambda m, args: (args[0].abs() + 1,))
        else:
            net.b.forward = lambda h: -nn.Linear.forward(net.b, h).abs()
        return net

    return make


def sequence(*bends):
    def make():
        layers = [nn.Linear(4, WIDTH), bends[0](), nn.Linear(WIDTH, WIDTH), bends[-1](),
                  nn.Linear(WIDTH, 3)]  # fmt: skip
        return nn.Sequential(*layers)

    return make


CONSTRUCTS = {
    "in-place residual": InPlaceResidual,
    "in-place residual behind clone": ClonedResidual,
    "F.relu(inplace=True) used again": FunctionalInPlace,
    "+= used again": AugmentedResidual,
    "int32 cast": Rounds,
    ".int()": RoundsByMethod,
    ".to(integer tensor)": RoundsAsOther,
    "float16 cast": Half,
    "bfloat16 network": lambda: Written().bfloat16(),
    "float16 network": lambda: Written().half(),
    "autocast": Autocast,
    "F.elu(alpha=0.2)": written(lambda h: F.elu(h, alpha=0.2)),
    "F.elu(alpha=2)": written(lambda h: F.elu(h, 2.0)),
    "nn.ELU(2)": sequence(lambda: nn.ELU(2.0)),
    "F.softplus(beta=5)": written(lambda h: F.softplus(h, beta=5)),
    "F.softplus(threshold=0.1)": written(lambda h: F.softplus(h, threshold=0.1)),
    "nn.Softplus(1, 0.1)": sequence(lambda: nn.Softplus(1, 0.1)),
    "F.gelu(tanh)": written(lambda h: F.gelu(h, approximate="tanh")),
    "torch.add alpha": written(lambda h: torch.relu(torch.add(h, torch.tanh(h), alpha=-3))),
    "torch.sub alpha": written(lambda h: torch.relu(torch.sub(h, torch.tanh(h), alpha=-3))),
    "torch.sub constant": written(lambda h: torch.relu(torch.sub(torch.ones(12), h, alpha=3))),
    "LeakyReLU(2)": sequence(lambda: nn.LeakyReLU(2.0)),
    "LeakyReLU(-0.5)": sequence(lambda: nn.LeakyReLU(-0.5)),
    "F.leaky_relu(2)": written(lambda h: F.leaky_relu(h, 2.0)),
    "F.leaky_relu(-1)": written(lambda h: F.leaky_relu(h, negative_slope=-1.0)),
    "forward hook": hooked("forward"),
    "forward pre-hook": hooked("forward pre"),
    "forward replaced": hooked("forward replaced"),
    "bias of 1e6 cancels": Cancels,
    "bias of 1e5 cancels": type("Cancels5", (Cancels,), {"size": 1e5}),
    "weights of 1e5 cancel": CancelsInWeights,
    "weights of 1e6 cancel": type("CancelsInWeights6", (CancelsInWeights,), {"size": 1e6}),
}
PLAIN = {
    "ReLU": sequence(nn.ReLU),
    "in-place ReLU": sequence(lambda: nn.ReLU(inplace=True)),
    "LeakyReLU": sequence(lambda: nn.LeakyReLU(0.1)),
    "GELU, SiLU": sequence(nn.GELU, nn.SiLU),
    "tanh, sigmoid": sequence(nn.Tanh, nn.Sigmoid),
    "ELU, Softplus": sequence(nn.ELU, nn.Softplus),
    "functional": Written,
    "float64": lambda: Written().double(),
    "dropout, off": sequence(lambda: nn.Sequential(nn.ReLU(), nn.Dropout(0.5))),
}


def proven(net, x, space, attack):
    """(n,) bool: the rows that are called proven; none where the network is refused."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = net(x.to(next(net.parameters()).dtype)).argmax(1)
        try:
            report = du.evaluate(net, du.Dataset(x, y), space=space, attack=attack, progress=False)
        except du.Unsupported:
            return torch.zeros(len(x), dtype=torch.bool), y
    return torch.tensor((report.table["verdict"] == "proven").tolist()), y


def broken(net, x, y, eps, draws, stream):
    """(n,) bool: a point within eps, by the module's own answers, with another class."""
    dtype = next(net.parameters()).dtype
    found = torch.zeros(len(x), dtype=torch.bool)

    def ask(points):
        nonlocal found
        with torch.no_grad():
            answers = (
                net(points.flatten(0, 1).to(dtype)).float().argmax(1).reshape(points.shape[:2])
            )
        found |= (answers != y).any(0)

    moves = 2 * torch.rand(draws, *x.shape, generator=stream) - 1
    moves[: draws // 2] = moves[: draws // 2].sign()
    ask((x + eps * moves).clamp(0, 1))
    at = (x + eps * moves[:8]).clamp(0, 1)
    low, high = (x - eps).clamp_min(0), (x + eps).clamp_max(1)
    for _ in range(12):
        at = at.detach().requires_grad_()
        out = net(at.flatten(0, 1).to(dtype)).float().reshape(*at.shape[:2], -1)
        own = nn.functional.one_hot(y, out.shape[2]).bool()
        lead = out.masked_fill(own, -math.inf).amax(2) - out.masked_fill(~own, 0).sum(2)
        (slope,) = torch.autograd.grad(lead.sum(), at, allow_unused=True)
        if slope is None:
            break
        at = (at.detach() + eps / 4 * slope.sign()).minimum(high).maximum(low)
        ask(at)
    return found


def prosecuted(make, seeds=2, rows=40, draws=1500):
    """How many rows were called proven, and how many of these are broken."""
    count = wrong = 0
    for seed in range(seeds):
        torch.manual_seed(seed)
        net = make().eval()
        stream = torch.Generator().manual_seed(seed)
        x = torch.rand(rows, 4, generator=stream)
        for eps in (0.02, 0.1):
            sure, y = proven(net, x, du.Linf(eps), du.Bounds(alpha=2, splits=0, seconds=0.0))
            if not sure.any():
                continue
            found = broken(net, x[sure], y[sure], eps, draws, stream)
            count, wrong = count + int(sure.sum()), wrong + int(found.sum())
    return count, wrong


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_no_proven_row_is_broken(name):
    assert prosecuted(CONSTRUCTS[name])[1] == 0


@pytest.mark.parametrize("name", PLAIN)
def test_plain_networks_keep_their_proofs(name):
    count, wrong = prosecuted(PLAIN[name], seeds=2)
    assert wrong == 0 and count >= 60


@pytest.mark.parametrize("make", [Dropped, Noisy, Alternates])
def test_a_network_that_answers_differently_twice_has_no_proof(make):
    torch.manual_seed(0)
    sure, _ = proven(make().eval(), torch.rand(20, 4), du.Linf(0.01), du.Bounds())
    assert not sure.any()


@pytest.mark.parametrize("inplace", [True, False])
def test_whole_numbers_agree_with_all_their_records(inplace):
    """Every record within 3 of a proven row, of which those that the relation allows count."""
    schema = du.Schema([du.Feature(f"v{i}", "integer", 0, 12) for i in range(4)], ["v0 + v1 <= 14"])
    total = 0
    for seed in range(3):
        torch.manual_seed(seed)
        relu = [nn.ReLU(inplace=inplace) for _ in range(2)]
        net = nn.Sequential(nn.Linear(4, 10), relu[0], nn.Linear(10, 10), relu[1],
                            nn.Linear(10, 2)).double().eval()  # fmt: skip
        with torch.no_grad():
            net[0].weight /= 6
            net[2].weight *= 2
            net[4].weight *= 2
        x = torch.randint(0, 13, (30, 4)).double()
        x = x[x[:, 0] + x[:, 1] <= 14]
        with torch.no_grad():
            y = net(x.clone()).argmax(1)
        report = du.evaluate(net, du.Dataset(x, y, schema=schema),
                             space=schema.space(eps=0.26, p=math.inf), progress=False,
                             attack=du.Bounds(alpha=0, splits=0, seconds=2.0))  # fmt: skip
        sure = torch.tensor((report.table["verdict"] == "proven").tolist())
        total += int(sure.sum())
        steps = torch.tensor(list(itertools.product(range(-3, 4), repeat=4)), dtype=torch.float64)
        for row, was in zip(x[sure], y[sure], strict=True):
            near = row + steps
            near = near[((near >= 0) & (near <= 12)).all(1) & (near[:, 0] + near[:, 1] <= 14)]
            with torch.no_grad():
                assert (net(near).argmax(1) == was).all()
    assert total >= 5


def test_an_int_cast_under_the_default_is_never_proven_wrongly():
    for seed in range(3):
        torch.manual_seed(seed)
        net = Rounds().eval()
        x = torch.rand(30, 4)
        sure, y = proven(net, x, du.Linf(0.1), du.Standard(seconds=0.2))
        if sure.any():
            stream = torch.Generator().manual_seed(seed)
            assert not broken(net, x[sure], y[sure], 0.1, 4000, stream).any()


@pytest.mark.parametrize("make", [lambda: nn.BatchNorm1d(8, track_running_stats=False),
                                  lambda: nn.BatchNorm1d(8)])  # fmt: skip
def test_batch_norm_without_statistics_is_refused_by_name(make):
    torch.manual_seed(0)
    norm = make()
    norm.running_mean = norm.running_var = None
    net = nn.Sequential(nn.Linear(4, 8), norm, nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.rand(10, 4)
    data = du.Dataset(x, net(x).argmax(1))
    with pytest.raises(du.DurometerError, match="BatchNorm|batch"):
        du.evaluate(net, data, space=du.Linf(0.01), attack=du.Bounds(), progress=False)


class Standardised(nn.Module):
    """As scalers are often written: constants take the input's type."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.rand(4))
        self.register_buffer("scale", torch.rand(4) + 0.5)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        return self.net((x - self.mean.to(x)) / self.scale.to(x))


def test_constants_that_take_the_type_of_the_input_are_constants():
    count, wrong = prosecuted(Standardised, seeds=2)
    assert wrong == 0 and count >= 60


def test_a_listing_that_settles_nothing_is_no_proof():
    """Enumerate runs on a table of real numbers and closes no row: the report says `no-proof`."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.RReLU(), nn.Linear(8, 2)).eval()
    schema = du.Schema([du.Feature(c, "real", 0, 1) for c in "abcd"])
    x = torch.rand(8, 4).double()
    data = du.Dataset(x, net(x.float()).argmax(1), schema=schema)
    report = du.evaluate(net, data, space=schema.space(eps=0.001), progress=False)
    assert report.metric("proven").value == 0
    assert "no-proof" in {f.id for f in report.flags}


WRAPS = {
    "int32, then int8": lambda x: (x * 150).int().to(torch.int8).float() / 20,
    "int64, then uint8": lambda x: (x * 100 - 20).long().to(torch.uint8).float() / 20,
    "int64, then int32": lambda x: (x * 2.6e9).long().to(torch.int32).float() / 4e8,
}


class Before(Written):
    def __init__(self, before):
        super().__init__()
        self.before = before

    def forward(self, x):
        return super().forward(self.before(x))


@pytest.mark.parametrize("name", WRAPS)
def test_a_whole_type_that_is_too_small_wraps_around_inside_the_region(name):
    """The rows fit, points near them do not: asking the rows alone shows nothing."""
    count = 0
    for seed in range(2):
        torch.manual_seed(seed)
        net = Before(WRAPS[name]).eval()
        x = torch.rand(80, 4) * 0.5 + 0.3
        for eps in (0.05, 0.15):
            sure, y = proven(net, x, du.Linf(eps), du.Bounds(alpha=0, splits=0, seconds=0.0))
            if sure.any():
                stream = torch.Generator().manual_seed(seed)
                assert not broken(net, x[sure], y[sure], eps, 1000, stream).any()
            count += int(sure.sum())
    assert count > 5


@pytest.mark.parametrize("asks", [lambda x: len(x) < 30,
                                  lambda x: x.numel() > 4000])  # fmt: skip
def test_a_network_that_asks_how_many_rows_there_are_is_refused(asks):
    torch.manual_seed(0)
    net = Before(lambda x: x if asks(x) else -x).eval()
    x = torch.rand(60, 4)
    with pytest.raises(du.Unsupported, match="number of rows"):
        du.evaluate(net, du.Dataset(x, net(x).argmax(1)), space=du.Linf(0.01), attack=du.Bounds(),
                    progress=False)  # fmt: skip


@pytest.mark.parametrize("other", [
    lambda x: x.flip(1) if len(x) > 1 else x, lambda x: x if len(x) < 30 else x.flip(1),
    lambda x: x.flip(1) if x.shape[0] > 1 else x, lambda x: x if len(x) < 2 else x.roll(1, 1),
    lambda x: -x if 20 < len(x) < 900 else x,
])  # fmt: skip
def test_another_order_for_another_number_of_rows_is_refused(other):
    torch.manual_seed(0)
    net = Before(other).eval()
    with pytest.raises(du.Unsupported, match="number of rows"):
        program_of(net, torch.rand(1, 4))


@pytest.mark.parametrize("same", [
    lambda x: torch.cat([x[:, 2:], x[:, :2]], 1), lambda x: x.t().reshape(4, -1).t(),
    lambda x: F.pad(x[:, :3], (0, 1), value=0.3),
    lambda x: x.unsqueeze(0).squeeze(0), lambda x: x.view(x.shape[0], 2, 2).flatten(1),
])  # fmt: skip
def test_moves_that_keep_each_row_are_read(same):
    program_of(Before(same).eval(), torch.rand(1, 4))


@pytest.mark.parametrize("weights", [lambda w: w.flip(0), lambda w: w.roll(1, 1)])
def test_weights_in_another_order_for_another_number_of_rows_are_refused(weights):
    class Turns(Written):
        def forward(self, x):
            w = self.b.weight if x.shape[0] < 2 else weights(self.b.weight)
            return self.c(torch.relu(F.linear(self.a(x), w)))

    with pytest.raises(du.Unsupported, match="number of rows"):
        program_of(Turns().eval(), torch.rand(1, 4))


def test_numbers_read_as_another_type_are_refused_by_name():
    net = Before(lambda x: x.view(torch.int32).view(torch.float32)).eval()
    x = torch.rand(10, 4)
    with pytest.raises(du.Unsupported, match=r"'view' with dtype=torch.int32"):
        du.evaluate(net, du.Dataset(x, net(x).argmax(1)), space=du.Linf(0.01), attack=du.Bounds(),
                    progress=False)  # fmt: skip
