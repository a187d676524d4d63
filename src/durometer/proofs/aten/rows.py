"""A module as the program of one row, once it is shown that rows do not look at each other.

The network is exported for one row, for two and for some more. In the program of two every number
carries the row it comes from; an operation that joins numbers of both is refused, and so is an
answer that is not its own row's. Programs of different numbers of rows must be the same operations
with the same constants, or the network asks how many rows there are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from durometer.core.errors import Unsupported
from durometer.proofs.aten.encoder import encoded
from durometer.proofs.aten.export import exported, prepared
from durometer.proofs.aten.program import Program
from durometer.proofs.aten.reader import KNOWN, read

_MANY = 19  # rows of the third program: other than any threshold that is likely


def program_of(module: nn.Module, example: Tensor) -> Program:
    """The program of one row; `example` (1, ...) is an input as the module takes it."""
    held, encoder = encoded(prepared(module))
    programs: dict[int, Program] = {}
    for rows in (1, 2, _MANY):
        x = example.detach().expand(rows, *example.shape[1:]).clone()
        programs[rows] = read(exported(held, x, KNOWN), encoder)
    one, two, many = programs.values()
    if not one.signature() == two.signature() == many.signature():
        raise Unsupported(
            "Bounds: the network does something else for another number of rows; write it so that "
            "an answer depends on its own row only, or use an attack alone"
        )
    _apart(two)
    return one


def _apart(program: Program) -> None:
    """Refuse a program of two rows whose numbers meet."""
    ids: list[Tensor] = []
    for operation in program.operations:
        if not ids:
            first = torch.arange(2).reshape(2, *[1] * (len(operation.shape) - 1))
            ids.append(first.expand(operation.shape))
            continue
        ids.append(operation.rows(*(ids[i] for i in operation.inputs)))
    last = ids[-1]
    own = torch.arange(2).reshape(2, *[1] * (last.ndim - 1)) if last.ndim else last
    if last.ndim < 1 or last.shape[0] != 2 or bool(((last != own) & (last >= 0)).any()):
        raise Unsupported(
            "Bounds: the network's answers are not one for each row, in the order of the rows"
        )
