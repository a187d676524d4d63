"""A proof about a network or a linear model again: its bound, from the weights, in plain numpy.

A certificate (numpy's .npz) says where the row's region is cut (at ReLUs, or a feature's range in
halves), and for each part which slopes and multipliers to use. It claims no bound: the bound is computed here. From the first layer to the last
the inputs of every ReLU are bounded by carrying weights backwards (CROWN, Zhang et al. 2018):

    affine  x W' + b     w -> w W,   constant += w b + |w| E     E: the model's own rounding
    ReLU in [l, h]       w -> max(w, 0) h / (h - l) + min(w, 0) alpha,  constant -= max(w, 0) h l / (h - l)
    a cut  s z >= 0      w -> w + s beta,  beta >= 0

and what is left, a linear function of the input, is maximised over the box; with an Lp ball
sum a |x - x0|^p <= b also over box and ball, by weak duality: any multiplier gives an upper bound.

Any slopes in [0, 1] and any multipliers >= 0 are valid, so nobody who writes a certificate can make
a bound that does not hold; a certificate that proves nothing is refused. The cuts must be a tree:
both sides of every cut are there.

What a reader would get wrong: the layers are read from the module, by exact types, and not from the
program that the proof was about. A network with other layers is beyond this checker, and said so.
"""  # noqa: E501

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from durometer.model.exact_types import changed_inside, linear_classifiers, replaced_method
from durometer.verification.assumptions import Space
from durometer.verification.domain import Refused

Floats = NDArray[np.float64]
_UNITS = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
_OWN = 1e-11  # of every sum here, in double precision
_LARGEST = 4 * 10**7  # numbers of a layer's matrix
_SINGLE = 2.0**-23  # what rounding an input to single precision changes


class Unreadable(Exception):
    """The checker has no rule for this model; the reason."""


@dataclass(frozen=True, eq=False)
class Layer:
    """x W' + b, or a ReLU (`slope` below 0, `weight` None)."""

    weight: Floats | None
    bias: Floats
    slope: float = 0.0
    error: float = 0.0  # of the model's rounding, of |W| |x| + |b|


@dataclass(frozen=True, eq=False)
class Domain:
    """A box, and sums a |x - x0|^p <= b that hold in it: (features, rates, p, b)."""

    x0: Floats
    low: Floats
    high: Floats
    balls: tuple[tuple[NDArray[np.int64], Floats, int, float], ...] = ()
    whole: tuple[Floats, Floats] | None = None  # the box that this is a part of: the balls' own
    moved: float = 0.0  # what rounding of the inputs adds to a ball, as a share of each number

    def top(self, w: Floats) -> Floats:
        """(m,): the most that weights (m, D) reach."""
        best: Floats = (np.maximum(w, 0) * self.high + np.minimum(w, 0) * self.low).sum(1)
        far = np.maximum(*(np.abs(side) for side in self.whole or (self.low, self.high)))
        rounded = np.abs(w) @ (self.moved * far)
        for features, rate, p, most in self.balls:
            best = np.minimum(best, self._with(w, features, rate, p, most) + rounded)
        return best

    def _with(
        self, w: Floats, features: NDArray[np.int64], rate: Floats, p: int, most: float
    ) -> Floats:
        """w x <= w x - k (sum a |x - x0|^p - b) for every k >= 0; the best k by thirds."""
        inside = np.zeros(len(self.x0), bool)
        inside[features] = True
        lowest, highest = self.whole or (self.low, self.high)
        x0, low, high = self.x0[features], lowest[features], highest[features]
        rest = w[:, ~inside]
        base = (np.maximum(rest, 0) * self.high[~inside]).sum(1)
        base += (np.minimum(rest, 0) * self.low[~inside]).sum(1)
        v = w[:, features]
        base = base + v @ x0

        def bound(k: Floats) -> Floats:
            many = k[:, None]
            if p == 1:  # at x0 or at an end
                ends = [v * (e - x0) - many * rate * np.abs(e - x0) for e in (low, high)]
                gain = np.maximum(np.maximum(*ends), 0.0)
            else:
                d = np.clip(v / (2 * many * rate), low - x0, high - x0)
                gain = v * d - many * rate * d * d
            return np.asarray(gain.sum(1) + k * most)

        # Without the box the best multiplier is this; with it, a smaller one. Convex between.
        top = np.abs(v / rate).max(1, initial=0.0)
        if p == 2:
            top = np.sqrt((v * v / rate).sum(1) / max(4 * most, 1e-300))
        start, end = 1e-9 * top + 1e-300, top + 1e-300
        best = np.minimum(bound(start), bound(end))
        for _ in range(60):
            third = (end - start) / 3
            one, two = bound(start + third), bound(end - third)
            best = np.minimum(best, np.minimum(one, two))
            left = one <= two
            start, end = np.where(left, start, start + third), np.where(left, end - third, end)
        return np.asarray(base + best)


