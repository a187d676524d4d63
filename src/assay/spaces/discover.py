"""Relations that hold in data: orders, conditional zeros, quotients and products, sums, memberships.

Everything holds in *some* data by chance. So each candidate is compared with chance: `support` is
how many rows would be expected to break it if the columns had nothing to do with each other
(b drawn from its own column instead of from the same row). What bounds imply has support 0.

Names help where data are silent: if min <= max holds with support in some families of columns
(`bytes_min_80`, `bytes_max_80`), it is proposed for the families whose columns never vary, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from assay.spaces.relations import F, Expr, Relation, divide, implies

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Candidate:
    """A relation, the rows that break it, and those that would if its columns were unrelated."""

    relation: Relation
    kind: str
    support: float
    broken: int
    affinity: float = 0.0  # how alike the names are, 0..1
    names: tuple[str, ...] = ()


def tokens(name: str) -> tuple[str, ...]:
    """The words of a column's name."""
    return tuple(name.replace("-", "_").replace(" ", "_").split("_"))


def affinity(a: str, b: str) -> float:
    """Shared words as a share of all words."""
    left, right = set(tokens(a)), set(tokens(b))
    return len(left & right) / len(left | right)


def _expected_above(ordered: np.ndarray, b: np.ndarray) -> float:
    """How many rows would have a > b if b came from another row; `ordered` is a, sorted."""
    return float((len(b) - np.searchsorted(ordered, b, side="right")).sum()) / len(b)


def orders(columns: Columns, allowed: int, least: float, alike: float) -> Iterator[Candidate]:
    """a <= b: with support of its own, or by a template (min <= max) that no family breaks."""
    names = list(columns)
    x = np.stack([columns[n] for n in names], 1)
    ordered = np.sort(x, axis=0)
    place = {n: i for i, n in enumerate(names)}
    own: dict[tuple[str, str], Candidate] = {}
    for i, a in enumerate(names):
        broken = (x[:, [i]] > x).sum(0)
        for j in np.flatnonzero(broken <= allowed):
            b = names[int(j)]
            near = affinity(a, b)
            if near < alike or i == j or bool((x[:, i] == x[:, j]).all()):
                continue
            support = _expected_above(ordered[:, i], x[:, j])
            if support >= least and broken[j] <= 0.05 * support:
                own[a, b] = Candidate(F[a] <= F[b], "order", support, int(broken[j]), near, (a, b))
    yield from own.values()
    for pairs in _templates(names):
        backed = sum(pair in own for pair in pairs)
        counter = sum((b, a) in own for a, b in pairs)
        if backed < 3 or counter or any((x[:, place[a]] > x[:, place[b]]).any() for a, b in pairs):
            continue
        for a, b in pairs:
            if (a, b) not in own:
                yield Candidate(F[a] <= F[b], "order (by family)", float(backed), 0, affinity(a, b), (a, b))


def _templates(names: list[str]) -> Iterator[list[tuple[str, str]]]:
    """Pairs of names that differ in one word, and by the same two words, together."""
    families: dict[tuple[int, tuple[str, ...]], dict[str, str]] = defaultdict(dict)
    for name in names:
        words = tokens(name)
        for i, word in enumerate(words):
            families[i, words[:i] + words[i + 1 :]][word] = name
    found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for members in families.values():
        for u, a in members.items():
            for v, b in members.items():
                if u != v and not (u.isdigit() or v.isdigit()):
                    found[u, v].append((a, b))
    yield from found.values()


def transitive(found: list[Candidate]) -> list[Candidate]:
    """Orders that do not follow from two others."""
    above: dict[str, set[str]] = defaultdict(set)
    for c in found:
        above[c.names[0]].add(c.names[1])
    return [
        c for c in found
        if not any(c.names[1] in above[m] and c.names[0] not in above[m] for m in above[c.names[0]] - {c.names[1]})
    ]  # fmt: skip


