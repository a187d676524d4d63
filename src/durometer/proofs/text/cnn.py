"""Bounds of a convolution over words: window sums, ReLU, the largest and the mean of a sentence.

Each filter's answer in a window is a sum of one number per word in it, so its range over the
options is exact: the sum of the largest changes, as many as may change. Between those ranges ReLU
and the maximum are replaced by straight lines (CROWN, Zhang et al. 2018; the maximum by the lower
end of the window that is surely large, or by what every rival can add to it), and the whole lead
becomes a sum of one number per place and option. Its largest value under the budget is found by
sorting, exactly.

What a reader would get wrong: the lines are chosen by the ranges over the *whole* set. Cut a place,
and every range and line gets better, not only those of its windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from durometer.proofs.text.hull import Found, Hull, largest


@dataclass(frozen=True, eq=False)
class Filters:
    """One convolution: its share of the parts, `width` numbers per word and filter."""

    begin: int
    width: int
    count: int
    bias: Tensor

    def windows(self, values: Tensor) -> Tensor:
        """(b, L, width, F): what the words of each window give to it; the window begins at 0."""
        end = self.begin + self.width * self.count
        mine = values[..., self.begin : end].reshape(*values.shape[:2], self.width, self.count)
        side = self.width // 2
        padded = pad(mine, (0, 0, 0, 0, side, self.width - 1 - side))
        length = values.shape[1]
        return torch.stack([padded[:, o : o + length, o] for o in range(self.width)], dim=2)

    def places(self, slopes: Tensor) -> Tensor:
        """(b, m, L, width * F): slopes of the windows (b, m, L, F) as those of the words' parts."""
        side, length = self.width // 2, slopes.shape[2]
        padded = pad(slopes, (0, 0, self.width - 1 - side, side))
        back = [padded[:, :, self.width - 1 - o : self.width - 1 - o + length]
                for o in range(self.width)]  # fmt: skip
        return torch.cat(back, dim=3)


def ranges(filters: Filters, hull: Hull) -> tuple[Tensor, ...]:
    """(b, L, F) three times: what the windows say now, at least and at most."""
    now = filters.windows(hull.now).sum(2) + filters.bias
    low, high = (filters.windows(side).transpose(2, 3) for side in hull.spread)
    return now, now - largest(-low, hull.most), now + largest(high, hull.most)


def highest(layers: list[Filters], weight: Tensor, bias: Tensor, hull: Hull, spec: Tensor) -> Found:
    """`weight` (C, 2 * filters) reads, for each layer, the largest answers and then the means."""
    begin, lead = 0, spec @ bias
    slopes = []
    count = hull.there.sum(1).to(weight.dtype)
    for layer in layers:
        of = weight[:, begin : begin + 2 * layer.count]
        begin += 2 * layer.count
        top, mean = torch.split(spec @ of, layer.count, dim=2)  # (b, m, F)
        now, low, high = ranges(layer, hull)
        slope, constant = _lines(now, low, high, hull.there, top, mean / count[:, None, None])
        lead = lead + constant + (slope * now[:, None]).sum((2, 3))
        slopes.append(layer.places(slope))
    each = torch.cat(slopes, dim=3)  # (b, m, L, G)
    at = hull.places[:, None, :, None].expand(-1, each.shape[1], -1, each.shape[3])
    gain = torch.einsum("bmpg,bpkg->bmpk", each.gather(2, at), hull.differences)
    gain, slot = gain.masked_fill(~hull.movable[:, None], 0.0).clamp_min(0).max(3)  # (b, m, P)
    lead = lead + largest(gain, hull.most)
    worst = lead.argmax(1)[:, None, None].expand(-1, 1, gain.shape[2])
    score, slot = gain.gather(1, worst)[:, 0], slot.gather(1, worst)[:, 0]
    rank = score.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    change = (score > 0) & (rank < hull.most[:, None])
    return Found(lead, score, torch.where(change, slot, hull.slots))


def _lines(
    now: Tensor, low: Tensor, high: Tensor, there: Tensor, top: Tensor, mean: Tensor
) -> tuple[Tensor, Tensor]:
    """Slopes (b, m, L, F) and constants (b, m) of a line above top * max + mean * sum of ReLUs."""
    here = there[..., None]
    low, high = low.masked_fill(~here, 0.0), high.masked_fill(~here, 0.0)
    bent = (low < 0) & (high > 0)
    chord = torch.where(bent, high / (high - low).clamp_min(1e-30), (low >= 0).to(low.dtype))
    under = torch.where(bent, (high > -low).to(low.dtype), chord) * here
    chord = chord * here
    offset = torch.where(bent, -chord * low, 0.0)
    up, down = mean.clamp_min(0), mean.clamp_max(0)  # (b, m, F)
    slope = up[:, :, None] * chord[:, None] + down[:, :, None] * under[:, None]
    constant = (up * offset.sum(1)[:, None]).sum(2)
    # The largest is at least what the window says that is surely largest.
    sure = low.argmax(1, keepdim=True)  # (b, 1, F)
    at = torch.zeros_like(low).scatter_(1, sure, under.gather(1, sure))
    slope = slope + top.clamp_max(0)[:, :, None] * at[:, None]
    # And at most c + what each window can be above c, with c the least that it can be.
    c = low.clamp_min(0).amax(1)  # (b, F)
    rival = (high > c[:, None]) & (high > low) & here
    each = torch.where(rival, (high - c[:, None]) / (high - low).clamp_min(1e-30), 0.0)
    line = c + (each * (now - low)).sum(1)
    most = high.amax(1).clamp_min(0)
    flat = line >= most  # even now no better than the highest of all
    each = each * ~flat[:, None]
    constant_top = torch.where(flat, most, c - (each * low).sum(1))
    slope = slope + top.clamp_min(0)[:, :, None] * each[:, None]
    return slope, constant + (top.clamp_min(0) * constant_top[:, None]).sum(2)