def domain(space: Space, single: bool) -> Domain:
    """What the space says of the inputs; `single`: the model rounds them to single precision."""
    row = space.row
    if not (np.isfinite(row.low).all() and np.isfinite(row.high).all()):
        raise Unreadable("a feature has no bounds")
    wide = _SINGLE if single else 0.0
    balls = []
    for s in space.formulas:
        if s[0] == "sum" and s[1] and {t[1] for t in s[1]} in ({2}, {3}):
            features = np.array([t[0] for t in s[1]])
            rate = np.array([t[2] for t in s[1]])
            balls.append((features, rate, int(s[1][0][1]) - 1, float(s[2]) * (1 + 1e-5)))
    return Domain(
        row.x0, row.low - wide * np.abs(row.low), row.high + wide * np.abs(row.high), tuple(balls),
        moved=wide,
    )  # fmt: skip


def layers_of(model: Any, shape: tuple[int, ...]) -> tuple[list[Layer], bool]:
    """The layers of a classifier, and whether it computes in single precision."""
    if model.module is None:
        return [_estimator(model.source)], False
    if model.answers != "logits":
        raise Unreadable(f"the network answers {model.answers}")
    if changed := changed_inside(model.module):
        raise Unreadable(changed)
    found: list[Layer] = []
    units = {p.dtype for p in model.module.parameters()}
    if len(units) != 1 or not units <= set(_UNITS):
        raise Unreadable("the weights are not all single or all double precision")
    unit = _UNITS[units.pop()]
    _collect(model.module, shape, unit, found)
    return found, unit > 1e-9


def _collect(
    part: nn.Module, shape: tuple[int, ...], unit: float, found: list[Layer]
) -> tuple[int, ...]:
    """Add the layers of a part; the shape of its output."""
    size, kind = int(np.prod(shape)), type(part)
    if part.training:
        raise Unreadable("the network is in training mode")
    if isinstance(part, nn.Sequential) and kind is nn.Sequential:
        for inner in part:
            shape = _collect(inner, shape, unit, found)
        return shape
    if kind in (nn.Identity, nn.Dropout, nn.Dropout2d):
        return shape
    if (
        isinstance(part, nn.Flatten)
        and kind is nn.Flatten
        and (part.start_dim, part.end_dim) == (1, -1)
    ):
        return (size,)
    if isinstance(part, nn.ReLU | nn.LeakyReLU) and kind in (nn.ReLU, nn.LeakyReLU):
        slope = float(part.negative_slope) if isinstance(part, nn.LeakyReLU) else 0.0
        if not 0 <= slope <= 1:
            raise Unreadable(f"LeakyReLU({slope})")
        found.append(Layer(None, np.zeros(size), slope, 4 * unit * slope))
        return shape
    if isinstance(part, nn.Linear) and kind is nn.Linear and len(shape) == 1:
        weight = _numpy(part.weight)
        found.append(_affine(weight, part.bias, 1, weight.shape[1] + 2, unit))
        return (len(weight),)
    if isinstance(part, nn.Conv2d) and kind is nn.Conv2d and len(shape) == 3:
        matrix, after = _convolution(part, shape)
        spots = int(np.prod(after[1:]))
        found.append(_affine(matrix, part.bias, spots, part.weight[0].numel() + 2, unit))
        return after
    if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d) and kind in (
        nn.BatchNorm1d,
        nn.BatchNorm2d,
    ):
        if part.running_mean is None or part.running_var is None:
            raise Unreadable("a BatchNorm without running statistics")
        mean, var = _numpy(part.running_mean), _numpy(part.running_var)
        gain = np.ones(len(mean)) if part.weight is None else _numpy(part.weight)
        scale = gain / np.sqrt(var + part.eps)
        shift = -mean * scale + (0 if part.bias is None else _numpy(part.bias))
        spots = size // len(mean)
        if size * size > _LARGEST:
            raise Unreadable("a layer is too large")
        error = 12 * unit * (1 + np.abs(mean * scale) / np.maximum(np.abs(shift), 1e-300)).max()
        matrix = np.diag(np.repeat(scale, spots))
        found.append(Layer(matrix, np.repeat(shift, spots), 0.0, float(error)))
        return shape
    raise Unreadable(f"a layer {kind.__name__}")


def _numpy(t: Any) -> Floats:
    return np.asarray(t.detach().double().cpu().numpy())


