"""Certificates changed by somebody who knows the format; digests are made to fit again."""

from __future__ import annotations

import zlib

import numpy as np

from durometer.proofs.search.decide import digest, pack_certificate
from durometer.verification.certificate import constraints
from durometer.verification.domain import least


def numbers(certificate):
    """All numbers of a certificate."""
    raw = np.frombuffer(zlib.decompress(certificate), np.uint8).reshape(8, -1).T.tobytes()
    return np.frombuffer(raw, np.float64).copy()


def forge(certificate, x0, trees):
    """The certificate of another row or model, with the digests of this one."""
    made = numbers(certificate)
    made[1] = digest(np.ascontiguousarray(x0, dtype=np.float64))
    names = ("feature", "threshold", "left", "right", "value", "roots", "base")
    made[2] = digest(*(getattr(trees, k) for k in names))
    return pack_certificate(made)


def layout(n):
    """Where things stand: bounds of constraints, and of each part (place, kind, length)."""
    at, bounds, parts = 4, [], []
    for _ in range(int(n[3])):
        bounds.append(at)
        terms, at = int(n[at + 1]), at + 2
        for _ in range(terms):
            at += 4 + 2 * int(n[at + 3])
    targets, at = int(n[at]), at + 1
    for _ in range(targets):
        at, left = at + 1, 1
        while left:
            kind, begin = int(n[at]), at
            left += 1 if kind == 1 else -1
            if kind == 1:
                at += 3
            elif kind == 2:
                at += 4 + 2 * int(n[at + 3])
                count, at = int(n[at]), at + 1
                for _ in range(count):
                    at += 3 + 2 * int(n[at + 2]) - 1
            else:
                at += 1
            parts.append((begin, kind, at - begin))
    return bounds, parts


def tampers(certificate, x0, rng):
    """(what, numbers): changes that take away something that a proof of row x0 needs."""
    n = numbers(certificate)
    bounds, parts = layout(n)
    cuts = [p for p in parts if p[1] == 1]
    ends = [p for p in parts if p[1] != 1]
    proofs = [p for p in parts if p[1] == 2]

    def changed(place, value):
        out = n.copy()
        out[place] = value
        return out

    said = constraints(certificate)
    for k in rng.permutation(len(said))[:3]:
        bound, terms = said[k]
        if terms and bound < 1e299 and not any(np.isnan(x0[t[0]]) for t in terms):
            at_home = sum(float(least(t, x0, x0[t[0]], x0[t[0]])) for t in terms)
            yield "tighter bound", changed(bounds[k], at_home - 0.01 * (1 + abs(at_home)))
    if cuts:
        begin, _, length = cuts[rng.integers(len(cuts))]
        lower = next(p for p in ends if p[0] > begin)
        yield "dropped box", np.delete(n, np.s_[lower[0] : lower[0] + lower[2]])
        yield "dropped cut", np.delete(n, np.s_[begin : begin + length])
        yield "cut at no value", changed(begin + 2, np.nan)
    if proofs:
        begin, _, length = proofs[rng.integers(len(proofs))]
        whole = np.delete(n, np.s_[begin + 1 : begin + length])
        whole[begin] = 0.0
        yield "a bound called no room", whole
        single = whole.copy()
        single[begin] = 3.0
        yield "a bound called one label", single
        yield "rival is the target", changed(begin + 1, 1 - n[begin + 1])
        if n[begin + 3]:
            yield "negative multiplier", changed(begin + 5, -n[begin + 5] - 1.0)
            yield "huge multiplier", changed(begin + 5, 1e6 * n[begin + 5])
            yield "multiplier of no constraint", changed(begin + 4, n[3])
        if n[begin + 4 + 2 * int(n[begin + 3])]:
            yield "huge potentials", changed(begin + 2, 1e6 * n[begin + 2])
            yield "potentials of no number", changed(begin + 2, np.nan)
    yield "no target", np.append(n[: parts[0][0] - 2], 0.0)
