"""Programs read from torch.export: every bound holds on points, and what is not one is refused."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import durometer as du
from durometer.proofs.aten.curves import Convex, Hinge, Smooth, smooth
from durometer.proofs.aten.program import UNIT
from durometer.proofs.aten.rows import program_of
from durometer.proofs.bounds.domain import Domain
from durometer.proofs.networks import bounded

NAMED = {
    "sigmoid": ((), torch.sigmoid), "tanh": ((), torch.tanh), "erf": ((), torch.erf),
    "silu": ((), F.silu), "mish": ((), F.mish), "gelu": (("none",), F.gelu),
    "gelu tanh": (("tanh",), lambda x: F.gelu(x, approximate="tanh")),
    "sin": ((), torch.sin), "cos": ((), torch.cos),
    "elu": ((0.2, 1.0, 1.0), lambda x: F.elu(x, 0.2)),
    "elu celu": ((0.5, 1.0, 2.0), lambda x: F.celu(x, 0.5)),
    "softplus": ((1.0, 20.0), F.softplus),
    "softplus 5": ((5.0, 20.0), lambda x: F.softplus(x, 5)),
    "softplus turn": ((1.0, 0.1), lambda x: F.softplus(x, 1, 0.1)),
    "clamp": ((-0.5, 1.5), lambda x: x.clamp(-0.5, 1.5)),
    "hardswish": ((), F.hardswish), "hardsigmoid": ((), F.hardsigmoid),
    "cube": ((), lambda x: x**3),
}  # fmt: skip
CONVEX = {
    "square": torch.square, "exp": torch.exp, "expm1": torch.expm1, "log": torch.log,
    "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "log_sigmoid": F.logsigmoid,
}  # fmt: skip


def curves():
    for label, (arguments, call) in NAMED.items():
        name = label.split()[0]
        pieces, units, limits = smooth(name, arguments)
        yield label, Smooth((0,), (200,), UNIT[torch.float32], "", name, arguments, pieces, units,
                            limits), call  # fmt: skip
    for name, call in CONVEX.items():
        yield name, Convex((0,), (200,), UNIT[torch.float32], "", name, 16), call
    for slope in (0.0, 0.1, 2.0, -0.5, -1.0):
        held = Hinge((0,), (200,), UNIT[torch.float32], "", torch.tensor(slope).double())
        yield f"hinge {slope}", held, lambda x, s=slope: torch.where(x >= 0, x, s * x)


CURVES = {label: (curve, call) for label, curve, call in curves()}


@pytest.mark.parametrize("label", CURVES)
def test_lines_and_intervals_hold_on_every_curve_in_its_own_precision(label):
    """Single precision asked, double precision bounded: with E, no point is outside."""
    curve, call = CURVES[label]
    stream = torch.Generator().manual_seed(0)
    for scale in (0.1, 1.0, 4.0, 12.0):
        low = (2 * torch.rand(1, 200, generator=stream).double() - 1) * scale
        if label in ("log", "sqrt", "rsqrt", "reciprocal", "log1p"):
            low = low.abs() + 0.01
        high = low + torch.rand(1, 200, generator=stream).double() ** 3 * scale
        line = curve.relaxation(low, high)
        bottom, top = curve.interval((low, high))
        error = curve.rounding([(low, high)], (bottom, top))
        error = torch.zeros(()) if error is None else error
        x = (low + torch.linspace(0, 1, 401).double()[:, None] * (high - low)).float().double()
        x = x.clamp(low, high)
        inside = (x.float().double() == x) & (x >= low) & (x <= high)
        y = call(x.float()).double()
        assert (y >= bottom - error)[inside].all() and (y <= top + error)[inside].all()
        assert (y >= line.lower_slope * x + line.lower_bias - error)[inside].all()
        assert (y <= line.upper_slope * x + line.upper_bias + error)[inside].all()


@pytest.mark.parametrize("label", NAMED)
def test_no_second_derivative_is_larger_than_its_piece_says(label):
    arguments, _ = NAMED[label]
    for piece in smooth(label.split()[0], arguments)[0]:
        a, b = max(piece.start, -12.0), min(piece.end, 12.0)
        x = torch.linspace(a, b, 40_001, dtype=torch.float64)[1:-1].requires_grad_()
        y = piece.value(x)
        if not y.requires_grad:
            continue
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        if not first.requires_grad:
            continue
        (second,) = torch.autograd.grad(first.sum(), x, allow_unused=True)
        if second is None:
            continue
        most = piece.second
        most = most(x.detach(), x.detach()) if callable(most) else torch.tensor(most)
        assert (second.abs() <= most + 1e-9).all()


class Made(nn.Module):
    """A forward that is given."""

    def __init__(self, call):
        super().__init__()
        self.call, self.l = call, nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        return self.call(self, x)


def counts(self, x):
    self.count += 1
    return self.l(x) * self.count


REFUSED = {
    "rows": (lambda s, x: x - x.mean(0), "rows"),
    "rolled rows": (lambda s, x: s.l(x).roll(1, 0), "row"),
    "other rows' order": (lambda s, x: s.l(x).flip(0), "row"),
    "number of rows": (lambda s, x: s.l(x) * len(x), "number of rows"),
    "branch on rows": (lambda s, x: s.l(x) if len(x) < 2 else -s.l(x), "number of rows"),
    "buffer": (counts, "buffer"),
    "random": (lambda s, x: x + torch.randn(4), "random"),
    "dropout": (lambda s, x: F.dropout(x, 0.5, True), "random"),
    "value": (lambda s, x: s.l(x) if x.sum() > 0 else x, "branches"),
    "input": (lambda s, x: s.l(x.add_(1)), "input"),
    "sort": (lambda s, x: x.sort(1).values, "sort"),
    "varying index": (lambda s, x: x[:, x.argmax(1)], ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_program_of_one_row_is_refused_by_name(name):
    call, said = REFUSED[name]
    with pytest.raises(du.Unsupported, match=said):
        program_of(Made(call).eval(), torch.rand(1, 4))


def test_training_mode_is_refused():
    with pytest.raises(du.Unsupported, match="training"):
        program_of(nn.Sequential(nn.Linear(4, 3)), torch.rand(1, 4))


UNARY = [
    F.relu, F.gelu, F.silu, torch.tanh, torch.sigmoid, F.mish, F.hardswish, torch.abs, F.softsign,
    lambda h: F.elu(h, 0.3), lambda h: F.softplus(h, 3), lambda h: F.leaky_relu(h, 1.7),
    lambda h: h.clamp(-0.3, 0.9), lambda h: F.layer_norm(h, h.shape[-1:]),
    lambda h: torch.softmax(h, -1), lambda h: h * torch.sigmoid(h), lambda h: h.square(),
    lambda h: torch.sub(h, torch.tanh(h), alpha=-2.5), lambda h: torch.maximum(h, 0.3 - h),
    lambda h: h / (1 + h.abs()), lambda h: F.normalize(h + 3, dim=-1),
    lambda h: h.reshape(-1, 2, 4).transpose(1, 2).flatten(1), lambda h: h.flip(-1) + h.roll(1, -1),
    lambda h: h - h.mean(-1, keepdim=True), lambda h: h * h.amax(-1, keepdim=True),
    lambda h: (h * 4).round() / 4, lambda h: (h * 8).to(torch.int32).float() / 8,
    lambda h: h.to(torch.bfloat16).float(), lambda h: F.relu_(h.clone()) - h,
    lambda h: torch.cat([h[:, 4:], h[:, :4]], 1), lambda h: h.exp().clamp_max(3.0),
    lambda h: F.rms_norm(h, (8,)), lambda h: F.hardtanh(h) + F.logsigmoid(h),
    lambda h: torch.einsum("bi,bj->bij", h, h).mean(1), lambda h: F.avg_pool1d(h[:, None], 2, 1, 1)
    [:, 0, :8], lambda h: F.max_pool1d(h[:, None], 3, 1, 1)[:, 0],
]  # fmt: skip


class RandomProgram(nn.Module):
    """Layers and a few operations drawn from the list."""

    def __init__(self, seed):
        super().__init__()
        stream = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.between = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        drawn = torch.randint(len(UNARY), (3,), generator=stream).tolist()
        self.drawn = [UNARY[i] for i in drawn]
        self.skips = bool(torch.randint(2, (1,), generator=stream))

    def forward(self, x):
        h = self.drawn[0](self.first(x))
        for layer, call in zip(self.between, self.drawn[1:], strict=True):
            new = call(layer(h))
            h = h + new if self.skips else new
        return self.last(h)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_stay_within_their_bounds(seed):
    """The prosecutor: points of the box and gradient steps, asked of the module itself."""
    net = RandomProgram(seed).eval()
    program = program_of(net, torch.rand(1, 4))
    stream = torch.Generator().manual_seed(seed)
    for eps in (0.01, 0.1):
        x = torch.rand(6, 4, generator=stream)
        low, high = (x - eps).double(), (x + eps).double()
        size = torch.ones(4, dtype=torch.float64)
        held = Domain(x.double(), low, high, math.inf, torch.zeros(6, 1).double(), size, size * 0)
        network = bounded(program, held)
        spec = torch.cat([torch.eye(3), -torch.eye(3)]).double()[None].expand(6, -1, -1)
        top = network.highest(spec[:, :, None])
        moves = 2 * torch.rand(400, 6, 4, generator=stream) - 1
        moves[:200] = moves[:200].sign()
        at = x + eps * moves
        for _ in range(4):
            at = at.maximum(low.float()).minimum(high.float())
            inside = ((at.double() >= low) & (at.double() <= high)).all(2)
            at = at.detach().requires_grad_()
            out = net(at.flatten(0, 1)).reshape(400, 6, 3)
            for k in range(3):
                reached = out[..., k].detach().double()
                assert (reached <= top[:, k])[inside].all()
                assert (-reached <= top[:, 3 + k])[inside].all()
            k = int(torch.randint(3, (1,), generator=stream))
            (slope,) = torch.autograd.grad(out[..., k].sum(), at, allow_unused=True)
            if slope is None:
                break
            at = at.detach() + eps / 3 * slope.sign() * (1 if k else -1)