def _affine(weight: Floats, bias: Any, spots: int, terms: int, unit: float) -> Layer:
    added = np.zeros(len(weight)) if bias is None else np.repeat(_numpy(bias), spots)
    share = terms * unit
    if share >= 0.5:
        raise Unreadable("a layer is too wide for its precision")
    return Layer(weight, added, 0.0, share / (1 - share))


def _convolution(part: nn.Conv2d, shape: tuple[int, ...]) -> tuple[Floats, tuple[int, ...]]:
    """The matrix of a convolution, number by number, and the shape of what it gives."""
    if part.padding_mode != "zeros" or isinstance(part.padding, str):
        raise Unreadable(f"a convolution with padding {part.padding!r} of {part.padding_mode}")
    kernel = _numpy(part.weight)
    out, each, high, wide = kernel.shape
    pads, strides, dilations = part.padding, part.stride, part.dilation
    after = tuple(
        (shape[1 + d] + 2 * int(pads[d]) - dilations[d] * (kernel.shape[2 + d] - 1) - 1)
        // strides[d] + 1 for d in (0, 1)
    )  # fmt: skip
    if out * after[0] * after[1] * int(np.prod(shape)) > _LARGEST:
        raise Unreadable("a convolution is too large")
    matrix = np.zeros((out, *after, *shape))
    group = out // part.groups
    rows, columns = np.meshgrid(*(np.arange(a) for a in after), indexing="ij")
    for u in range(high):
        for v in range(wide):
            i = rows * strides[0] - int(pads[0]) + u * dilations[0]
            j = columns * strides[1] - int(pads[1]) + v * dilations[1]
            ok = (i >= 0) & (i < shape[1]) & (j >= 0) & (j < shape[2])
            for o in range(out):
                for c in range(each):
                    at = o // group * each + c
                    matrix[o, rows[ok], columns[ok], at, i[ok], j[ok]] += kernel[o, c, u, v]
    return matrix.reshape(out * after[0] * after[1], -1), (out, *after)


def _estimator(source: Any) -> Layer:
    """A linear classifier of scikit-learn, alone."""
    if type(source) not in linear_classifiers() or replaced_method(source) is not None:
        raise Unreadable(f"a model of type {type(source).__name__}")
    weight = np.atleast_2d(np.asarray(source.coef_, np.float64))
    bias = np.atleast_1d(np.asarray(source.intercept_, np.float64)) + np.zeros(len(weight))
    return Layer(weight, bias, 0.0, 4 * (weight.shape[1] + 4) * 2.0**-53)


def check(kept: bytes, digest: str, layers: list[Layer], over: Domain, goal: NDArray[Any],
          order: Any = None) -> None:  # fmt: skip
    """Raise `Refused` unless the certificate proves that no class of the goal is ever reached."""
    cuts, alpha, beta = _numbers(kept, digest)
    hinges = [k for k, layer in enumerate(layers) if layer.weight is None]
    sizes = [len(layers[k].bias) for k in hinges]
    last = len(layers[-1].bias)
    matrix = np.eye(last) if last > 1 else np.array([[-0.5], [0.5]])
    matrix = matrix if order is None else matrix[list(order)]
    wanted, others = np.flatnonzero(goal), np.flatnonzero(~np.asarray(goal))
    leads = np.concatenate([matrix[[t]] - matrix[others] for t in wanted])
    parts = [({k: np.zeros(n, np.int8) for k, n in zip(hinges, sizes, strict=True)}, over)]
    used = 0
    for line in cuts.reshape(-1, 2):
        if not parts:
            raise Refused("it has more parts than cuts")
        signs, over = parts.pop()
        if line[0] == -3:  # a feature's range in halves
            f = int(line[1])
            if not 0 <= f < len(over.low):
                raise Refused(f"cut of feature {f}")
            middle, only = (over.low + over.high) / 2, np.arange(len(over.low)) == f
            part = replace(over, whole=over.whole or (over.low, over.high))
            parts.append((signs, replace(part, high=np.where(only, middle, over.high))))
            parts.append((signs, replace(part, low=np.where(only, middle, over.low))))
            continue
        if line[0] < 0:  # a part that a bound closes
            numbers: dict[int, tuple[Floats, Floats]] = {}
            if line[0] == -2:
                if used + sum(sizes) > min(len(alpha), len(beta)):
                    raise Refused("slopes are missing")
                for k, n in zip(hinges, sizes, strict=True):
                    numbers[k] = np.clip(alpha[used : used + n], 0, 1), beta[used : used + n]
                    used += n
            low = _leads(layers, over, signs, numbers, leads)
            if low is not None and not (low.reshape(len(wanted), -1) < 0).any(1).all():
                raise Refused(f"a part is not closed: a lead of {low.max():.3g} is possible")
            continue
        k, at = int(line[0]), int(line[1])
        if not (0 <= k < len(hinges) and 0 <= at < sizes[k]) or signs[hinges[k]][at]:
            raise Refused(f"cut {k}, {at}")
        for side in (-1, 1):
            parts.append(({j: s.copy() for j, s in signs.items()}, over))
            parts[-1][0][hinges[k]][at] = side
    if parts:
        raise Refused("parts are missing")


