"""Networks as people write them, each with arguments drawn anew: what `Bounds` is prosecuted with.

`CONSTRUCTS` maps a name to a maker: a `random.Random` in, a module and the shape of its inputs out.
Some are on the reader's list of operations, some are beside it (another argument, another type, a
hook, a draw): those must be refused, never proven.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Draw = random.Random
Made = tuple[nn.Module, tuple[int, ...]]
FEATURES, WIDTH, CLASSES = 4, 12, 3


class Written(nn.Module):
    """Two hidden layers, with `bend` behind each."""

    def __init__(self, bend: Callable[[Tensor], Tensor] = torch.relu, out: int = CLASSES) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c = nn.Linear(WIDTH, out)
        self.bend = bend

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.c(self.bend(self.b(self.bend(self.a(x)))))
        return out


class Around(nn.Module):
    """Something before and behind a plain network."""

    def __init__(self, before: Any = None, behind: Any = None, net: nn.Module | None = None):
        super().__init__()
        self.net = Written() if net is None else net
        self.before, self.behind = before, behind

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.before is None else self.before(x)
        x = self.net(x)
        return x if self.behind is None else self.behind(x)


class Layers(nn.Module):
    """A function of three layers and the input."""

    def __init__(self, forward: Callable[..., Tensor], **more: nn.Module) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c = nn.Linear(WIDTH, CLASSES)
        for name, module in more.items():
            setattr(self, name, module)
        self.way = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


def u(r: Draw, low: float, high: float) -> float:
    return round(r.uniform(low, high), 3)


def bends(make: Callable[[Draw], Callable[[Tensor], Tensor]]) -> Callable[[Draw], Made]:
    def made(r: Draw) -> Made:
        return Written(make(r)), (FEATURES,)

    return made


def layers(way: Callable[..., Tensor], **more: Callable[[], nn.Module]) -> Callable[[Draw], Made]:
    def made(r: Draw) -> Made:
        return Layers(way, **{k: m() for k, m in more.items()}), (FEATURES,)

    return made


def shaped(make: Callable[[Draw], nn.Module], *shape: int) -> Callable[[Draw], Made]:
    def made(r: Draw) -> Made:
        return make(r), shape or (FEATURES,)

    return made


def _within(r: Draw) -> tuple[float, float]:
    low = u(r, -1.5, 0.5)
    return low, low + u(r, 0.1, 2.0)


def _swap(h: Tensor, n: int) -> Tensor:
    return torch.cat([torch.roll(h, n, 1)[:, :4], h.flip(1)[:, 4:]], 1)


BENDS: dict[str, Callable[[Draw], Callable[[Tensor], Tensor]]] = {
    "relu": lambda r: torch.relu,
    "relu_ in place": lambda r: lambda h: h.relu_(),
    "leaky_relu(slope)": lambda r: functools.partial(F.leaky_relu, negative_slope=u(r, -1.5, 3)),
    "rrelu": lambda r: lambda h: F.rrelu(h, training=False),
    "elu(alpha)": lambda r: functools.partial(F.elu, alpha=u(r, -1, 3)),
    "elu_ in place": lambda r: lambda h: F.elu_(h, 0.3),
    "selu": lambda r: F.selu,
    "celu(alpha)": lambda r: functools.partial(F.celu, alpha=u(r, 0.1, 3)),
    "gelu": lambda r: functools.partial(F.gelu, approximate=r.choice(["none", "tanh"])),
    "silu": lambda r: F.silu,
    "mish": lambda r: F.mish,
    "tanh": lambda r: torch.tanh,
    "sigmoid": lambda r: torch.sigmoid,
    "logsigmoid": lambda r: F.logsigmoid,
    "softplus(beta, threshold)": lambda r: functools.partial(
        F.softplus, beta=u(r, 0.2, 8), threshold=u(r, -1, 4)),
    "softplus(beta < 0)": lambda r: functools.partial(F.softplus, beta=-u(r, 0.2, 2)),
    "hardtanh(low, high)": lambda r: functools.partial(F.hardtanh, **dict(zip(
        ("min_val", "max_val"), _within(r), strict=True))),
    "relu6": lambda r: lambda h: F.relu6(6 * h),
    "hardswish": lambda r: lambda h: F.hardswish(4 * h),
    "hardsigmoid": lambda r: lambda h: F.hardsigmoid(4 * h),
    "clamp(low, high)": lambda r: (lambda w: lambda h: h.clamp(*w))(_within(r)),
    "clamp(high < low)": lambda r: lambda h: h.clamp(0.4, -0.2) + h,
    "clamp(tensor)": lambda r: lambda h: h.clamp(torch.zeros(WIDTH), torch.ones(WIDTH)),
    "clamp_min": lambda r: (lambda v: lambda h: h.clamp_min(v))(u(r, -1, 1)),
    "abs": lambda r: torch.abs,
    "square": lambda r: torch.square,
    "pow": lambda r: (lambda k: lambda h: (h.abs() + 0.1) ** k)(r.choice([2, 3, .5, -.5, -1, 1])),
    "pow 3": lambda r: lambda h: h**3,
    "pow 4": lambda r: lambda h: h**4,
    "pow 2.5": lambda r: lambda h: (h.abs() + 0.1) ** 2.5,
    "sqrt": lambda r: lambda h: torch.sqrt(h.abs() + 0.05),
    "rsqrt": lambda r: lambda h: torch.rsqrt(h.square() + 0.3),
    "reciprocal": lambda r: lambda h: torch.reciprocal(h.abs() + 0.3),
    "reciprocal through 0": lambda r: lambda h: torch.reciprocal(h),
    "exp": lambda r: lambda h: torch.exp(-h),
    "log": lambda r: lambda h: torch.log(h.abs() + 0.2),
    "log of anything": lambda r: lambda h: torch.nan_to_num(torch.log(h)),
    "log1p, expm1": lambda r: lambda h: torch.log1p(torch.relu(h)) + torch.expm1(-h),
    "erf": lambda r: torch.erf,
    "sin, cos": lambda r: lambda h: torch.sin(3 * h) + torch.cos(2 * h),
    "floor": lambda r: lambda h: torch.floor(4 * h) / 4,
    "ceil": lambda r: lambda h: torch.ceil(4 * h) / 4,
    "round": lambda r: lambda h: torch.round(4 * h) / 4,
    "round(decimals)": lambda r: lambda h: torch.round(h, decimals=1),
    "trunc": lambda r: lambda h: torch.trunc(4 * h) / 4,
    "frac": lambda r: lambda h: torch.frac(4 * h),
    "remainder": lambda r: lambda h: torch.remainder(h, 0.3),
    "fmod": lambda r: lambda h: torch.fmod(h, 0.3),
    "floor_divide": lambda r: lambda h: torch.div(h, 0.3, rounding_mode="floor"),
    "softsign": lambda r: F.softsign,
    "tanhshrink": lambda r: F.tanhshrink,
    "softshrink(lambd)": lambda r: functools.partial(F.softshrink, lambd=u(r, 0.1, 0.6)),
    "hardshrink(lambd)": lambda r: functools.partial(F.hardshrink, lambd=u(r, 0.1, 0.6)),
    "threshold": lambda r: lambda h: F.threshold(h, 0.1, -0.4),
    "where": lambda r: lambda h: torch.where(h > 0.1, h, -2 * h),
    "sign": lambda r: torch.sign,
    "comparison": lambda r: lambda h: (h > 0.2).float() * h,
    "max with a constant": lambda r: lambda h: torch.maximum(h, torch.linspace(-1, 1, WIDTH)),
    "min of two": lambda r: lambda h: torch.minimum(h, h.flip(1)),
    "max.dim": lambda r: lambda h: h - h.max(1, keepdim=True).values,
    "max.dim with its place": lambda r: lambda h: h + h.max(1, keepdim=True).indices,
    "amax, amin": lambda r: lambda h: h - h.amin(1, keepdim=True) + h.amax(1, keepdim=True),
    "sort": lambda r: lambda h: h.sort(1).values,
    "topk": lambda r: lambda h: F.pad(h.topk(3, 1).values, (0, WIDTH - 3)),
    "median": lambda r: lambda h: h - h.median(1, keepdim=True).values,
    "cumsum": lambda r: lambda h: h.cumsum(1) / 3,
    "argmax one-hot": lambda r: lambda h: F.one_hot(h.argmax(1), WIDTH).float() + h,
    "logsumexp": lambda r: lambda h: h - h.logsumexp(1, keepdim=True),
    "softmax": lambda r: lambda h: torch.softmax(3 * h, 1) * 3,
    "log_softmax": lambda r: lambda h: torch.log_softmax(h, 1),
    "softmin": lambda r: lambda h: F.softmin(h, 1) * 3,
    "layer_norm": lambda r: lambda h: F.layer_norm(h, (WIDTH,)),
    "layer_norm(weights, eps)": lambda r: lambda h: F.layer_norm(
        h, (WIDTH,), torch.linspace(-1, 2, WIDTH), torch.linspace(0, 1, WIDTH), 1e-2),
    "group_norm": lambda r: (lambda g: lambda h: F.group_norm(h, g))(r.choice([1, 2, 3, 4])),
    "rms_norm": lambda r: (lambda e: lambda h: F.rms_norm(h, (WIDTH,), eps=e))(
        r.choice([None, 1e-3])),
    "instance_norm": lambda r: lambda h: F.instance_norm(h.view(-1, 3, 4)).flatten(1),
    "normalize": lambda r: lambda h: F.normalize(h, dim=1),
    "vector_norm": lambda r: lambda h: h / (1 + torch.linalg.vector_norm(h, dim=1, keepdim=True)),
    "vector_norm(1)": lambda r: lambda h: h / (1 + torch.linalg.vector_norm(h, 1, 1, True)),
    "var(correction)": lambda r: (lambda c: lambda h: h + h.var(1, correction=c, keepdim=True))(
        r.choice([0, 1])),
    "std": lambda r: lambda h: h / (0.2 + h.std(1, keepdim=True)),
    "mean, sum": lambda r: lambda h: h - h.mean(1, keepdim=True) + h.sum(1, keepdim=True) / 20,
    "sum in double": lambda r: lambda h: h + h.sum(1, keepdim=True, dtype=torch.float64).float(),
    "cat, roll, flip": lambda r: (lambda n: lambda h: torch.relu(_swap(h, n)))(r.randint(1, 5)),
    "split, stack": lambda r: lambda h: torch.stack(
        h.split(3, 1)).transpose(0, 1).flatten(1).relu(),
    "index": lambda r: lambda h: torch.relu(h[:, torch.arange(WIDTH - 1, -1, -1)]),
    "index by values": lambda r: lambda h: h.gather(1, h.argsort(1)),
    "slices assigned": lambda r: lambda h: _assigned(h),
    "add(alpha)": lambda r: (lambda s: lambda h: torch.add(h, torch.tanh(h), alpha=s).relu())(
        u(r, -4, 4)),
    "sub(alpha)": lambda r: (lambda s: lambda h: torch.sub(h, torch.tanh(h), alpha=s).relu())(
        u(r, -4, 4)),
    "rsub(alpha)": lambda r: lambda h: torch.rsub(h, 0.3, alpha=-2.0).relu(),
    "add_ in place": lambda r: lambda h: h.add_(h.relu(), alpha=-2.0),
    "mul_ in place": lambda r: lambda h: h.mul_(h.sigmoid()),
    "div by a constant": lambda r: (lambda s: lambda h: torch.relu(h / s))(u(r, -2, -0.2)),
    "div of two": lambda r: lambda h: h / (0.4 + h.flip(1).abs()),
    "div of two through 0": lambda r: lambda h: torch.tanh(h / h.flip(1)),
    "product of two": lambda r: lambda h: h * torch.tanh(h.flip(1)),
    "gate": lambda r: lambda h: F.glu(torch.cat([h, h.flip(1)], 1), 1),
    "itself twice": lambda r: lambda h: h * h - h * 0.5,
    "lerp": lambda r: lambda h: torch.lerp(h, h.relu(), 1.7),
    "addcmul": lambda r: lambda h: torch.addcmul(h, h, h.flip(1), value=-0.4),
    "hypot, atan": lambda r: lambda h: torch.hypot(h, h.flip(1)) + torch.atan(h),
    "matmul of two": lambda r: lambda h: torch.bmm(
        h.view(-1, 3, 4), h.view(-1, 3, 4).transpose(1, 2)).flatten(1).repeat(1, 2)[:, :WIDTH],
    "einsum": lambda r: lambda h: torch.einsum("bij,kj->bik", h.view(-1, 3, 4), _FIXED).flatten(1),
    "attention": lambda r: lambda h: F.scaled_dot_product_attention(*[h.view(-1, 3, 4)] * 3,
                                                                    scale=2.0).flatten(1),
    "attention (causal)": lambda r: lambda h: F.scaled_dot_product_attention(
        *[h.view(-1, 3, 4)] * 3, is_causal=True).flatten(1),
    "int32 cast": lambda r: lambda h: (h * 4).to(torch.int32).to(h.dtype) / 4,
    "int64 cast": lambda r: lambda h: (h * 4).long().to(h.dtype) / 4,
    "int8 that overflows": lambda r: lambda h: (h * 100).to(torch.int8).to(h.dtype) / 100,
    "int64, then int8": lambda r: lambda h: (h * 150).long().to(torch.int8).to(h.dtype) / 150,
    "int32, then uint8": lambda r: lambda h: (h * 150).int().to(torch.uint8).to(h.dtype) / 150,
    "whole arithmetic": lambda r: lambda h: ((h * 9).int() * 3 // 2).to(h.dtype) / 9,
    "bool cast": lambda r: lambda h: (h * 2).bool().to(h.dtype) + h,
    "int, then bool": lambda r: lambda h: (h * 2).int().bool().to(h.dtype) + h,
    "float16 cast": lambda r: lambda h: h.half().to(h.dtype).relu(),
    "float16 that overflows": lambda r: lambda h: torch.nan_to_num(
        (h * 1e5).half().to(h.dtype) / 1e5, posinf=0, neginf=0),
    "bfloat16 cast": lambda r: lambda h: h.bfloat16().to(h.dtype).relu(),
    "float64 inside": lambda r: lambda h: torch.relu(h.double()).float(),
    "view as another type": lambda r: lambda h: h.view(torch.int32).view(torch.float32).relu(),
    "cancelling 1e6": lambda r: (lambda s: lambda h: ((torch.relu(h) + s) - s))(10 ** u(r, 4, 7)),
    "detach": lambda r: lambda h: h.detach().relu(),
    "nan_to_num": lambda r: lambda h: torch.nan_to_num(h.relu()),
    "quantised by fake_quantize": lambda r: lambda h: torch.fake_quantize_per_tensor_affine(
        h, 0.1, 0, -20, 20),
    "numpy inside": lambda r: lambda h: torch.from_numpy(h.detach().numpy()).relu(),
    "dropout that stays on": lambda r: lambda h: F.dropout(h, 0.3, training=True),
    "noise": lambda r: lambda h: h + 0.3 * torch.randn_like(h),
    "mean of the batch": lambda r: lambda h: torch.relu(h - h.mean(0)),
    "branch on values": lambda r: lambda h: h.relu() if float(h.sum()) > 0 else h.tanh(),
    "branch on the batch": lambda r: lambda h: h.relu() if len(h) < 30 else h.tanh(),
    "order by the batch": lambda r: lambda h: h if len(h) < 30 else h.flip(1),
    "branch within batches": lambda r: lambda h: h.tanh() if 20 < len(h) < 900 else h.relu(),
}  # fmt: skip
_FIXED = torch.linspace(-1, 1, 16).reshape(4, 4)


def _assigned(h: Tensor) -> Tensor:
    h = h.clone()
    h[:, 2:5] = h[:, :3].relu()
    h[:, 0] *= -1
    return h


def _residual(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    out: Tensor = m.c(m.r(h) - 2 * h + m.b(torch.relu(h)))
    return out


def _behind_clone(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    kept = h.clone()
    out: Tensor = m.c(m.r(h) - 2 * kept + m.b(kept))
    return out


def _augmented(m: Any, x: Tensor) -> Tensor:
    h = kept = m.a(x)
    h += torch.relu(h)
    out: Tensor = m.c(torch.relu(h) - 2 * kept)
    return out


def _through_view(m: Any, x: Tensor) -> Tensor:
    h = m.a(x)
    h.view(-1, 3, 4)[:, 1].relu_()
    out: Tensor = m.c(h - 0.5 * m.b(h))
    return out


def _addmm(r: Draw) -> nn.Module:
    beta, alpha = u(r, -2, 2), u(r, -2, 2)
    return Layers(lambda m, x: m.c(torch.addmm(m.b.bias, m.a(x).relu(), m.b.weight.T, beta=beta,
                                               alpha=alpha).relu()))  # fmt: skip


def _sequence(*parts: Callable[[], nn.Module]) -> nn.Module:
    return nn.Sequential(*(p() for p in parts))


def _norm(r: Draw) -> nn.Module:
    net = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(True),
                        nn.Linear(WIDTH, CLASSES))  # fmt: skip
    norm: Any = net[1]
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.01, 2)
        norm.weight.normal_()
    return net


def _hooked(r: Draw) -> nn.Module:
    net, kind = Written(), r.randrange(4)
    if kind == 0:
        net.a.register_forward_hook(lambda m, args, out: -2 * out)
    elif kind == 1:
        net.b.register_forward_pre_hook(lambda m, args: (args[0].abs() + 1,))
    elif kind == 2:
        net.b.forward = lambda h: -F.linear(h, net.b.weight, net.b.bias).abs()  # type: ignore[method-assign]
    else:
        net.register_forward_hook(lambda m, args, out: out.flip(1) * 2)
    return net


def _global_hook(r: Draw) -> nn.Module:
    class Turned(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return -super().forward(x).abs()

    net = Written()
    net.b = Turned(WIDTH, WIDTH)
    return net


class _Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor) -> Tensor:  # type: ignore[override]
        return h.clamp(-0.3, 0.6)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad


class _Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Written()
        self.register_buffer("asked", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.asked += 1
        out: Tensor = self.net(x) * torch.cos(self.asked)
        return out


def _autocast(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return m.c(m.b(m.a(x).relu()).relu()).float()


def _attending(r: Draw) -> nn.Module:
    heads = r.choice([1, 2])
    attention = nn.MultiheadAttention(4, heads, batch_first=True)

    def way(m: Any, x: Tensor) -> Tensor:
        tokens = m.a(x).view(-1, 3, 4)
        out: Tensor = m.c(m.t(tokens, tokens, tokens, need_weights=False)[0].flatten(1))
        return out

    return Layers(way, t=attention)


def _encoder(r: Draw) -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, r.choice(["relu", "gelu"]), batch_first=True,
                                       norm_first=r.random() < 0.5)  # fmt: skip
    return Layers(lambda m, x: m.c(m.t(m.a(x).view(-1, 3, 4)).flatten(1)), t=layer)


def _recurrent(kind: Any) -> Callable[[Draw], nn.Module]:
    return lambda r: Layers(lambda m, x: m.c(m.t(m.a(x).view(-1, 3, 4))[0].flatten(1)[:, :WIDTH]),
                            t=kind(4, 4, batch_first=True))  # fmt: skip


def _weighted(r: Draw) -> nn.Module:
    net = Written()
    kind = r.choice(
        [nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm]
    )
    kind(net.b)
    return net


def _scripted(r: Draw) -> nn.Module:
    net = _sequence(lambda: nn.Linear(FEATURES, WIDTH), nn.ReLU, lambda: nn.Linear(WIDTH, CLASSES))
    if r.random() < 0.5:
        return torch.jit.script(net.eval())  # type: ignore[no-any-return]
    return torch.jit.trace(net.eval(), torch.rand(2, FEATURES))  # type: ignore[no-any-return]


def _half(kind: torch.dtype) -> Callable[[Draw], nn.Module]:
    return lambda r: Written().to(kind)


def _large(r: Draw) -> nn.Module:
    """Weights of 1e5 that cancel."""
    size = 10 ** u(r, 3, 6)
    eye = torch.eye(WIDTH)
    return Written(lambda h: torch.relu(F.linear(h, eye * size) + F.linear(h, eye * (1 - size))))


def _outputs(r: Draw) -> nn.Module:
    kind = r.randrange(5)
    if kind == 0:
        return Around(behind=lambda z: torch.softmax(z, 1))
    if kind == 1:
        return Around(behind=lambda z: torch.log_softmax(z, 1))
    if kind == 2:
        return Around(behind=lambda z: torch.softmax(torch.softmax(z, 1), 1))
    if kind == 3:
        return Around(behind=lambda z: -z.flip(1) * 3 + 1)
    return Around(behind=lambda z: z / 1e-3)


def _deep(r: Draw) -> nn.Module:
    """Operations of the list one after another, drawn."""
    names = r.sample([n for n in BENDS if n not in _SLOW], 4)
    made = [BENDS[n](r) for n in names]

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = nn.ModuleList([nn.Linear(FEATURES, WIDTH),
                                       *(nn.Linear(WIDTH, WIDTH) for _ in made[1:])])  # fmt: skip
            self.last = nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            for layer, bend in zip(self.each, made, strict=True):
                x = bend(layer(x))
            out: Tensor = self.last(x)
            return out

    return Deep()


_SLOW = ("dropout that stays on", "noise", "branch on values")
PICTURE = (2, 6, 6)


class Pictures(nn.Module):
    """A convolution, what stands behind it, a linear layer."""

    def __init__(self, first: nn.Module, behind: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.behind = first, behind
        with torch.no_grad():
            size = behind(first(torch.zeros(2, *PICTURE))).flatten(1).shape[1]
        self.last = nn.Linear(size, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.behind(self.first(x)).flatten(1))
        return out


def _conv(r: Draw, **given: Any) -> nn.Module:
    options: dict[str, Any] = {
        "stride": r.choice([1, 1, 2]), "padding": r.choice([0, 1, 2]),
        "dilation": r.choice([1, 1, 2]),
        "groups": r.choice([1, 2]), "bias": r.random() < 0.7, "padding_mode": r.choice(
            ["zeros", "zeros", "reflect", "replicate", "circular"]),
    }  # fmt: skip
    options.update(given)
    if options["padding_mode"] != "zeros":
        options["padding"] = min(int(options["padding"]), 2)
    return nn.Conv2d(2, 4, r.choice([2, 3]), **options)


def _relu_of(h: Tensor) -> Tensor:
    return F.relu(h)


PICTURES: dict[str, Callable[[Draw], nn.Module]] = {
    "conv2d": lambda r: Pictures(_conv(r), _relu_of),
    "conv2d (same)": lambda r: Pictures(_conv(r, stride=1, padding="same", padding_mode="zeros"),
                                        _relu_of),
    "conv_transpose2d": lambda r: Pictures(
        nn.ConvTranspose2d(2, 4, 3, r.choice([1, 2]), r.choice([0, 1]), groups=r.choice([1, 2])),
        _relu_of),
    "conv1d": lambda r: Pictures(nn.Flatten(2), (lambda c: lambda h: F.relu(c(h)))(
        nn.Conv1d(2, 4, 3, r.choice([1, 2]), dilation=r.choice([1, 2])))),
    "depthwise": lambda r: Pictures(nn.Conv2d(2, 4, 3, padding=1, groups=2), F.gelu),
    "max_pool2d": lambda r: (lambda k, c, d: Pictures(_conv(r, stride=1, padding=1, dilation=1),
        lambda h: F.max_pool2d(h, k, r_stride(k), k // 2, d, ceil_mode=c)))(
        r.choice([2, 3]), r.random() < 0.5, r.choice([1, 2])),
    "avg_pool2d": lambda r: (lambda c, i, o: Pictures(_conv(r, stride=1), lambda h: F.avg_pool2d(
        h.relu(), 2, 2, 1, c, i, o)))(r.random() < 0.5, r.random() < 0.5, r.choice([None, 3])),
    "adaptive_avg_pool2d": lambda r: Pictures(_conv(r, stride=1), lambda h: F.adaptive_avg_pool2d(
        h.relu(), (2, 3))),
    "adaptive_max_pool2d": lambda r: Pictures(_conv(r, stride=1), lambda h: F.adaptive_max_pool2d(
        h, (2, 3))),
    "lp_pool2d": lambda r: Pictures(_conv(r, stride=1, padding=1, dilation=1),
                                    lambda h: F.lp_pool2d(h, 2, 2)),
    "upsampling": lambda r: (lambda m: Pictures(_conv(r), lambda h: F.interpolate(
        h.relu(), scale_factor=2, mode=m)))(r.choice(["nearest", "bilinear", "bicubic"])),
    "pixel_shuffle": lambda r: Pictures(_conv(r), lambda h: F.pixel_shuffle(h.relu(), 2)),
    "pad": lambda r: (lambda m: Pictures(_conv(r, stride=1, dilation=1), lambda h: F.pad(
        h.relu(), (1, 1, 1, 0), m)))(r.choice(["reflect", "replicate", "circular"])),
    "pad(value)": lambda r: Pictures(_conv(r), lambda h: F.pad(h.relu(), (1, 0), value=0.7)),
    "BatchNorm2d": lambda r: Pictures(_conv(r), (lambda n: lambda h: n(h).relu())(_moved(
        nn.BatchNorm2d(4)))),
    "GroupNorm": lambda r: Pictures(_conv(r), (lambda n: lambda h: n(h).relu())(
        nn.GroupNorm(2, 4))),
    "unfold": lambda r: Pictures(nn.Identity(), lambda h: F.unfold(h, 3).relu()),
    "residual block": lambda r: Pictures(nn.Conv2d(2, 4, 3, padding=1), (lambda c: lambda h: F.relu(
        h + c(F.relu(h, inplace=False))))(nn.Conv2d(4, 4, 3, padding=1))),
    "residual block in place": lambda r: Pictures(nn.Conv2d(2, 4, 3, padding=1), (
        lambda c: lambda h: F.relu(h + c(F.relu(h, inplace=True))))(nn.Conv2d(4, 4, 3, padding=1))),
}  # fmt: skip


def r_stride(k: int) -> int:
    return 2 if k == 2 else 1


def _moved(norm: Any) -> Any:
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.05, 2)
    return norm.eval()


STRUCTURES: dict[str, Callable[[Draw], Made]] = {
    "in-place ReLU of a residual": layers(_residual, r=lambda: nn.ReLU(inplace=True)),
    "in-place ReLU behind a clone": layers(_behind_clone, r=lambda: nn.ReLU(inplace=True)),
    "+= of a value used again": layers(_augmented),
    "in place through a view": layers(_through_view),
    "addmm(beta, alpha)": shaped(_addmm),
    "nn.Bilinear": shaped(lambda r: Layers(lambda m, x: m.c(m.t(m.a(x), m.a(x).relu())),
                                           t=nn.Bilinear(WIDTH, WIDTH, WIDTH))),
    "BatchNorm1d": shaped(_norm),
    "PReLU": shaped(lambda r: Written(nn.PReLU(r.choice([1, WIDTH]), u(r, -1, 2)))),
    "hook or replaced forward": shaped(_hooked),
    "subclass of a layer": shaped(_global_hook),
    "autograd.Function": shaped(lambda r: Written(_Cut.apply)),
    "counts its calls": shaped(lambda r: _Counts()),
    "autocast": layers(_autocast),
    "float64 network": shaped(_half(torch.float64)),
    "float16 network": shaped(_half(torch.float16)),
    "bfloat16 network": shaped(_half(torch.bfloat16)),
    "MultiheadAttention": shaped(_attending),
    "TransformerEncoderLayer": shaped(_encoder),
    "LSTM": shaped(_recurrent(nn.LSTM)),
    "GRU": shaped(_recurrent(nn.GRU)),
    "weight or spectral norm": shaped(_weighted),
    "scripted or traced": shaped(_scripted),
    "weights that cancel": shaped(_large),
    "what stands behind": shaped(_outputs),
    "one score": shaped(lambda r: Written(out=1)),
    "one probability": shaped(lambda r: Around(behind=torch.sigmoid, net=Written(out=1))),
    "rounded inputs": shaped(lambda r: Around(before=lambda x: (x * 8).int().to(x.dtype) / 8)),
    "standardised inputs": shaped(lambda r: Around(before=lambda x: (
        x - torch.full((4,), 0.4).to(x)) / torch.full((4,), 0.3).to(x))),
    "dropout that is off": shaped(lambda r: Written(nn.Dropout(0.5))),
    "four operations, drawn": shaped(_deep),
}  # fmt: skip

CONSTRUCTS: dict[str, Callable[[Draw], Made]] = {
    **{name: bends(make) for name, make in BENDS.items()},
    **STRUCTURES,
    **{name: shaped(make, *PICTURE) for name, make in PICTURES.items()},
}
