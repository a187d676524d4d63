"""Bounds: never below what points reach, in every kind of layer; no proof that a point breaks."""

import math
import os

import numpy as np
import pytest
import torch
from tests.oracles.brute import records
from torch import nn

import durometer as du
from durometer.proofs.aten.rows import program_of
from durometer.proofs.bounds.climb import climb
from durometer.proofs.bounds.crown import Free, Network
from durometer.proofs.bounds.inputs import domain
from durometer.proofs.networks import bounded, leads
from durometer.proofs.search.milp import _quiet

torch.manual_seed(0)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.c(0.5 * x + self.b(h) - h.mean(1, keepdim=True))


class Attending(nn.Module):
    """Two tokens of two, unpacked, attending to one another, then gated: every bilinear step."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.ask = nn.Linear(5, 8), nn.LayerNorm(4), nn.Linear(4, 12)
        self.gate, self.out = nn.Linear(4, 8), nn.Linear(8, 3)
        self.mu = nn.Parameter(torch.rand(8))

    def forward(self, x):
        n = x.shape[0]
        tokens = (self.embed(x) * self.mu.clamp(0, 1)).view(n, 2, 4)
        asked = self.ask(self.norm(tokens)).view(n, 2, 3, 2, -1)
        query, key, value = asked.transpose(1, 3).unbind(2)
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + seen.transpose(1, 2).reshape(n, 2, -1)
        value, gate = self.gate(tokens).chunk(2, dim=-1)
        return self.out((tokens + value * nn.functional.gelu(gate)).flatten(1))


class Shares(nn.Module):
    """Softmax over the last of three axes, squares and exponentials."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.first(x).view(-1, 2, 3)
        p = torch.softmax(h, -1)
        return self.last((p * torch.exp(-h) + h**2).flatten(1))


class Running(nn.Module):
    """An operation that is not on the list."""

    def forward(self, x):
        return x.cumsum(1)


class Pooled(nn.Module):
    """As many people write it."""

    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x):
        h = nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.last(h.amax((2, 3)))


def mlp(act):
    return nn.Sequential(nn.Linear(5, 16), act, nn.Linear(16, 16), act, nn.Linear(16, 3))


FLAT = {
    **{type(a).__name__: mlp(a) for a in (nn.ReLU(), nn.LeakyReLU(0.1), nn.Sigmoid(), nn.Tanh(),
                                          nn.GELU(), nn.SiLU(), nn.ELU(), nn.Softplus())},
    "norms": nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6),
                           nn.LayerNorm(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 3)),
    "residual": Residual(),
    "attention": Attending(),
    "shares": Shares(),
    "LogSoftmax inside": nn.Sequential(nn.Linear(5, 6), nn.LogSoftmax(1), nn.Linear(6, 3)),
    "norm of numbers": nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)),
    "softmax head": nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(dim=1)),
    "softmax inside": nn.Sequential(nn.Linear(5, 8), nn.Softmax(dim=1), nn.Linear(8, 3)),
}  # fmt: skip
IMAGES = {
    "conv": nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(),
                          nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 3)),
    "max pool": nn.Sequential(nn.Conv2d(1, 4, 3, stride=1), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Linear(16, 3)),
    "wide pools": nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(),
                                nn.MaxPool2d(2, 1, 1, dilation=2, ceil_mode=True),
                                nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
    "pools as functions": Pooled(),
}  # fmt: skip


def ready(net):
    for m in net.modules():
        if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.3)
            m.running_var.uniform_(0.5, 2)
            m.weight.data.normal_(1, 0.5)
    return net.eval()


def inside(region, draws):
    """Random points of the region, corners and edges too."""
    stream = torch.Generator().manual_seed(0)
    for k in range(draws):
        step = torch.randn(region.origin.shape, generator=stream, dtype=region.origin.dtype)
        step = step.sign() if k % 3 == 0 else step
        size = region.eps * (10 if k % 2 else torch.rand(len(step), 1, generator=stream))
        x = region.decode(region.project(region.origin + size * step))
        yield x[region.contains(x)], region.contains(x)