def _numbers(kept: bytes, digest: str) -> tuple[Floats, Floats, Floats]:
    """Cuts, slopes and multipliers, as far as they can be such."""
    try:
        with np.load(io.BytesIO(kept), allow_pickle=False) as file:
            cuts, alpha, beta = (np.asarray(file[k], np.float64) for k in ("cuts", "alpha", "beta"))
            made_for = str(file["digest"])
    except (KeyError, ValueError, OSError, EOFError, BadZipFile) as error:
        raise Refused(f"it cannot be read ({error})") from error
    if made_for != digest:
        raise Refused("it is of another model")
    if not (np.isfinite(alpha).all() and np.isfinite(beta).all() and (beta >= 0).all()):
        raise Refused("a slope or a multiplier is none")
    if cuts.size % 2:
        raise Refused("half a cut")
    return cuts, alpha, beta


def _leads(
    layers: list[Layer], over: Domain, signs: dict[int, Any],
    numbers: dict[int, tuple[Floats, Floats]], leads: Floats,
) -> Floats | None:  # fmt: skip
    """(m,): upper bounds of the leads; None: nothing is in this part."""
    low, high = over.low, over.high
    reach = np.maximum(np.abs(low), np.abs(high))
    errors: dict[int, Floats] = {}
    lines: dict[int, tuple[Floats, Floats, Floats]] = {}  # slope above, its offset, slope below

    def back(w: Floats, start: int, free: bool = False) -> Floats:
        const = np.zeros(len(w))
        for j in range(start - 1, -1, -1):
            layer = layers[j]
            const += np.abs(w) @ errors[j]
            if layer.weight is not None:
                const += w @ layer.bias
                w = w @ layer.weight
                continue
            above, offset, below = lines[j]
            up, down = np.maximum(w, 0), np.minimum(w, 0)
            const += up @ offset
            if free and j in numbers:
                alpha, beta = numbers[j]
                open_ = offset > 0
                below = np.where(open_, np.maximum(alpha, layers[j].slope), below)
                w = up * above + down * below + beta * signs[j]
            else:
                w = up * above + down * below
        own = _OWN * (np.abs(w) @ reach + np.abs(const))
        return np.asarray(over.top(w) + const + own)

    for k, layer in enumerate(layers):
        if layer.weight is not None:
            middle, radius = (low + high) / 2, (high - low) / 2
            size = np.abs(layer.weight) @ np.maximum(np.abs(low), np.abs(high)) + np.abs(layer.bias)
            errors[k] = (layer.error + _OWN) * size + 1e-37
            centre = layer.weight @ middle + layer.bias
            spread = np.abs(layer.weight) @ radius + errors[k]
            low, high = centre - spread, centre + spread
            continue
        need = np.flatnonzero((low < 0) & (high > 0))
        if len(need):
            one = np.zeros((len(need), len(low)))
            one[np.arange(len(need)), need] = 1.0
            low, high = low.copy(), high.copy()
            high[need] = np.minimum(high[need], back(one, k))
            low[need] = np.maximum(low[need], -back(-one, k))
        low = np.where(signs[k] > 0, np.maximum(low, 0), low)
        high = np.where(signs[k] < 0, np.minimum(high, 0), high)
        if (low > high + 1e-9 * (1 + np.abs(low))).any():
            return None
        across = (low < 0) & (high > 0)
        room = np.where(across, high - low, 1.0)
        chord = np.where(across, (high - layer.slope * low) / room, 1.0)
        offset = np.where(across, (high - chord * high) * (1 + 1e-12) + 1e-14 * room, 0.0)
        flat = np.where(high <= 0, layer.slope, 1.0)
        below = np.where(across, np.where(high > -low, 1.0, layer.slope), flat)
        lines[k] = np.where(across, chord, flat), offset, below
        errors[k] = layer.error * np.maximum(np.abs(low), np.abs(high))
        low, high = (np.where(v >= 0, v, layer.slope * v) for v in (low, high))
        low, high = low - errors[k], high + errors[k]
    return back(leads, len(layers), True)
