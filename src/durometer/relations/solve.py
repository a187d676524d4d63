"""Which feature each equality defines: solved symbolically, chosen once, in dependency order.

`ratio == a / b` defines `ratio`; `a * b == c` can define any of the three. No feature is defined
twice, none in terms of itself, and only mutable ones are.
"""

from __future__ import annotations

from collections.abc import Iterator

from durometer.relations.expression import (
    And,
    Column,
    Compare,
    Expr,
    Op,
    Or,
    Relation,
    changing,
    columns,
)
from durometer.relations.normal_form import Layout, Leaves, is_whole, linear, pattern

Definition = tuple[Column, Expr, Compare]  # feature := expression, from this equality


def conjuncts(r: Relation) -> Iterator[Compare]:
    """The comparisons that must hold in any case."""
    if isinstance(r, And):
        for part in r.operands:
            yield from conjuncts(part)
    elif isinstance(r, Compare):
        yield r


def clauses(relations: list[Relation], free: set[str]) -> Iterator[tuple[Compare, ...]]:
    """The linear ones, and the "this or that" of linear parts, that some free feature occurs in."""
    for r in relations:
        if isinstance(r, And):
            yield from clauses(list(r.operands), free)
            continue
        branches = r.operands if isinstance(r, Or) else (r,)
        found = [
            b for b in branches
            if isinstance(b, Compare) and b.op != "!=" and linear(b.left - b.right) is not None
        ]  # fmt: skip
        if len(found) == len(branches) and not free.isdisjoint(changing(r)):
            yield tuple(found)


def _solutions(r: Compare) -> Iterator[tuple[Column, Expr]]:
    """Each feature the equality can be solved for, the ones that stand alone on a side first."""
    sides = ((r.left, r.right), (r.right, r.left))
    for alone, other in sides:
        if isinstance(alone, Column) and not alone.clean and alone.name not in changing(other):
            yield alone, other
    for side, other in sides:
        names = [c.name for s in sides[0] for c in columns(s) if not c.clean]
        for name in dict.fromkeys(names):
            if names.count(name) == 1 and not isinstance(side, Column):
                solved = _isolate(side, other, name)
                if solved is not None:
                    yield Column(name), solved


def _isolate(side: Expr, value: Expr, name: str) -> Expr | None:
    """side == value solved for a feature that occurs once, through + - * / only."""
    while not isinstance(side, Column):
        if not isinstance(side, Op):
            return None
        holds = [any(c.name == name for c in columns(a)) for a in side.args]
        if not any(holds):
            return None
        at = holds.index(True)
        inner, rest = side.args[at], [a for i, a in enumerate(side.args) if i != at]
        if side.op == "neg":
            value = -value
        elif side.op == "+":
            for other in rest:
                value = value - other
        elif side.op == "*":
            value = value / rest[0]
        elif side.op == "/" and at == 0:
            value = value * rest[0]
        elif side.op == "/":
            value = rest[0] / value
        else:
            return None
        side = inner
    return value if side.name == name and not side.clean else None


def choose(
    equalities: list[Compare], free: set[str], layout: Layout
) -> dict[Compare, tuple[Column, Expr]]:
    """One defined feature per equality: mutable, not defined twice, and never in terms of itself.

    Sums of several mutable features on one level are left to balancing: giving one feature all of
    the difference would overrun its bounds where the others have room.
    """
    needs: dict[str, set[str]] = {}
    chosen: dict[Compare, tuple[Column, Expr]] = {}
    for r in equalities:
        single = isinstance(r.left, Column) or isinstance(r.right, Column)
        if not single and linear(r.left - r.right) is not None:
            continue
        options = [(c, e) for c, e in _solutions(r) if c.name in free and c.name not in needs]
        alone = any(c is r.left or c is r.right for c, _ in options)
        if not alone and linear(r.left - r.right) is not None:
            continue
        options.sort(key=lambda o: o[0].name in layout.whole)  # stable: alone on a side stay first
        for target, value in options:
            inputs = changing(value)
            if target.name in _reach(inputs, needs):
                continue
            if target.name in layout.whole and not is_whole(value, layout):
                continue
            needs[target.name] = inputs
            chosen[r] = (target, value)
            break
    return chosen


def _reach(names: set[str], needs: dict[str, set[str]]) -> set[str]:
    found, stack = set(names), list(names)
    while stack:
        for each in needs.get(stack.pop(), ()):
            if each not in found:
                found.add(each)
                stack.append(each)
    return found


def stages(chosen: dict[Compare, tuple[Column, Expr]]) -> Iterator[list[Definition]]:
    """Definitions in dependency order, those of one stage that have the same shape together."""
    waiting = [(target, value, r) for r, (target, value) in chosen.items()]
    while waiting:
        unknown = {target.name for target, _, _ in waiting}
        ready = [w for w in waiting if changing(w[1]).isdisjoint(unknown)]
        shapes: dict[str, list[Definition]] = {}
        for each in ready:
            shapes.setdefault(_skeleton(each[1]), []).append(each)
        yield from shapes.values()
        done = {id(w) for w in ready}
        waiting = [w for w in waiting if id(w) not in done]


def _skeleton(e: Expr) -> str:
    names = {c.name for c in columns(e)}
    layout = Layout({n: (0.0, 1.0) for n in names})
    return str(pattern(e, Leaves(layout)))
