"""A module as the program of one row, once it is shown that rows do not look at each other.

The network is exported for one row and for two. In the program of two every number carries the row
it comes from; an operation that joins numbers of both is refused, and so is an answer that is not
its own row's. Each row's part must then be the program of one row: the same operations with the
same arguments and constants, on the same numbers in the same order (`_same`), or the network asks
how many rows there are. That it does not for larger numbers either is shown by torch, which exports
it for any number of rows, with that number as a size and nothing else (`export.py`); where it
cannot (`len(x)` is a fixed number to it), the network is refused; the graph of a file, which has
no such branches but may read its own shape, is compared for further numbers of rows instead.

What a reader would get wrong: moves (views, slices, permutations) may differ between two programs,
as long as every number arrives where it does in the program of one row. So numbers carry their
place, too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported
from durometer.proofs.aten.encoder import encoded
from durometer.proofs.aten.export import exported, prepared, same_for_any_rows
from durometer.proofs.aten.moves import Constant, Gather, Move
from durometer.proofs.aten.program import Operation, Program
from durometer.proofs.aten.reader import KNOWN, read
from durometer.proofs.aten.state import check_keeps_nothing

_ANY = 19  # rows of the program for any number of rows
_MORE = (3, 19, 67)  # of a graph: no numbers that are likely to be written in a file
_PLACES = 2**32  # more than an operation has numbers
_ARRANGED = frozenset({"inputs", "shape", "place", "source"})  # fields that depend on the rows


def program_of(module: nn.Module, example: Tensor, graph: bool = False) -> Program:
    """The program of one row; `example` (1, ...) is an input as the module takes it.

    `graph`: the module plays the nodes of a file, among them those that read its own shape; where
    torch takes these for fixed numbers, programs of further numbers of rows are compared.
    """
    held, encoder = encoded(prepared(module))

    def rows(count: int) -> Tensor:
        return example.detach().expand(count, *example.shape[1:]).clone()

    def program(count: int) -> Program:
        return read(exported(held, rows(count), KNOWN), encoder)

    one = program(1)
    _same(one, program(2), 2)
    check_keeps_nothing(prepared(module), example.detach())
    traced = same_for_any_rows(held, rows(_ANY))
    for count in () if traced or not graph else _MORE:
        _same(one, program(count), count)
    if not traced and not graph:
        raise Unsupported(
            "Bounds: torch cannot trace the network for any number of rows; where it asks how many "
            "there are, `x.shape[0]` (or -1 in a view) may be any number, `len(x)` is a fixed one; "
            "use an attack alone"
        )
    return one


def _apart(program: Program, count: int) -> list[Tensor]:
    """Refuse a program of several rows whose numbers meet; the row of every number."""
    ids: list[Tensor] = []
    for operation in program.operations:
        if not ids:
            first = torch.arange(count).reshape(count, *[1] * (len(operation.shape) - 1))
            ids.append(first.expand(operation.shape))
            continue
        ids.append(operation.rows(*(ids[i] for i in operation.inputs)))
    last = ids[-1]
    own = torch.arange(count).reshape(count, *[1] * (last.ndim - 1)) if last.ndim else last
    if last.ndim < 1 or last.shape[0] != count or bool(((last != own) & (last >= 0)).any()):
        raise Unsupported(
            "Bounds: the network's answers are not one for each row, in the order of the rows"
        )
    return ids


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Where the numbers of a value come from: an operation and a place in the row, or nowhere."""

    at: Tensor  # int64; -1: a constant
    value: Tensor  # of constants; 0 elsewhere

    def moved(self, op: Gather) -> _Numbers:
        at, value = (t.flatten()[op.index.clamp_min(0)] for t in (self.at, self.value))
        out = op.index < 0
        return _Numbers(
            torch.where(out, -1, at).reshape(op.shape),
            torch.where(out, op.fill, value).reshape(op.shape),
        )

    def of_rows(self, row: _Rows) -> _Numbers:
        return _Numbers(row.split(self.at), row.split(self.value))

    def same(self, other: _Numbers) -> bool:
        """For every row?"""
        equal = (self.at == other.at) & (self.value == other.value)
        return bool((equal | (self.value.isnan() & other.value.isnan())).all())


@dataclass(frozen=True)
class _Rows:
    """How a value of `count` rows holds values of the shape `one`: along `axis`, rows together or
    taking turns; `axis` None: it is the same for all rows."""

    count: int
    one: tuple[int, ...]
    axis: int | None
    turns: bool

    @classmethod
    def of(cls, ids: Tensor, one: tuple[int, ...], count: int) -> _Rows | None:
        shape = tuple(ids.shape)
        if len(shape) != len(one):
            return None
        grown = [d for d, (a, b) in enumerate(zip(shape, one, strict=True)) if a != b]
        if not grown:
            return cls(count, one, None, False) if bool((ids < 0).all()) else None
        if len(grown) > 1 or shape[grown[0]] != count * one[grown[0]]:
            return None
        for turns in (False, True):
            rows = cls(count, one, grown[0], turns)
            held = rows.split(ids)
            own = torch.arange(count).reshape(count, *[1] * len(one))
            if bool(((held == own) | (held < 0)).all()):
                return rows
        return None

    def split(self, value: Tensor) -> Tensor:
        """(..., *shape of all) as (..., count, *one)."""
        first = value.ndim - len(self.one)
        if self.axis is None:
            return value.unsqueeze(first).expand(*value.shape[:first], self.count, *self.one)
        axis, size = first + self.axis, self.one[self.axis]
        sizes = (size, self.count) if self.turns else (self.count, size)
        shape = (*value.shape[:axis], *sizes, *value.shape[axis + 1 :])
        return value.reshape(shape).movedim(axis + int(self.turns), first)

    def join(self, value: Tensor) -> Tensor:
        """(count, *one) as the value of all rows; of what is the same for all, the first."""
        if self.axis is None:
            return value[0]
        return value.movedim(0, self.axis + int(self.turns)).flatten(self.axis, self.axis + 1)