@pytest.mark.parametrize("name", [*FLAT, *IMAGES])
@pytest.mark.parametrize("space", [du.Linf(0.1), du.L2(0.2), du.L1(0.3)], ids=str)
def test_no_point_of_the_region_goes_above_its_bound(name, space):
    net = ready({**FLAT, **IMAGES}[name])
    shape = (5,) if name in FLAT else (1, 6, 6)
    x = torch.rand(8, *shape, generator=torch.Generator().manual_seed(1))
    region = space.around(x)
    head = net if name != "softmax head" else net[:-1].eval()
    program = program_of(head.double(), x[:1].double())
    goal = torch.ones(8, 3, dtype=torch.bool)
    goal[torch.arange(8), torch.arange(8) % 3] = False
    spec = leads(goal)[0]
    network = bounded(program, domain(region))
    top = network.highest(spec[:, :, None])
    climbed, _ = climb(network, spec[:, :, None], 8)
    assert (climbed <= top + 1e-9).all()
    for near, of in inside(region, 60):
        with torch.no_grad():
            reached = torch.einsum("nmc,nc->nm", spec[of], head(near.double()))
        assert (reached <= climbed[of] + 1e-7).all()
    net.float()


def trained(x, y, net, rounds=250, noise=0.0):
    adam = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(rounds):
        near = x + noise * (2 * torch.rand_like(x) - 1)
        loss = nn.functional.cross_entropy(net(near), y)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net.eval()


X = torch.rand(150, 4, generator=torch.Generator().manual_seed(3))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).long()


@pytest.mark.parametrize("space", [du.Linf(0.05), du.L2(0.08), du.L1(0.1)], ids=str)
def test_attacked_points_of_proven_rows_never_succeed_and_the_gap_is_small(space):
    torch.manual_seed(1)
    net = trained(X, Y, nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(),
                                      nn.Linear(24, 2)))  # fmt: skip
    data = du.Dataset(X, Y)
    report = du.evaluate(net, data, space=space, attack=du.Then(du.Bounds(), du.APGD(50)))
    assert report.metric("open").value <= 0.02 and report.metric("proven").value > 0.2
    alone = du.evaluate(net, data, space=space, attack=du.PGD(100, restarts=5))
    assert not (alone.table["success"] & (report.table["verdict"] == "proven")).any()


def test_planted_counterexamples_are_never_called_proven():
    """A narrow spike beside every row: a bump of 1 + 1e-3 that two ReLUs add at one point."""
    torch.manual_seed(2)
    base = trained(X, Y, nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)))
    rows = X[:25]
    with torch.no_grad():
        logits = base(rows)
        answer = logits.argmax(1)
    planted = 0
    for k in range(25):
        at = rows[k] + 0.03 * torch.randn(4).sign()
        at = at.clamp(0, 1)
        net = Spiked(base, at, int(1 - answer[k]))
        with torch.no_grad():
            if int(net(at[None]).argmax(1)) == int(answer[k]):
                continue
        planted += 1
        report = du.evaluate(net, du.Dataset(rows[k : k + 1], answer[k : k + 1]),
                             space=du.Linf(0.031), attack=du.Bounds(splits=16))  # fmt: skip
        assert report.table["verdict"].tolist() == ["open"]
    assert planted >= 22


class Spiked(nn.Module):
    """Another network plus relu(height - steep * |x - at|_1) for one class."""

    def __init__(self, base, at, towards):
        super().__init__()
        self.base = base
        self.off = nn.Linear(4, 8)
        self.top = nn.Linear(8, 1)
        self.out = nn.Linear(1, 2, bias=False)
        with torch.no_grad():
            self.off.weight.copy_(torch.cat([torch.eye(4), -torch.eye(4)]))
            self.off.bias.copy_(torch.cat([-at, at]))
            self.top.weight.fill_(-1000.0)
            self.top.bias.fill_(40.0)
            self.out.weight.copy_(nn.functional.one_hot(torch.tensor([towards]), 2).float().T)

    def forward(self, x):
        spike = torch.relu(self.top(torch.relu(self.off(x))))
        return self.base(x) + self.out(spike)


