"""What users hand over: made dense tensors, plain ids and classes, or refused with the fix.

What a reader would get wrong: numpy drops the mask of a masked array without a word, and a masked
cell then holds whatever lay under the mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from durometer.core.errors import DurometerError, nearest

FLOATS = (torch.float16, torch.float32, torch.float64)


def refuse_masked(values: Any, what: str) -> Any:
    """The same values, where none of them is masked."""
    if isinstance(values, np.ma.MaskedArray) and bool(np.ma.getmaskarray(values).any()):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise DurometerError(
            f"{what} is a masked array with {int(np.ma.getmaskarray(values).sum())} masked values, "
            f"the first in row {row}: drop or fill them first, {what}.filled(...)"
        )
    return values


def check_array(values: Any, what: str = "x") -> Tensor:
    """A tensor with content, of a kind that all attacks can compute with."""
    if not isinstance(values, Tensor):
        try:
            # A copy: numpy views may be read-only.
            return _checked(torch.as_tensor(np.array(refuse_masked(values, what))), what)
        except (TypeError, ValueError) as error:
            said = str(error).split(". The only supported")[0]
            raise DurometerError(
                f"{what} cannot be read as numbers ({said}); give a table with text as a frame: "
                "Dataset(pandas.DataFrame(...), y)"
            ) from None
    if values.layout != torch.strided:
        raise DurometerError(f"{what} is a sparse tensor; expected a dense one: {what}.to_dense()")
    if values.is_meta:
        raise DurometerError(
            f"{what} is a tensor on the device 'meta': it has a shape and no content"
        )
    return _checked(values.detach(), what)


def _checked(x: Tensor, what: str) -> Tensor:
    if x.ndim == 0:
        raise DurometerError(f"{what} has shape (); expected (examples, features...)")
    if x.is_floating_point() and x.dtype not in FLOATS:
        raise DurometerError(
            f"{what} has dtype {x.dtype}; expected float32 or float64: {what}.float() converts it"
        )
    return x


def is_torch_data(values: Any) -> bool:
    """Is it a torch data set or loader?"""
    from torch.utils.data import DataLoader, Dataset

    return isinstance(values, Dataset | DataLoader)


def from_torch(source: Any) -> tuple[Tensor, Tensor]:
    """Inputs and classes of a torch data set or loader, each row once, in the data set's order."""
    from torch.utils.data import DataLoader, IterableDataset

    loader = source
    if not isinstance(source, DataLoader):
        loader = DataLoader(source, batch_size=256)
    elif not isinstance(source.dataset, IterableDataset):  # it may shuffle, or leave out the rest
        loader = DataLoader(source.dataset, batch_size=256, collate_fn=source.collate_fn)
    xs, ys = [], []
    for batch in loader:
        pair = isinstance(batch, list | tuple) and len(batch) == 2
        if not (pair and all(isinstance(part, Tensor) for part in batch)):
            kinds = type(batch).__name__
            if isinstance(batch, list | tuple):
                kinds = f"({', '.join(type(part).__name__ for part in batch)})"
            raise DurometerError(
                f"the torch data give {kinds}; expected pairs (inputs, classes) of tensors: turn "
                "images into tensors (torchvision.transforms.ToTensor), or give x and y yourself"
            )
        xs.append(batch[0])
        ys.append(batch[1])
    if not xs:
        raise DurometerError("the data set is empty: there is nothing to evaluate")
    return torch.cat(xs), torch.cat(ys)


