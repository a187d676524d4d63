"""Relations by name: columns named alike are related alike.

`bytes_min_s_53 <= bytes_max_s_53` is one of 18 relations that differ in the port alone. A
*template* holds all pairs of columns whose names differ in one and the same word, with index-like
words (those with five or more alternatives) left open. Evidence is added up over a template, and
what it supports is proposed for all its pairs, also where a column happens to be empty in this
table ("by family").

A *family* is the columns that differ in an index-like word only; its sum is a number of its own,
and equalities between such sums are looked for like those between columns.

What categories imply, and columns that exclude each other.

    education == 'Bachelors'  implies  education_num == 13    a value of a category fixes another
    gain == 0  or  loss == 0                                  two amounts that never come together

The same test as for pairs of numbers: the rows almost never break it, and would break it often were
the columns unrelated. What chance would break is known without shuffling: the product of shares.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats
from durometer.relations.expression import Column, Compare, Expr, Op, Operand, Relation
from durometer.relations.language import implies
from durometer.tables.discovery.equalities import linear
from durometer.tables.discovery.pairs import RARE, Candidate, Sample, tokens
from durometer.tables.feature import Feature

MANY = 5  # alternatives that make a word an index
Words = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Names:
    """The columns' names, cut into words at underscores."""

    words: list[Words]
    siblings: dict[tuple[int, Words], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = defaultdict(list)
        for i, words in enumerate(self.words):
            for slot in range(len(words)):
                found[slot, _without(words, slot)].append(i)
        self.siblings.update(found)

    def index_like(self, i: int, slot: int) -> bool:
        """Has this word of this name many alternatives?"""
        return len(self.siblings[slot, _without(self.words[i], slot)]) >= MANY

    def open(self, i: int, slot: int) -> Words:
        """The name without this word, and with index-like words left open."""
        words = self.words[i]
        return tuple(
            "?" if k == slot else "*" if self.index_like(i, k) else w for k, w in enumerate(words)
        )

    def pairs(self) -> dict[tuple[Words, str, str], list[tuple[int, int]]]:
        """Columns whose names differ in one word that is not an index, by template."""
        found: dict[tuple[Words, str, str], list[tuple[int, int]]] = defaultdict(list)
        for (slot, _), members in self.siblings.items():
            if not 2 <= len(members) < MANY:
                continue
            for a in members:
                for b in members:
                    if a != b:
                        key = (self.open(a, slot), self.words[a][slot], self.words[b][slot])
                        found[key].append((a, b))
        return found

    def families(self) -> dict[Words, list[int]]:
        """Columns that differ in an index-like word, or (three or more) in the last."""
        return {
            (*rest[:slot], "*", *rest[slot:]): members
            for (slot, rest), members in self.siblings.items()
            if len(members) >= (3 if slot == len(rest) else MANY)
        }


def _without(words: Words, slot: int) -> Words:
    return (*words[:slot], *words[slot + 1 :])


def cut(names: tuple[str, ...]) -> Names:
    """The names' words."""
    return Names([tokens(name) for name in names])


def templates(t: Sample, names: Names, skip: NDArray[np.bool_]) -> list[Candidate]:
    """Orders a <= b and bounds a <= k b that whole templates (of 3 or more pairs) support."""
    found: list[Candidate] = []
    above, above_chance = t.above
    alone, _ = t.alone
    ordered: set[tuple[int, int]] = set()
    ratios: list[tuple[list[tuple[int, int]], float, int]] = []
    for pairs in names.pairs().values():
        usable = [(a, b) for a, b in pairs if not (skip[a] or skip[b])]
        if len(usable) < 3:
            continue
        a, b = np.array(usable).T
        limit = t.exceptions * int((~t.constant[a]).sum())
        chance = int(above_chance[a, b].sum())
        if _rare(int(above[a, b].sum()), chance, limit, t.least):
            ordered |= set(usable)
        elif int(alone[a, b].sum()) <= limit and (t.x[:, b] > 0).any():
            bound, by_chance = _bound(t, a, b)
            if by_chance >= t.least:
                ratios.append((usable, bound, by_chance))
    for a, b in _shortest(ordered):
        seen = float(above_chance[a, b])
        kind = "order" if seen >= t.least else "order (by family)"
        found.append(Candidate(t.of(a) <= t.of(b), kind, (t.names[a], t.names[b]), seen))
    for usable, bound, by_chance in ratios:
        for a, b in usable:
            if (a, b) not in ordered:
                seen = float(by_chance if (t.x[:, b] > 0).any() else 0)
                kind = "multiple" if seen else "multiple (by family)"
                bounded = t.of(a) <= bound * t.of(b)
                found.append(Candidate(bounded, kind, (t.names[a], t.names[b]), seen))
    return found


def totals(t: Sample, names: Names, skip: NDArray[np.bool_]) -> list[Candidate]:
    """Equalities between the sums of families."""
    members = [m for m in names.families().values() if not skip[m].any()]
    if not members:
        return []
    found = linear(t, np.stack([t.x[:, m].sum(1) for m in members], axis=1), members)
    known = {frozenset(c.names) for c in found}
    for c in list(found):
        for alike in _translated(c, t.names):
            if frozenset(alike.names) not in known:
                known.add(frozenset(alike.names))
                found.append(alike)  # rows that break it are counted like all others'
    return found


def _translated(c: Candidate, names: tuple[str, ...]) -> list[Candidate]:
    """The same sum with a word that all its names share replaced by another, where all exist."""
    known, words = set(names), [tokens(n) for n in c.names]
    shared = set(words[0]).intersection(*words[1:])
    others = {w for name in names for w in tokens(name)} - shared
    found = []
    for word in sorted(shared):
        for other in sorted(others):
            swap = {n: "_".join(other if w == word else w for w in tokens(n)) for n in c.names}
            if set(swap.values()) <= known and len(set(swap.values())) == len(swap):
                same = _renamed(c.relation, swap)
                found.append(Candidate(same, "sum (by family)", tuple(swap.values()), 0.0))
    return found


def _renamed(r: Relation, swap: dict[str, str]) -> Relation:
    def of(e: Expr) -> Expr:
        if isinstance(e, Column):
            return replace(e, name=swap[e.name])
        return replace(e, args=tuple(of(a) for a in e.args)) if isinstance(e, Op) else e

    assert isinstance(r, Compare)  # linear() makes nothing else
    return replace(r, left=of(r.left), right=of(r.right))


def _rare(breaking: int, chance: int, limit: int, least: float) -> bool:
    return breaking <= limit and breaking <= RARE * chance and chance >= least


def _bound(t: Sample, a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[float, int]:
    """The largest a / b of a template, rounded up to two digits; rows beyond it by chance."""
    top, bottom = t.x[:, a], t.x[:, b]
    if (top < 0).any() or (bottom < 0).any():
        return math.inf, 0
    largest = float((top[bottom > 0] / bottom[bottom > 0]).max())
    if largest <= 0:
        return math.inf, 0
    digits = 1 - math.floor(math.log10(largest))
    bound = round(math.ceil(largest * 10.0**digits - 1e-9) / 10.0**digits, max(digits, 0))
    mixed = t.shuffled[:, b]
    return bound, int(((mixed > 0) & (top > bound * mixed)).sum())


def _shortest(pairs: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Without the pairs that follow from two others."""
    after = defaultdict(set)
    for a, b in pairs:
        after[a].add(b)
    return sorted((a, b) for a, b in pairs if not any(b in after[c] for c in after[a] if c != b))


def bounded_sums(t: Sample, skip: NDArray[np.bool_], highest: int = 4) -> list[Candidate]:
    """Parts that together stay below a whole: w1 a1 + w2 a2 + ... <= b, columns of one first word.

    Greedy: first every part that still fits, once; then each as often as it fits, up to `highest`.
    """
    above, _ = t.above
    fit = ~skip & ~t.constant & (t.x >= 0).all(0)
    groups: dict[str, list[int]] = defaultdict(list)
    for i in np.flatnonzero(fit & t.whole):
        groups[tokens(t.names[i])[0]].append(int(i))
    found = []
    for first, members in groups.items():
        outside = [b for b in np.flatnonzero(fit) if tokens(t.names[b])[0] != first]
        for b in outside:
            fitting = [a for a in members if above[a, b] == 0]
            if len(fitting) < 3:
                continue
            rest, weights = t.x[:, b].copy(), dict.fromkeys(fitting, 0)
            for _ in range(highest):
                for a in fitting:
                    if (t.x[:, a] <= rest).all():
                        weights[a] += 1
                        rest -= t.x[:, a]
            used = {a: w for a, w in weights.items() if w}
            total = sum(w * t.x[:, a] for a, w in used.items())
            chance = int((total > t.shuffled[:, b]).sum())
            if len(used) >= 3 and chance >= t.least:
                parts_sum = sum((t.of(a) if w == 1 else w * t.of(a)) for a, w in used.items())
                names = (*(t.names[a] for a in used), t.names[b])
                found.append(Candidate(parts_sum <= t.of(b), "parts", names, float(chance)))
    return found


_VALUES = 60  # of a category: more is a name, not a kind


def implications(t: Sample, features: Sequence[Feature]) -> Iterator[Candidate]:
    """Values of a category that fix the value of another column."""
    for i, f in enumerate(features):
        if f.kind != "category" or len(f.values) > _VALUES:
            continue
        for j, g in enumerate(features):
            if i != j and not g.group and not t.constant[j]:
                yield from _fixed(t, (i, f), (j, g))


def _fixed(t: Sample, one: tuple[int, Feature], other: tuple[int, Feature]) -> Iterator[Candidate]:
    (i, f), (j, g) = one, other
    column: Floats = t.x[:, j]
    for code, value in zip(f.codes, f.values, strict=True):
        rows = t.x[:, i] == code
        if not rows.any():
            continue
        values, counts = np.unique(column[rows], return_counts=True)
        usual = float(values[counts.argmax()])
        broken = int(rows.sum() - counts.max())
        chance = float(rows.sum() * (column != usual).mean())
        if broken <= t.exceptions and chance >= t.least and broken <= RARE * chance:
            then = _equals(g, usual)
            premise = Column(f.name) == value
            yield Candidate(implies(premise, then), "category", (f.name, g.name), chance, broken)


def _equals(f: Feature, code: float) -> Relation:
    value: Operand = int(code) if code.is_integer() else code
    if f.kind == "category":
        value = f.values[f.codes.index(code)]
    same: Relation = Column(f.name) == value
    return same


def exclusive(t: Sample, skip: NDArray[np.bool_]) -> Iterator[Candidate]:
    """Two amounts, seldom both positive: one of them is 0."""
    some = [
        j for j in range(len(t.names)) if not skip[j] and not t.constant[j] and t.x[:, j].min() == 0
    ]
    on = t.x[:, some] > 0
    both = on.T.astype(float) @ on
    share = on.mean(0)
    for a in range(len(some)):
        for b in range(a + 1, len(some)):
            chance = float(len(t.x) * share[a] * share[b])
            if both[a, b] > min(t.exceptions, RARE * chance) or chance < t.least:
                continue
            one, other = t.names[some[a]], t.names[some[b]]
            either = (Column(one) == 0) | (Column(other) == 0)
            yield Candidate(either, "exclusive", (one, other), chance, int(both[a, b]))