FEATURES = [
    du.Feature("a", "integer", 0, 8), du.Feature("b", "integer", 0, 8),
    du.Feature("k", "category", values=("u", "v", "w")), du.Feature("c", "integer", 0, 8),
]  # fmt: skip
VALUES = [list(range(9)), list(range(9)), [0, 1, 2], list(range(9))]
KINDS = ["number", "number", "category", "number"]


@pytest.mark.parametrize(("eps", "p"), [(0.15, math.inf), (0.3, 2), (1.42, 2), (2.1, 1), (1, 0)])
def test_tables_agree_with_all_their_records(eps, p):
    schema = du.Schema(FEATURES, ["a <= b + 2"])
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, 9, 400), rng.integers(0, 9, 400), rng.integers(0, 3, 400),
                  rng.integers(0, 9, 400)], 1).astype(float)  # fmt: skip
    x = x[x[:, 0] <= x[:, 1] + 2]
    y = torch.from_numpy(np.digitize(x @ [1.0, -0.5, 2.0, 0.3], [3.0, 6.0]))
    net = du.architectures.MLP(schema, 3, widths=(16, 8))
    trained(torch.from_numpy(x), y, net, 150)
    rows = torch.from_numpy(x[:25])
    with torch.no_grad():
        answer = net(rows).argmax(1)
    report = du.evaluate(net, du.Dataset(rows, answer, schema=schema),
                         space=schema.space(eps=eps, p=p), attack=du.Bounds())  # fmt: skip
    broken = []
    for row, was in zip(rows.numpy(), answer, strict=True):
        near = records(row, VALUES, KINDS, eps, p, lambda g: g[:, 0] <= g[:, 1] + 2)
        with torch.no_grad():
            broken.append(bool((net(torch.from_numpy(near)).argmax(1) != was).any()))
    broken = np.array(broken)
    assert broken.any()
    assert ((report.table["verdict"] == "broken") == broken).all()
    assert ((report.table["verdict"] == "proven") == ~broken).all()


def test_branching_decides_what_one_bound_leaves_open():
    """Two features, so that a fine grid says what is true."""
    torch.manual_seed(4)
    x = torch.rand(300, 2)
    y = ((x[:, 0] - 0.5) * (x[:, 1] - 0.5) > 0).long()
    net = trained(x, y, nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24),
                                      nn.LeakyReLU(0.1), nn.Linear(24, 2)), 400)  # fmt: skip
    rows, eps = x[:60], 0.06
    with torch.no_grad():
        answer = net(rows).argmax(1)
    data = du.Dataset(rows, answer)
    grid = torch.cartesian_prod(*[torch.linspace(-eps, eps, 61)] * 2)
    with torch.no_grad():
        near = net((rows[:, None] + grid).clamp(0, 1).flatten(0, 1)).reshape(60, -1, 2)
    lead = near.gather(2, (1 - answer)[:, None, None].expand(-1, near.shape[1], 1))[..., 0]
    lead = (lead - near.gather(2, answer[:, None, None].expand_as(lead[..., None]))[..., 0]).amax(1)

    def proven(**options):
        attack = du.Bounds(alpha=0, few=0, **options)  # the box itself is not cut
        report = du.evaluate(net, data, space=du.Linf(eps), attack=attack, progress=False)
        return torch.tensor((report.table["verdict"] == "proven").tolist())

    one, many = proven(splits=0), proven(splits=256)
    assert not (many & (lead > 0)).any() and (one <= many).all()
    assert many[lead < -0.05].all()  # what the grid leaves between its points
    assert not one[lead < -0.05].all()