def conditions(columns: Columns, allowed: float, least: float) -> Iterator[Candidate]:
    """if a > 0 then b > 0, for columns that are never negative and often 0."""
    names = [n for n, v in columns.items() if v.min() >= 0 and 0 < (v > 0).mean() < 1]
    if not names:
        return
    on = np.stack([columns[n] > 0 for n in names], 1).astype(np.float64)
    counts = on.sum(0)
    broken = on.T @ (1 - on)  # a on, b off
    expected = np.outer(counts, len(on) - counts) / len(on)
    hits = (broken <= allowed * expected) & (expected >= least) & ~np.eye(len(names), dtype=bool)
    for i, j in zip(*np.nonzero(hits), strict=True):
        a, b = names[i], names[j]
        yield Candidate(
            implies(F[a] > 0, F[b] > 0), "condition", float(expected[i, j]), int(broken[i, j]),
            affinity(a, b), (a, b),
        )  # fmt: skip


def formulas(columns: Columns, allowed: int, most: int = 130) -> Iterator[Candidate]:
    """c == a / b (with a fill value where b is 0), a * b, a + b, a - b."""
    varied = {n: v for n, v in columns.items() if len(np.unique(v[:2000])) > 2}
    if len(varied) > most:  # cubic: leave it to families and sums
        return
    names = list(varied)
    x = np.stack([varied[n] for n in names], 1)
    n = len(x)
    probe = x[np.unique(np.linspace(0, n - 1, 48).astype(int))]
    best: dict[int, tuple[float, Candidate]] = {}
    for op in ("/", "*", "-", "+"):
        for k in range(len(names)):
            hits, checked = np.ones((len(names), len(names)), dtype=bool), 0
            for row in probe:
                a, b = row[:, None], row[None, :]
                with np.errstate(divide="ignore", invalid="ignore"):
                    made = {"/": a / b, "*": a * b, "-": a - b, "+": a + b}[op]
                    defined = np.isfinite(made)
                    hits &= ~defined | (np.abs(made - row[k]) <= 1e-6 * max(1.0, abs(row[k])))
                checked = checked + defined
            hits[k] = hits[:, k] = False
            np.fill_diagonal(hits, False)
            if op in ("*", "+"):
                hits &= np.triu(np.ones_like(hits), 1)
            for i, j in zip(*np.nonzero(hits & (checked >= 5)), strict=True):
                found = _formula(op, x, names, int(i), int(j), k, allowed)
                if found is not None and found.affinity > best.get(k, (-1.0, None))[0]:
                    best[k] = (found.affinity, found)
    # Of a = b * c, b = a / c and c = a / b keep the one whose name says what it is made of.
    kept: dict[frozenset[str], Candidate] = {}
    for _, found in sorted(best.values(), key=lambda f: -f[0]):
        kept.setdefault(frozenset(found.names), found)
    yield from kept.values()


def _formula(op: str, x: np.ndarray, names: list[str], i: int, j: int, k: int, allowed: int) -> Candidate | None:
    a, b, c = x[:, i], x[:, j], x[:, k]
    left, right = F[names[i]], F[names[j]]
    value: Expr = {"/": left / right, "*": left * right, "-": left - right, "+": left + right}[op]
    with np.errstate(divide="ignore", invalid="ignore"):
        made = {"/": a / b, "*": a * b, "-": a - b, "+": a + b}[op]
    if op == "/" and bool((b == 0).any()):
        fill, counts = np.unique(c[b == 0], return_counts=True)
        made[b == 0] = fill[counts.argmax()]
        value = divide(left, right, float(fill[counts.argmax()]))
    broken = int((~(np.abs(made - c) <= 1e-6 * np.maximum(1.0, np.abs(c)))).sum())
    used = np.abs(a * b * c) > 0
    plain = np.isclose(c, a) | np.isclose(c, b)  # where the other one is 1 or 0: says nothing
    if broken > allowed or used.mean() < 0.01 or plain[used].mean() > 0.95 or len(np.unique(b[used])) < 3:
        return None
    words = set(tokens(names[i])) | set(tokens(names[j]))
    fit = len(words & set(tokens(names[k]))) / len(words) + 0.1 * float((c != np.round(c)).any())
    return Candidate(
        F[names[k]] == value, "formula", float(len(x)), broken, fit, (names[k], names[i], names[j])
    )