def check_classes(values: Any) -> Any:
    """True classes as an array."""
    if isinstance(values, Tensor):
        if values.is_meta or values.layout != torch.strided:
            raise DurometerError("y is a tensor without content, or sparse; expected a dense one")
        if values.dtype == torch.bfloat16:
            values = values.float()
        values = values.detach().cpu().numpy()
    try:
        made = np.asarray(refuse_masked(values, "y"))
    except ValueError as error:
        raise DurometerError(
            f"y cannot be read as classes ({error}); expected one per row"
        ) from None
    if made.ndim == 2 and made.shape[1] > 1 and made.dtype.kind in "biuf":
        hot = bool(((made == 0) | (made == 1)).all()) and bool((made.sum(1) == 1).all())
        raise DurometerError(
            f"y has shape {made.shape}; expected one class per row of x"
            + (": these rows are one-hot, y.argmax(1) gives their classes" if hot else
               ". Of several labels a row one is evaluated at a time: y[:, j] with "
               "du.wrap(model, label=j)")
        )  # fmt: skip
    if made.ndim != 1:
        raise DurometerError(f"y has shape {made.shape}; expected one class per row of x")
    if made.dtype.kind == "c":
        raise DurometerError(f"y has dtype {made.dtype}; expected class indices 0..C-1")
    return made


def check_ids(values: Any, n: int) -> np.ndarray:
    """(n,) ids, all numbers or all text: those of several kinds are told apart as text."""
    if values is None:
        return np.arange(n)
    listed = refuse_masked(values, "ids")
    if not isinstance(listed, np.ndarray):
        listed = list(listed) if hasattr(listed, "__iter__") else [listed]
        kinds = {type(v) for v in listed}
        wrong = [v for v in listed if not isinstance(v, str | int | float | np.generic)]
        if wrong:
            raise DurometerError(
                f"ids hold {wrong[0]!r}; expected numbers or text, one per example"
            )
        if len({issubclass(k, str) for k in kinds}) > 1:
            raise DurometerError(
                "ids hold numbers and text; expected one kind: [str(i) for i in ids]"
            )
    if isinstance(listed, np.ndarray) and listed.dtype.kind == "O":
        return check_ids(listed.tolist(), n)
    made = np.asarray(listed)
    if made.dtype.kind == "O":  # whole numbers beyond 64 bits
        made = np.array([str(v) for v in listed])
    if made.ndim != 1:
        raise DurometerError(f"ids have shape {made.shape}; expected ({n},), one per example")
    return made


def check_class_names(listed: Any) -> tuple[str, ...] | None:
    """Names of classes."""
    if listed is None:
        return None
    if isinstance(listed, str) or not hasattr(listed, "__iter__"):
        raise DurometerError(f"classes={listed!r}: expected a list of names, e.g. ('no', 'yes')")
    return tuple(str(c) for c in listed)


def check_labels(y: Any, called: Any) -> tuple[Tensor, tuple[str, ...] | None]:
    """Class indices, and names where labels are no indices: their sorted order is the classes'."""
    known = check_class_names(called)
    if y is None:
        raise DurometerError("y is missing: give the true classes, y=, or target= for a table")
    values = check_classes(y)
    if values.dtype.kind in "iuf":
        wrong = (
            values[values != np.round(values)] if values.dtype.kind == "f" else values[values < 0]
        )
        if (len(wrong) and values.ndim == 1) or (values.size and values.min() < 0):
            first = wrong.ravel()[0] if wrong.size else values.min()
            if set(np.unique(values).tolist()) == {-1, 1}:
                raise DurometerError(
                    "y holds -1 and 1, which are labels and no class indices 0..C-1; give them as "
                    "text, [str(v) for v in y]: then the classes are '-1' and '1', and a model "
                    "fitted on -1 and 1 is matched by these names"
                )
            raise DurometerError(
                f"y holds {first}; expected class indices 0..C-1, or labels as text: "
                "[str(v) for v in y]"
            )
        return torch.as_tensor(np.array(values)).long(), known
    if any(v is None or v != v for v in values.ravel().tolist()):
        raise DurometerError("y has missing labels; drop those rows first")
    text = np.array([str(v) for v in values.tolist()]) if values.ndim == 1 else values
    if known is None:
        known = tuple(np.unique(text).tolist())
    unknown = [v for v in text.tolist() if v not in known]
    if unknown:
        raise DurometerError(f"y holds '{unknown[0]}', no class{nearest(str(unknown[0]), known)}")
    place = {name: i for i, name in enumerate(known)}
    return torch.tensor([place[v] for v in text.tolist()]), known