def test_the_solver_does_not_write_to_the_output(capfd):
    print("before")
    with _quiet():
        os.write(1, b"noise")
    print("after")
    assert capfd.readouterr().out == "before\nafter\n"


def test_a_network_that_no_proof_knows_says_so():
    net = nn.Sequential(nn.Linear(4, 8), Running(), nn.Linear(8, 2))
    report = du.evaluate(net, du.Dataset(X[:8], Y[:8]), space=du.Linf(0.001), progress=False)
    (flag,) = (f for f in report.flags if f.id == "no-proof")
    assert "cumsum" in flag.text and report.metric("proven").value == 0
    known = trained(X, Y, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), 20)
    report = du.evaluate(known, du.Dataset(X[:8], Y[:8]), space=du.Linf(0.001), progress=False)
    assert "no-proof" not in {f.id for f in report.flags}


@pytest.mark.parametrize("width", [0, 500])  # one program of all; too wide for that
def test_relations_prove_what_the_box_does_not(width):
    schema = du.Schema([du.Feature(c, "real", 0, 1) for c in "ab"], ["a == b"])
    net = nn.Sequential(nn.Linear(2, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[0.0, 0.0], [5.0, -5.0]]))
        net[0].bias.copy_(torch.tensor([0.0, -0.5]))
    if width:  # ReLUs that are always on, and the first two are read
        first, last = nn.Linear(2, width), nn.Linear(width, 2)
        with torch.no_grad():
            first.weight.zero_()
            first.weight[:2] = torch.eye(2)
            first.bias.fill_(1.0)
            last.weight.zero_()
            last.weight[:, :2] = net[0].weight
            last.bias.copy_(net[0].bias)
        net = nn.Sequential(first, nn.ReLU(), last)
    x = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    run = {"space": schema.space(eps=0.2), "progress": False}
    box = du.evaluate(net, du.Dataset(x, [0]), attack=du.Bounds(seconds=0.0), **run)
    rules = du.evaluate(net, du.Dataset(x, [0]), attack=du.Bounds(), **run)
    assert box.table["verdict"].tolist() == ["open"]
    assert rules.table["verdict"].tolist() == ["proven"]


@pytest.mark.parametrize("norm", ["Linf", "L2"])
def test_wide_networks_are_branched_with_the_bounds_of_their_rows(norm):
    """1,124 ReLUs; a grid of 61 x 61 points says what is true."""
    torch.manual_seed(5)
    x = torch.rand(300, 2)
    y = ((x[:, 0] - 0.5) * (x[:, 1] - 0.5) > 0).long()
    net = trained(x, y, nn.Sequential(nn.Linear(2, 1100), nn.ReLU(), nn.Linear(1100, 24), nn.ReLU(),
                                      nn.Linear(24, 2)), 60)  # fmt: skip
    rows, eps = x[:24], 0.08
    with torch.no_grad():
        answer = net(rows).argmax(1)
        grid = torch.cartesian_prod(*[torch.linspace(-eps, eps, 61)] * 2)
        if norm == "L2":
            grid = grid[grid.norm(dim=1) <= eps]
        near = net((rows[:, None] + grid).clamp(0, 1).flatten(0, 1)).reshape(24, -1, 2)
    data = du.Dataset(rows, answer)
    lead = (near.gather(2, (1 - answer)[:, None, None].expand(-1, near.shape[1], 1))
            - near.gather(2, answer[:, None, None].expand(-1, near.shape[1], 1)))  # fmt: skip
    lead = lead[..., 0].amax(1)

    def proven(splits):
        attack = du.Bounds(alpha=0, few=0, splits=splits)  # the box itself is not cut
        report = du.evaluate(net, data, space=getattr(du, norm)(eps), attack=attack, progress=False)
        return torch.tensor((report.table["verdict"] == "proven").tolist())

    one, many = proven(0), proven(48)
    assert not (many & (lead > 0)).any() and (one <= many).all()
    assert many.sum() > one.sum()


