"""Balancing of linear relations in plain Python, record by record."""

import math

import numpy as np

_SWEEPS = 20  # over the relations whose features have moved
_STUBBORN = 4


def _excess(row, x, x0, b, tolerance, flat):
    """How much the branch must fall (an equality: change); 0 where it holds."""
    branches, places, weights, past = flat.branches, flat.places, flat.weights, flat.past
    starts, both, goals, slacks = flat.starts, flat.both, flat.goals, flat.slacks
    exact, norms = flat.exact, flat.norms
    value, size = starts[b], min(1.0, norms[b])
    for t in range(branches[b], branches[b + 1]):
        term = weights[t] * (x0[row, places[t]] if past[t] else x[row, places[t]])
        value += term
        size = max(size, abs(term))
    # Half the tolerance of the check: what is repaired must hold beyond doubt.
    slack = 0.5 * tolerance * size
    if exact[b]:
        slack = min(slack, 0.4)
    if not math.isnan(slacks[b]):
        slack = 0.99 * slacks[b]
    if goals[b] > 0:
        excess = value + max(goals[b], 4 * slack)
        return excess if excess > 0 else 0.0
    if both[b]:
        return value if abs(value) > slack else 0.0
    return value if value > slack else 0.0


def _spread(row, x, low, high, b, amount, flat, room, take):
    """Take `amount` off the sum; False, and nothing changed, where there is no room for it."""
    places, weights, shares, free = flat.places, flat.weights, flat.shares, flat.free
    whole = flat.whole
    first, last = flat.branches[b], flat.branches[b + 1]
    need, total = abs(amount), 0.0
    for t in range(first, last):
        i, place = t - first, places[t]
        gap = 0.0
        if free[t]:
            down = weights[t] * amount > 0
            gap = x[row, place] - low[row, place] if down else high[row, place] - x[row, place]
            gap = max(gap, 0.0)
            if whole[t]:
                gap = np.floor(gap + 1e-9)
        room[i] = gap * abs(weights[t])
        take[i] = 0.0
        total += room[i]
    if total < need * (1 - 1e-12):
        return False
    left = need
    for _ in range(30):
        share = 0.0
        for t in range(first, last):
            if take[t - first] < room[t - first]:
                share += shares[t]
        if share <= 0 or left <= 1e-12 * need:
            break
        factor, left = left / share, need
        for t in range(first, last):
            i = t - first
            if take[i] < room[i]:
                take[i] = min(room[i], take[i] + factor * shares[t])
            left -= take[i]
    left = need
    for t in range(first, last):
        i = t - first
        if whole[t]:
            take[i] = np.floor(take[i] / abs(weights[t]) + 1e-9) * abs(weights[t])
        left -= take[i]
    # What flooring left over: real features take any part, whole ones whole units.
    for fraction in (True, False):
        for t in range(first, last):
            i = t - first
            if left > 0 and whole[t] != fraction:
                more = min(left, room[i] - take[i])
                if whole[t]:
                    more = np.floor(more / abs(weights[t]) + 1e-9) * abs(weights[t])
                take[i] += more
                left -= more
    for t in range(first, last):
        change = take[t - first] / abs(weights[t])
        if change > 0:
            if whole[t]:
                change = np.rint(change)
            x[row, places[t]] += -change if weights[t] * amount > 0 else change
    return True


def balance(x, x0, low, high, tolerance, flat):
    """Move the records towards their clauses, in place, row by row."""
    clauses, branches, places, starts = flat.clauses, flat.branches, flat.places, flat.starts
    norms, named, naming = flat.norms, flat.named, flat.naming
    longest = 1
    for b in range(len(branches) - 1):
        longest = max(longest, branches[b + 1] - branches[b])
    room, take = np.empty(longest), np.empty(longest)
    excess = np.empty(len(starts))
    waiting = np.empty(len(clauses) - 1, dtype=np.bool_)
    for row in range(len(x)):
        waiting[:] = True
        for sweep in range(_SWEEPS):
            moved = False
            for c in range(len(clauses) - 1):
                if not waiting[c]:
                    continue
                waiting[c] = False
                first, last = clauses[c], clauses[c + 1]
                holds = False
                for b in range(first, last):
                    excess[b] = _excess(row, x, x0, b, tolerance, flat)
                    if excess[b] == 0.0:
                        holds = True
                        break
                if holds:
                    continue
                for _ in range(last - first):
                    best, least = first, math.inf
                    for b in range(first, last):
                        cost = abs(excess[b]) / norms[b]
                        if sweep >= _STUBBORN and cost < math.inf:
                            cost = -cost  # the cheap way was undone by others: now the other one
                        if cost < least:
                            best, least = b, cost
                    if _spread(row, x, low, high, best, excess[best], flat, room, take):
                        moved = True
                        for t in range(branches[best], branches[best + 1]):
                            if take[t - branches[best]] > 0:
                                for k in range(named[places[t]], named[places[t] + 1]):
                                    waiting[naming[k]] = True
                        break
                    excess[best] = math.inf  # no room there: not again
            if not moved:
                break