def _same(one: Program, many: Program, count: int) -> None:
    """Refuse where a row's part of the program of many rows is not the program of one row."""
    steps = [k for k, op in enumerate(one.operations) if not isinstance(op, Move)]
    others = [k for k, op in enumerate(many.operations) if not isinstance(op, Move)]
    ids = _apart(many, count)
    rows: dict[int, _Rows] = {}
    if len(steps) != len(others):
        raise _counts("it has other operations")
    for j, k in zip(steps, others, strict=True):
        found = _Rows.of(ids[k], one.operations[j].shape, count)
        if found is None:
            raise _counts(one.operations[j].place)
        rows[k] = found
    alone = _numbers(one, {k: _Rows(1, one.operations[k].shape, None, False) for k in steps})
    held = _numbers(many, rows)
    last = (len(one.operations) - 1, len(many.operations) - 1)
    for step, (j, k) in enumerate(zip(steps, others, strict=True)):
        first, second = one.operations[j], many.operations[k]
        taken = []
        for a, b in zip(first.inputs, second.inputs, strict=True):
            found = _Rows.of(ids[b], one.operations[a].shape, count)
            if found is None or not held[b].of_rows(found).same(alone[a]):
                raise _counts(first.place)
            taken.append(found)
        if not _alike(first, second) or not _agree(first, second, taken, rows[k], step):
            raise _counts(first.place)
    end = _Rows.of(ids[last[1]], one.operations[last[0]].shape, count)
    if end is None or not held[last[1]].of_rows(end).same(alone[last[0]]):
        raise _counts("its answers are others")


def _counts(place: str) -> Unsupported:
    return Unsupported(
        f"Bounds: the network does something else for another number of rows ({place}); write it "
        "so that an answer depends on its own row only, or use an attack alone"
    )


def _numbers(program: Program, rows: dict[int, _Rows]) -> list[_Numbers]:
    """Where the numbers of every value come from."""
    held: list[_Numbers] = []
    step = 0
    for k, op in enumerate(program.operations):
        if isinstance(op, Constant):
            held.append(_Numbers(torch.full(op.shape, -1), op.value.expand(op.shape)))
        elif isinstance(op, Gather):
            held.append(held[op.inputs[0]].moved(op))
        elif isinstance(op, Move):  # without arithmetic and without a filling
            parts = [held[i] for i in op.inputs]
            at, value = (
                op.apply(*(t[None] for t in side))[0]
                for side in ([p.at for p in parts], [p.value for p in parts])
            )
            held.append(_Numbers(at, value))
        else:
            own = rows[k]
            places = torch.arange(_size(own.one)).reshape(own.one) + step * _PLACES
            at = own.join(places.expand(own.count, *own.one))
            held.append(_Numbers(at.reshape(op.shape), torch.zeros(op.shape).double()))
            step += 1
    return held


def _size(shape: tuple[int, ...]) -> int:
    return int(torch.tensor(shape).prod()) if shape else 1


def _alike(first: Operation, second: Operation) -> bool:
    """The same kind, with the same arguments that are no tensors."""
    if type(first) is not type(second):
        return False
    names = (f.name for f in fields(first) if f.name not in _ARRANGED)
    pairs: list[tuple[Any, Any]] = [(vars(first)[n], vars(second)[n]) for n in names]
    return all(a == b for a, b in pairs if _plain(a) or _plain(b))


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_plain(v) for v in value)
    return value is None or isinstance(value, bool | int | float | str)


def _agree(first: Operation, second: Operation, taken: list[_Rows], out: _Rows, seed: int) -> bool:
    """Do they give the same for numbers drawn at random, whatever tensors they hold?"""
    stream = torch.Generator().manual_seed(seed)
    for sign in (1.0, -1.0):
        values = []
        for row in taken:
            drawn = sign * torch.randn(row.count, *row.one, generator=stream, dtype=torch.float64)
            values.append(drawn[:1].expand_as(drawn) if row.axis is None else drawn)
        if not taken:
            continue
        alone = first.interval(*((v, v) for v in values))[0]
        joined = [row.join(v)[None] for row, v in zip(taken, values, strict=True)]
        whole = second.interval(*((v, v) for v in joined))[0]
        whole = out.split(whole.reshape(1, *second.shape))[0]
        alone = alone.expand_as(whole)
        if not torch.allclose(alone, whole, rtol=1e-9, atol=1e-9, equal_nan=True):
            return False
    return True