def sums(columns: Columns, allowed: int) -> Iterator[Candidate]:
    """Equalities between sums over families of columns (`tcp_*` + `udp_*` == `in_*` + `out_*`).

    The sums' null space, brought to echelon form: a sparse vector of small whole numbers in it is
    an equality that holds in every row.
    """
    families: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in columns:
        families[tokens(name)[:-1]].append(name)
    members = [m for m in families.values() if len(m) >= 3]
    if len(members) < 2:
        return
    totals = np.stack([sum(columns[n] for n in m) for m in members], 1)
    keep = totals.std(0) > 0
    totals, members = totals[:, keep], [m for m, k in zip(members, keep, strict=True) if k]
    if len(members) < 2 or len(totals) <= len(members):
        return
    size = np.abs(totals).max(0)
    for vector in _null(totals / size):
        raw = vector / size
        raw = raw / np.abs(raw[np.abs(raw) > 1e-9 * np.abs(raw).max()]).min()
        whole = np.round(raw)
        used = np.flatnonzero(whole)
        if not 2 <= len(used) <= 8 or np.abs(whole).max() > 3 or np.abs(raw - whole).max() > 1e-3:
            continue
        residual = totals @ whole
        scale = np.abs(totals[:, used]).max(1).clip(1)
        broken = int((np.abs(residual) > 1e-6 * scale).sum())
        if broken > allowed:
            continue
        sides = [
            sum((int(abs(whole[f])) * F[n] if abs(whole[f]) != 1 else F[n]) for f in used if sign * whole[f] > 0 for n in members[f])
            for sign in (1, -1)
        ]
        if all(isinstance(s, Expr) for s in sides):
            names = tuple(n for f in used for n in members[f])
            yield Candidate(sides[0] == sides[1], "sum", float(len(totals)), broken, 1.0, names)  # type: ignore[arg-type]


def _null(x: np.ndarray) -> np.ndarray:
    """Rows: a sparse basis (reduced echelon form) of the vectors that x takes to 0."""
    _, values, right = np.linalg.svd(x, full_matrices=True)
    rank = int((values > 1e-9 * values[0]).sum())
    basis = right[rank:].copy()
    done = 0
    for column in range(basis.shape[1]):
        if done == len(basis):
            break
        pivot = done + int(np.abs(basis[done:, column]).argmax())
        if abs(basis[pivot, column]) < 1e-7:
            continue
        basis[[done, pivot]] = basis[[pivot, done]]
        basis[done] /= basis[done, column]
        others = [i for i in range(len(basis)) if i != done]
        basis[others] -= np.outer(basis[others, column], basis[done])
        done += 1
    basis[np.abs(basis) < 1e-8] = 0
    return basis


def multiples(columns: Columns, least: float) -> Iterator[Candidate]:
    """k * a <= b + 1 for counts a and lengths b: the largest whole k > 1 that holds everywhere."""
    counts = {n: v for n, v in columns.items() if v.min() >= 0 and v.max() >= 2 and (v == np.round(v)).all()}
    lengths = [n for n in counts if "length" in tokens(n) or "size" in tokens(n) or "total" in tokens(n)]
    for b in lengths:
        for a in counts:
            on = counts[a] > 0
            if a == b or a in lengths or not on.any():
                continue
            k = int(np.floor(((columns[b][on] + 1) / counts[a][on]).min() + 1e-9))
            if 1 < k <= 20:
                support = _expected_above(np.sort(k * counts[a]), columns[b] + 1)
                if support >= least:
                    yield Candidate(k * F[a] <= F[b] + 1, "multiple", support, 0, 0.0, (a, b))


def memberships(columns: Columns) -> Iterator[Candidate]:
    """Few whole values with gaps between them: term in {36, 60}."""
    for name, v in columns.items():
        values = np.unique(v)
        if 2 <= len(values) <= 6 and (values == np.round(values)).all() and np.diff(values).min() > 1:
            if len(v) >= 20 * len(values):
                yield Candidate(F[name].isin(values.tolist()), "membership", float(len(v)), 0, 1.0, (name,))