def test_parts_with_the_bounds_of_their_row_bound_every_point_that_they_hold():
    """Each part's bound against the points whose ReLUs stand as it says."""
    torch.manual_seed(6)
    net = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(),
                        nn.Linear(12, 2)).double().eval()  # fmt: skip
    program = program_of(net, torch.zeros(1, 3).double())
    x = torch.zeros(1, 3).double()
    held = domain(du.Linf(0.7, low=-1, high=1).around(x), None)
    whole = bounded(program, held)
    hinges = [k for k, op in enumerate(program.operations) if type(op).__name__ == "Hinge"]
    points = (torch.rand(20_000, 3).double() * 2 - 1) * 0.7
    with torch.no_grad():
        first = net[0](points)
        second = net[2](first.relu())
        lead = net(points) @ torch.tensor([1.0, -1.0]).double()
    spec = torch.tensor([[[1.0, -1.0]]]).double()
    for place in range(12):
        for k, z in zip(hinges, (first, second), strict=True):
            for side in (1, -1):
                signs = {j: torch.zeros(1, 1, 12, dtype=torch.int8) for j in hinges}
                signs[k][0, 0, place] = side
                part = Network(program, held, signs, whole.bounds)
                part.prepare()
                top, _ = climb(part, spec, 10, None)
                mine = z[:, place] * side >= 0
                if part.empty():
                    assert not mine.any()
                elif mine.any():
                    assert lead[mine].max() <= top


def test_the_multiple_of_a_sign_pays_for_the_rounding_of_what_it_is_a_sign_of():
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).eval()
    with torch.no_grad():
        for layer, weight, bias in ((net[0], 1e5, 0.5 - 1e5), (net[2], 1.0, 0.0)):
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
    program = program_of(net, torch.zeros(1, 1))
    held = domain(du.Linf(0.5).around(torch.ones(1, 1).double() * 0.9), None)
    (k,) = (i for i, op in enumerate(program.operations) if type(op).__name__ == "Hinge")
    ones = torch.ones_like(bounded(program, held).relaxations[k].lower_slope)
    part = Network(program, held, {k: ones.to(torch.int8)})
    part.prepare()
    source = program.operations[k].inputs[0]
    assert part.errors[source].max() > 1e-3
    weight, const = part.linear(torch.ones(1, 1, 1, 1).double(), free=Free(beta={k: ones}))
    top = (weight.clamp_min(0) * held.high + weight.clamp_max(0) * held.low).sum() + const
    assert top >= 2 * part.bounds[source][1].max()  # the output and the sign's number are alike


def test_robustness_by_what_cannot_change_is_called_vacuous():
    schema = du.Schema([du.Feature("flag", "boolean"), du.Feature("a", "real", 0, 1)])
    net = nn.Linear(2, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0.0], [-9.0, 1.0]]))
        net.bias.copy_(torch.tensor([0.0, 4.0]))
    x = torch.tensor([[1.0, 0.5], [1.0, 0.2], [0.0, 0.5]], dtype=torch.float64)
    report = du.evaluate(net, du.Dataset(x, [0, 0, 1]), space=schema.space(eps=0.3),
                         attack=du.Bounds())  # fmt: skip
    assert (report.table["verdict"] == "proven").all() and report.table["vacuous"].all()
    assert "vacuous-robustness" in {f.id for f in report.flags}


def test_what_bounds_do_not_know_is_named():
    class Sorted(nn.Module):
        def forward(self, x):
            return x.sort(1).values

    x = torch.rand(4, 5)
    for net, name in ((nn.Sequential(nn.Linear(5, 3), Sorted()), "sort"), (Running(), "cumsum")):
        data = du.Dataset(x, net(x).argmax(1))
        with pytest.raises(du.Unsupported, match=name):
            du.evaluate(net, data, space=du.Linf(0.1), attack=du.Bounds())
