"""Dataset: inputs in problem units, true classes, ids that survive shuffling and sharding.

`x` keeps the units of the problem (pixels in [0, 1], dollars, counts): spaces scale, data sets do
not. `y` holds class *indices* 0..C-1; `classes` holds their names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from assay.errors import AssayError, nearest
from assay.kernels.arrays import Floats


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    try:
        return torch.as_tensor(np.array(values))  # a copy: numpy views may be read-only
    except (TypeError, ValueError) as error:
        fix = (
            "give class indices 0..C-1, and their names as classes="
            if what == "y"
            else "encode text columns first: schema.tensor(frame) does it for a table"
        )
        said = str(error).split(". The only supported")[0]
        raise AssayError(f"{what} cannot be read as numbers ({said}); {fix}") from None


def in_order(model: Any, data: Any) -> None:
    """Refuse a table whose columns are the model's, but in another order."""
    given = getattr(data, "columns", None)
    wanted = getattr(getattr(model, "source", None) or model, "feature_names_in_", None)
    if given is None or wanted is None:
        return
    have, want = [str(c) for c in given], [str(c) for c in wanted]
    if have != want and sorted(have) == sorted(want):
        i = next(i for i, (a, b) in enumerate(zip(have, want, strict=True)) if a != b)
        raise AssayError(
            f"column {i} is {have[i]!r}, but the model was fitted with {want[i]!r} there; give the "
            "columns in its order: frame[list(model.feature_names_in_)]"
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples `x` (n, ...) with class indices `y` (n,).

    >>> data = Dataset([[0.1, 0.9], [0.4, 0.2]], [0, 1], classes=("no", "yes"))
    >>> len(data.where(y="yes"))
    1
    """

    x: Any
    y: Any
    ids: Any = None
    schema: Any = None
    classes: tuple[str, ...] | None = None
    name: str = ""
    columns: tuple[str, ...] | None = None  # a DataFrame brings its own

    def __post_init__(self) -> None:
        if self.columns is None and hasattr(self.x, "columns"):
            object.__setattr__(self, "columns", tuple(str(c) for c in self.x.columns))
        x, y = _tensor(self.x, "x"), _tensor(self.y, "y")
        ids = np.arange(len(x)) if self.ids is None else np.asarray(self.ids)
        for field, value in (("x", x), ("y", y), ("ids", ids)):
            object.__setattr__(self, field, value)
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(str(c) for c in self.classes))
        self._check()

    def _check(self) -> None:
        n = len(self.x)
        if n == 0:
            raise AssayError("the data set is empty: there is nothing to evaluate")
        if self.x.ndim < 2:
            raise AssayError(f"x has shape {tuple(self.x.shape)}; expected (examples, features...)")
        if not self.x.is_floating_point():
            hint = " (for 8-bit images: x / 255.0)" if self.x.dtype == torch.uint8 else ""
            raise AssayError(f"x has dtype {self.x.dtype}; expected float32 or float64{hint}")
        if self.y.shape != (n,):
            raise AssayError(
                f"y has shape {tuple(self.y.shape)}; expected ({n},), one per row of x"
            )
        if self.y.is_floating_point() and not bool((self.y == self.y.round()).all()):
            wrong = float(self.y[self.y != self.y.round()][0])
            raise AssayError(f"y holds {wrong}; expected class indices 0..C-1")
        object.__setattr__(self, "y", self.y.long())
        if bool((self.y < 0).any()):
            raise AssayError(f"y holds {int(self.y.min())}; expected class indices 0..C-1")
        if self.classes is not None and int(self.y.max()) >= len(self.classes):
            raise AssayError(
                f"y holds class {int(self.y.max())}, but only {len(self.classes)} class names "
                "were given"
            )
        if len(self.ids) != n:
            raise AssayError(f"{len(self.ids)} ids for {n} examples")
        if len(np.unique(self.ids)) != n:
            values, counts = np.unique(self.ids, return_counts=True)
            twice = values[counts > 1].tolist()[0]
            raise AssayError(f"id {twice!r} occurs {counts.max()} times; ids must be unique")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        shape = "x".join(str(s) for s in self.x.shape[1:])
        return f"Dataset({self.name or 'unnamed'}: {len(self)} x {shape}, {self.hash})"

    def take(self, rows: Any) -> Dataset:
        """The rows at these positions (indices, a slice or a boolean mask), ids kept."""
        if isinstance(rows, slice):
            rows = range(*rows.indices(len(self)))
        index = torch.as_tensor(np.asarray(rows))
        if index.dtype == torch.bool:
            index = index.nonzero()[:, 0]
        index = index.long()
        if index.numel() and not (-len(self) <= int(index.min()) <= int(index.max()) < len(self)):
            raise AssayError(f"row {int(index.max())} asked for, but the data has {len(self)} rows")
        return replace(self, x=self.x[index], y=self.y[index], ids=self.ids[index.numpy()])

    def where(self, y: int | str | Sequence[int | str]) -> Dataset:
        """The rows of a class (or of several), by index or by name."""
        wanted = [y] if isinstance(y, int | str | np.integer) else list(y)
        index = torch.tensor([self._class(c) for c in wanted])
        rows = torch.isin(self.y, index)
        if not bool(rows.any()):
            raise AssayError(f"no row has class {wanted}; classes here: {self.y.unique().tolist()}")
        return self.take(rows)

    def sample(self, n: int, seed: int = 0) -> Dataset:
        """`n` rows drawn without replacement; the draw depends on the seed and the ids alone."""
        from assay.streams import Stream, keys

        if not isinstance(n, int | np.integer) or not 0 < n <= len(self):
            raise AssayError(f"a sample of {n} rows asked for, but the data has {len(self)}")
        draws = Stream(seed, keys(self.ids)).uniform(torch.arange(len(self)), 1)[:, 0]
        return self.take(draws.argsort()[:n].sort().values)

    def _class(self, c: int | str) -> int:
        if not isinstance(c, str):
            return int(c)
        if self.classes is None:
            raise AssayError(f"class '{c}' asked for by name, but the data set has no class names")
        if c not in self.classes:
            raise AssayError(f"no class '{c}'{nearest(c, self.classes)}")
        return self.classes.index(c)

    @property
    def hash(self) -> str:
        """A digest of contents: inputs, labels and ids, independent of memory layout."""
        digest = hashlib.blake2b(digest_size=6)
        for part in (self.x.cpu().contiguous().numpy(), self.y.cpu().numpy()):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(part.tobytes())
        digest.update("\n".join(str(i) for i in self.ids.tolist()).encode())
        return digest.hexdigest()


def rows_of(data: Any) -> Floats:
    """Records as float64 (n, features), whatever they come in."""
    x = data.x if isinstance(data, Dataset) else data
    x = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)
    if x.ndim < 2:
        raise AssayError(
            f"records of shape {x.shape}: expected (n, features); one alone is x[None]"
        )
    return np.ascontiguousarray(x.reshape(len(x), -1).astype(np.float64))


def feature_names(data: Any, features: int) -> list[Any]:
    """Columns with their units, names of a schema, or numbers."""
    if getattr(data, "columns", None) is not None:
        units = getattr(data, "attrs", {}).get("units", {})
        return [f"{name} [{units[name]}]" if name in units else name for name in data.columns]
    listed = getattr(getattr(data, "schema", None), "names", None)
    return list(listed) if listed is not None and len(listed) == features else list(range(features))
