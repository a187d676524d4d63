"""Equalities of three or more columns: ratios and products, linear sums, months, annuities.

Ratios are looked for on a few rows where the candidate is not zero, all pairs of columns at once,
and what survives is checked on every row. Linear equalities are the null space of the table,
brought to echelon form so that each has few terms. Among equalities that follow from one another
the simplest are kept: products are linear in logarithms, so a new one must raise the rank.

Numbers that were rounded when they were stored (a monthly payment to the cent) are equal to their
quotient, product or multiple within half of the last digit: `instalment == amount / term within
0.005`.

Two formulas are known by heart since no search would meet them: months between two dates written
201512, and the constant payment of a loan, P r (1 + r)^n / ((1 + r)^n - 1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from durometer.kernels.arrays import Floats
from durometer.relations.expression import Compare, Expr, expr
from durometer.relations.language import divide, floor
from durometer.tables.discovery.pairs import Candidate, Sample, tokens

PROBES = 24  # rows to compare first
WIDEST = 150  # columns whose triples are searched: the most varied ones
CLOSE = 1e-6
_RATIO_WORDS = ("ratio", "share", "rate", "per", "avg", "mean", "pct", "percent", "fraction")


def ratios(t: Sample, skip: NDArray[np.bool_]) -> list[Candidate]:
    """c == a / b (with a fill value where b is 0), or a == b * c where no name says ratio."""
    distinct = np.array([len(np.unique(column)) for column in t.x.T])
    able = np.flatnonzero(~skip & (distinct > 2))
    able = np.sort(able[np.argsort(-distinct[able], kind="stable")[:WIDEST]])
    found: list[tuple[tuple[int, int, int], Candidate]] = []
    for c in able:
        rows = _varied(t.x[:, c])
        if len(rows) < 3:
            continue
        probe = t.x[np.ix_(rows, able)]
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = probe[:, :, None] / probe[:, None, :]
        value = t.x[rows, c][:, None, None]
        defined = np.isfinite(quotient)
        wrong = defined & ~(np.abs(quotient - value) <= CLOSE * np.abs(value))
        allowed = len(rows) // 10  # a probe may hit one of the rows that break it
        for i, j in np.argwhere((wrong.sum(0) <= allowed) & (defined.sum(0) >= 3)):
            a, b = able[i], able[j]
            if len({a, b, c}) == 3 and (one := _ratio(t, int(a), int(b), int(c))):
                found.append(((int(a), int(b), int(c)), one))
    return _independent(t, found)


def _varied(column: Floats) -> NDArray[np.int64]:
    """Rows with different values other than 0."""
    values, rows = np.unique(column, return_index=True)
    rows = rows[values != 0]
    few = np.linspace(0, len(rows) - 1, min(PROBES, len(rows))).astype(int)
    return np.asarray(rows[few])


def _ratio(t: Sample, a: int, b: int, c: int) -> Candidate | None:
    top, bottom, value = t.x[:, a], t.x[:, b], t.x[:, c]
    on = bottom != 0
    wrong = np.abs(top[on] / bottom[on] - value[on]) > CLOSE * np.maximum(1e-3, np.abs(value[on]))
    telling = on & (value != 0)
    if wrong.sum() > t.exceptions or _varying(bottom[telling]) < t.least or not np.ptp(value[on]):
        return None
    fills, counts = np.unique(value[~on], return_counts=True)
    if len(fills) and counts.sum() - counts.max() > t.exceptions:
        return None
    names = (t.names[c], t.names[a], t.names[b])
    spoken = [bool(set(tokens(n.lower())) & set(_RATIO_WORDS)) for n in names]
    if any(spoken) and not spoken[0]:
        return None  # the same equality is found again, solved for the column named a ratio
    first, second, ratio = (t.of(i) for i in (a, b, c))
    if len(fills):
        equal = ratio == divide(first, second, float(fills[counts.argmax()]))
    else:
        equal = ratio == first / second if spoken[0] else first == ratio * second
    return Candidate(equal, "formula", names, float((value != 0).sum()))


DIGITS = (0, 1, 2)  # after the point: what numbers are rounded to
HALF = 0.501  # of the last digit; the rest is for the arithmetic of halves
FINE = 20  # last digits that the values must spread over, or rounding says nothing


def rounded(t: Sample, skip: NDArray[np.bool_], made: list[Candidate]) -> list[Candidate]:
    """c == a / b, a * b or k a, rounded to a whole number, a tenth or a cent; not what is `made`.

    A probe of a few rows leaves few candidates; each is then counted on every row, and against c
    shuffled, which must break nearly all of them.
    """
    known, told = {c.names[0] for c in made}, {frozenset(c.names) for c in made}
    fit = np.flatnonzero(~skip & ~t.constant)
    varied = np.array([_varying(t.x[:, i]) for i in fit])
    fit = np.sort(fit[np.argsort(-varied, kind="stable")[:WIDEST]])
    found: list[tuple[tuple[int, int, int], Candidate]] = []
    coarse: dict[int, float] = {}  # how much of a column its rounding hides
    multiples: list[Candidate] = []
    for c in fit:
        step = _last_digit(t.x[:, c])
        rows = _varied(t.x[:, c])
        if step is None or t.names[c] in known or np.std(t.x[:, c]) < FINE * step or len(rows) < 3:
            continue
        coarse[int(c)] = step / float(np.std(t.x[:, c]))
        half, parts = HALF * step, fit[fit != c]
        probe, value = t.x[np.ix_(rows, parts)], t.x[rows, c]
        with np.errstate(divide="ignore", invalid="ignore"):
            pairs = {"/": probe[:, :, None] / probe[:, None, :],
                     "*": probe[:, :, None] * probe[:, None, :]}  # fmt: skip
        for op, result in pairs.items():
            wrong = (~(np.abs(result - value[:, None, None]) <= half)).sum(0)
            for i, j in np.argwhere(wrong <= len(rows) // 10):
                a, b = int(parts[i]), int(parts[j])
                told_of = frozenset((t.names[c], t.names[a], t.names[b])) in told
                if a != b and not told_of and (op == "/" or a < b):
                    formula = t.of(a) / t.of(b) if op == "/" else t.of(a) * t.of(b)
                    with np.errstate(divide="ignore", invalid="ignore"):
                        exact = t.x[:, a] / t.x[:, b] if op == "/" else t.x[:, a] * t.x[:, b]
                    names = (t.names[c], t.names[a], t.names[b])
                    if one := _within(t, int(c), formula, exact, step, names):
                        found.append(((a, b, int(c)) if op == "/" else (int(c), a, b), one))
        multiples += _multiples(t, int(c), parts, step)
    found.sort(key=lambda each: coarse[t.names.index(each[1].names[0])])
    return [*_raising_rank(t, found), *multiples]


def _multiples(t: Sample, c: int, parts: NDArray[np.int64], step: float) -> list[Candidate]:
    """c == k a, rounded, where k is a short number that is no whole one."""
    found = []
    for a in parts:
        top = int(np.abs(t.x[:, a]).argmax())  # where rounding blurs k the least
        if t.x[top, a] == 0:
            continue
        rate = float(f"{t.x[top, c] / t.x[top, a]:.4g}")
        if rate == 0 or float(rate).is_integer():
            continue  # whole multiples are found exactly, as sums
        names = (t.names[c], t.names[a])
        if one := _within(t, c, t.of(a) * rate, rate * t.x[:, a], step, names):
            found.append(one)
    return found


def _within(
    t: Sample, c: int, formula: Expr, exact: Floats, step: float, names: tuple[str, ...]
) -> Candidate | None:
    """The equality within half a digit, where rows keep it and a shuffled c would not."""
    half = float(f"{HALF * step:.4g}")
    broken = int((~(np.abs(exact - t.x[:, c]) <= half)).sum())
    by_chance = int((~(np.abs(exact - t.shuffled[:, c]) <= half)).sum())
    if broken > t.exceptions or by_chance < max(t.least, 0.8 * len(t.x)):
        return None
    return Candidate(Compare("==", t.of(c), formula, half), "formula", names, float(by_chance))


def _last_digit(column: Floats) -> float | None:
    """1, 0.1 or 0.01 where every value is a multiple of it; the largest one."""
    for digits in DIGITS:
        scaled = column * 10**digits
        if np.abs(scaled - np.rint(scaled)).max() <= CLOSE * max(1.0, np.abs(scaled).max() * 1e-9):
            return float(10.0**-digits)
    return None


def _varying(column: Floats) -> int:
    """Rows in which it is not at its most frequent value."""
    return len(column) - int(np.unique(column, return_counts=True)[1].max(initial=0))


def _independent(t: Sample, found: list[tuple[tuple[int, int, int], Candidate]]) -> list[Candidate]:
    """Those that raise the rank of the products in logarithms, whole-numbered parts first."""

    def cost(each: tuple[tuple[int, int, int], Candidate]) -> tuple[int, float]:
        (a, b, _), one = each
        made = sum(bool(set(tokens(t.names[i].lower())) & set(_RATIO_WORDS)) for i in (a, b))
        return 4 * made + 2 - int(t.whole[a]) - int(t.whole[b]), -one.support

    return _raising_rank(t, sorted(found, key=cost))


def _raising_rank(
    t: Sample, found: list[tuple[tuple[int, int, int], Candidate]]
) -> list[Candidate]:
    """Of equalities c == a / b those that do not follow from earlier ones."""
    kept: list[Candidate] = []
    rows: list[Floats] = []
    for (a, b, c), one in found:
        row = np.zeros(len(t.names))
        row[[a, b, c]] = 1.0, -1.0, -1.0
        if np.linalg.matrix_rank(np.stack([*rows, row])) > len(rows):
            rows.append(row)
            kept.append(one)
    return kept


def linear(
    t: Sample, columns: Floats, members: Sequence[Sequence[int]], most: int = 8
) -> list[Candidate]:
    """Sums that are equal: (n, k) `columns`, each the sum of its `members`, at most `most` of them.

    Coefficients are whole numbers; a constant may stand on the right.
    """
    moves = np.array([_varying(column) for column in columns.T])
    varied = np.flatnonzero(moves > 0)
    n = len(columns)
    if n < 2 * len(varied) + t.least or len(varied) < 2:
        return []
    scale = np.abs(columns[:, varied]).max(0)
    table = np.hstack([columns[:, varied] / scale, np.ones((n, 1))])
    _, sizes, right = np.linalg.svd(table, full_matrices=False)
    null = right[sizes <= 1e-9 * sizes[0]] / np.append(scale, 1.0)
    found = []
    for vector in _echelon(null):
        terms = np.flatnonzero(np.abs(vector[:-1]) > 1e-6 * np.abs(vector).max())
        if not 2 <= len(terms) <= most or np.sort(moves[varied[terms]])[-2] < 2 * t.least:
            continue  # columns that hardly move are equal to all sorts of sums
        weights = vector[:-1] / np.abs(vector[terms]).min()
        whole = np.rint(weights)
        if np.abs(weights - whole).max() > 1e-4 or np.abs(whole).max() > 100:
            continue
        total = columns[:, varied] @ whole
        constant = float(np.rint(np.median(total)))
        size = (np.abs(columns[:, varied]) @ np.abs(whole)).clip(1)
        if (np.abs(total - constant) > CLOSE * size).sum() > t.exceptions:
            continue
        sides: list[list[Expr]] = [[], []]
        for k in terms:
            for i in members[varied[k]]:
                weight = int(abs(whole[k]))
                sides[int(whole[k] < 0)].append(t.of(i) if weight == 1 else weight * t.of(i))
        if constant:
            sides[int(constant > 0)].append(expr(abs(constant)))
        if sides[0] and sides[1]:
            names = tuple(t.names[i] for k in terms for i in members[varied[k]])
            equal = _total(sides[0]) == _total(sides[1])
            found.append(Candidate(equal, "sum", names, float(n)))
    return found


def _total(parts: list[Expr]) -> Expr:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _echelon(rows: Floats) -> Floats:
    """Reduced row echelon form, pivots by size: each row as sparse as elimination makes it."""
    rows, done = rows.copy(), 0
    for column in range(rows.shape[1] - 2, -1, -1):
        if done == len(rows):
            break
        pivot = done + int(np.abs(rows[done:, column]).argmax())
        if abs(rows[pivot, column]) < 1e-9 * np.abs(rows[pivot]).max():
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= rows[others, column, None] * rows[done]
        rows[np.abs(rows) < 1e-9] = 0
        done += 1
    return rows[:done]


def months(t: Sample, skip: NDArray[np.bool_]) -> list[Candidate]:
    """c == months from date b to date a, both written as year * 100 + month."""
    year, month = t.x // 100, t.x % 100
    dated = t.whole & ~skip & ~t.constant
    dated &= ((year >= 1800) & (year <= 2200) & (month >= 1) & (month <= 12)).all(0)
    count, found = year * 12 + month, []
    for a in np.flatnonzero(dated):
        for b in np.flatnonzero(dated):
            wrong = (np.abs(count[:, a, None] - count[:, b, None] - t.x) > CLOSE).sum(0)
            for c in np.flatnonzero((wrong <= t.exceptions) & ~skip & ~t.constant):
                since, until = (floor(t.of(i) / 100) * 12 + t.of(i) % 100 for i in (b, a))
                names = (t.names[c], t.names[a], t.names[b])
                found.append(Candidate(t.of(c) == until - since, "formula", names, float(len(t.x))))
    return found


def annuities(t: Sample, skip: NDArray[np.bool_]) -> list[Candidate]:
    """c == payment on a loan of a, at b percent a year, over n months, to the cent."""
    fit = ~skip & ~t.constant
    few = np.array([len(np.unique(column)) <= 12 for column in t.x.T])
    terms = np.flatnonzero(fit & t.whole & few & (t.x >= 6).all(0) & (t.x <= 600).all(0))
    rates = np.flatnonzero(fit & (t.x > 0).all(0) & (t.x <= 60).all(0) & ~t.whole)
    # Sums of money, not shares: a cent of slack would make all shares equal.
    sums = np.flatnonzero(fit & (t.x > 0).all(0) & (np.median(t.x, axis=0) > 1))
    found = []
    for n in terms:
        for r in rates:
            rate = t.x[:, r] / 1200
            growth = (1 + rate) ** t.x[:, n]
            due = t.x[:, sums] * (rate * growth / (growth - 1))[:, None]
            for c in sums:
                slack = np.maximum(0.01, 1e-6 * np.abs(t.x[:, c]))
                wrong = (np.abs(due - t.x[:, c, None]) > slack[:, None]).sum(0)
                for k in np.flatnonzero(wrong <= t.exceptions):
                    monthly, a = t.of(r) / 1200, sums[k]
                    grown = (1 + monthly) ** t.of(n)
                    equal = Compare(
                        "==", t.of(c), t.of(a) * monthly * grown / (grown - 1), tolerance=0.01
                    )
                    names = tuple(t.names[i] for i in (c, a, r, n))
                    found.append(Candidate(equal, "formula", names, float(len(t.x))))
    return found
