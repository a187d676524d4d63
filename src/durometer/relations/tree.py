"""Expressions and relations as a tree: what stands below what."""

from __future__ import annotations

from collections.abc import Iterator

from durometer.relations.expression import And, Compare, Count, Expr, In, Op, Or, Relation, Where


def walk(node: Expr | Relation) -> Iterator[Expr | Relation]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def children(node: Expr | Relation) -> tuple[Expr | Relation, ...]:
    """The nodes directly below."""
    match node:
        case Op():
            return node.args
        case Count() | And() | Or():
            return node.operands
        case Where():
            return (node.test, node.yes, node.no)
        case Compare():
            return (node.left, node.right)
        case In():
            return (node.item, *node.values)
    return ()
