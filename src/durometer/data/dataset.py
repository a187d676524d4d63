"""Dataset: examples in problem units, true classes, ids that survive shuffling and sharding.

`x` keeps the units of the problem (pixels in [0, 1], dollars, counts): spaces scale, data sets do
not. `y` holds class *indices* 0..C-1; `classes` holds their names. A table (pandas, polars, Arrow,
a mapping of columns) is converted once, to float64, and kept as it came in `table`: a model that
was fitted on frames is asked with frames, and slices may name any of its columns.

What a reader would get wrong: text, dates and missing cells are numbers in `x` only (`columns` says
how, and leads back). With a schema the columns of `x` are in the schema's order, not the table's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import InitVar, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from durometer.core import notebook_html
from durometer.core.errors import DurometerError, nearest
from durometer.core.validation import noun
from durometer.data import array_validation, row_indexing
from durometer.data.columns import Columns, as_frame
from durometer.spaces import token_ids

if TYPE_CHECKING:
    import pandas as pd

PART = 65536  # rows at a time, where a copy of all of them would be large


@noun(eq=False)
class Dataset:
    """Examples with their true classes, in the units of the problem.

    A table (pandas, polars, Arrow, a mapping of columns) is converted to float64 once and kept in
    `table` as it came, so that a model fitted on data frames is asked with data frames.

    Args:
        x: The inputs: a tensor or array (n, ...) of floats, a list of texts, a table, or a torch
            `Dataset` or `DataLoader` of (input, class) pairs, read in the order of its data set.
            Units are those of the problem (pixels in [0, 1], dollars, counts); spaces scale, data
            sets do not. Images of bytes (uint8) keep theirs: attack them in a box of these, e.g.
            `Linf(8, 0, 255)`.
        y: The true classes (n,): indices 0..C-1, or labels (text, booleans), which become indices
            in sorted order. Leave it out where `target` names a column or `x` is a torch data set.
        ids: One unique id per row, or the name of a column of the table. Default: the table's index
            where that is unique, else 0..n-1. Random numbers and shards depend on the ids, not on
            the order.
        schema: A `Schema` that describes the columns. Columns of a table that it does not name are
            kept for slices only.
        classes: Names of the classes, in the order of the indices.
        name: What reports call the data.
        columns: How the cells of the table became numbers; filled in by the data set itself.
        table: The table as it came in; filled in by the data set itself.
        target: The column of the table that holds the true classes.
        names: Names of the columns where `x` is an array.
        extra: Columns of the table that are not features; they are kept for slices.

    Raises:
        DurometerError: Shapes or types do not fit, ids repeat, a column does not exist, or there is
            no row.

    >>> table = {"age": [31, 45], "job": ["clerk", None], "paid": ["no", "yes"]}
    >>> data = Dataset(table, target="paid")
    >>> data.classes, data.y.tolist(), data.x.tolist()
    (('no', 'yes'), [0, 1], [[31.0, 0.0], [45.0, nan]])
    >>> len(data.where(y="yes")), len(data.where(job="clerk")), len(data[:1])
    (1, 1, 1)
    """

    x: Any
    y: Any = None
    ids: Any = None
    schema: Any = None
    classes: tuple[str, ...] | None = None
    name: str = ""
    columns: Columns | None = None  # of a table
    table: Any = None  # as it came in, all its columns
    target: InitVar[str | None] = None
    names: InitVar[Sequence[str] | None] = None
    extra: InitVar[Sequence[str]] = ()

    def __post_init__(
        self, target: str | None, names: Sequence[str] | None, extra: Sequence[str]
    ) -> None:
        if array_validation.is_torch_data(self.x):
            if self.y is not None:
                raise DurometerError(
                    "y= and a torch data set, which has the classes itself; give one"
                )
            x, y = array_validation.from_torch(self.x)
            self._set(x=x, y=y)
        frame = as_frame(self.x)
        if frame is not None:
            self._read(frame, target, [extra] if isinstance(extra, str) else list(extra))
        elif target is not None or isinstance(self.ids, str) or extra:
            raise DurometerError("target=, ids= and extra= name columns of a table, and x is none")
        texts = token_ids.as_texts(self.x)
        if texts is not None and row_indexing.is_series(self.x):
            self._set(y=row_indexing.check_index_order(self.y, self.x, "y"))
            if self.ids is None:
                self._set(ids=row_indexing.index_as_ids(self.x))
        x = array_validation.check_array(self.x) if texts is None else token_ids.encode(texts)
        if x.dtype == torch.uint8:
            x = x.float()  # in the units they are stored in: a space says low=0, high=255
        if self.schema is not None and not hasattr(self.schema, "features"):
            raise DurometerError(f"schema={self.schema!r}: expected an du.Schema")
        if self.schema is not None and x.ndim == 2 and x.shape[1] == len(self.schema):
            x = x.to(torch.float64)  # sums of counts and ratios do not survive float32
            if self.columns is None and names is None:
                self._set(columns=self.schema.columns)
        if names is not None:
            self._set(columns=Columns.named(names))
        y, classes = array_validation.check_labels(self.y, self.classes)
        ids = array_validation.check_ids(self.ids, len(x))
        self._set(x=x, y=y, ids=ids, classes=classes)
        self._check()

    def space(self, **given: Any) -> Any:
        """What may change in these data, by their schema: `schema.space(**given)`.

        Raises:
            DurometerError: The data have no schema.
        """
        if self.schema is None:
            raise DurometerError(
                "these data have no schema, which says what may change in a table: give one, "
                "du.Dataset(..., schema=du.Schema(...)), or move in e.g. du.Linf(0.1)"
            )
        return self.schema.space(**given)

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _read(self, frame: pd.DataFrame, target: str | None, extra: list[str]) -> None:
        """A table, converted once."""
        named = [c for c in (target, self.ids) if isinstance(c, str)]
        for column in (*named, *extra):
            if column not in frame.columns:
                known = [str(c) for c in frame.columns]
                raise DurometerError(f"no column '{column}' in the table{nearest(column, known)}")
        if target is not None and self.y is not None:
            raise DurometerError(f"target={target!r} and y= were both given; expected one of them")
        if not len(frame):
            raise DurometerError("the data set is empty: there is nothing to evaluate")
        self._set(
            y=row_indexing.check_index_order(
                self.y if target is None else frame[target], frame, "y"
            )
        )
        if isinstance(self.ids, str):
            self._set(ids=frame[self.ids].to_numpy())
        elif self.ids is None:
            self._set(ids=row_indexing.index_as_ids(frame))
        if self.schema is not None:
            columns = self.schema.columns_of(frame)
            x = self.schema.tensor(frame).numpy()
        else:
            features = [c for c in frame.columns if c not in (*named, *extra)]
            columns = Columns.of(frame[features])
            x = columns.array(frame)
        self._set(x=x, columns=columns, table=frame)

    def _check(self) -> None:
        n = len(self.x)
        if not isinstance(self.name, str):
            raise DurometerError(f"name={self.name!r}: expected text")
        if n == 0:
            raise DurometerError("the data set is empty: there is nothing to evaluate")
        if self.x.ndim < 2:
            raise DurometerError(
                f"x has shape {tuple(self.x.shape)}; expected (examples, features...)"
            )
        if not self.x.is_floating_point():
            raise DurometerError(f"x has dtype {self.x.dtype}; expected float32, float64 or uint8")
        if self.columns is not None and self.x.shape[1:] != (len(self.columns),):
            raise DurometerError(f"{len(self.columns)} names for x of shape {tuple(self.x.shape)}")
        if self.y.shape != (n,):
            raise DurometerError(
                f"y has shape {tuple(self.y.shape)}; expected ({n},), one per row of x"
            )
        if self.classes is not None and int(self.y.max()) >= len(self.classes):
            raise DurometerError(
                f"y holds class {int(self.y.max())}, but only {len(self.classes)} class names "
                "were given"
            )
        if len(self.ids) != n:
            raise DurometerError(f"{len(self.ids)} ids for {n} examples")
        if len(np.unique(self.ids)) != n:
            values, counts = np.unique(self.ids, return_counts=True)
            twice = values[counts > 1].tolist()[0]
            raise DurometerError(f"id {twice!r} occurs {counts.max()} times; ids must be unique")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"words": token_ids.words_in(self.x)}  # ids mean nothing elsewhere

    def __setstate__(self, state: dict[str, Any]) -> None:
        token_ids.register_words(state.pop("words"))
        self.__dict__.update(state)

    def __len__(self) -> int:
        return len(self.x)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        mine, theirs = ((d.hash, d.classes, d.schema) for d in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        shape = "x".join(str(s) for s in self.x.shape[1:])
        classes = f", classes {', '.join(self.classes[:4])}" if self.classes else ""
        more = " ..." if self.classes and len(self.classes) > 4 else ""
        gaps = int(self.x.isnan().sum()) if self.columns is not None else 0
        missing = f", {gaps} missing cells" if gaps else ""
        name = self.name or "unnamed"
        return f"Dataset({name}: {len(self)} x {shape}{classes}{more}{missing}, {self.hash})"

    def _repr_html_(self) -> str:
        named = enumerate(torch.bincount(self.y).tolist())
        counts = [(self.classes[c] if self.classes else c, n) for c, n in named]
        rows = "" if self.columns is None else self.frame(self.head()).to_html()
        return (
            notebook_html.text(repr(self))
            + notebook_html.table(("class", "rows"), counts, 20)
            + rows
        )

    def frame(self, x: Any = None) -> pd.DataFrame:
        """Rows as a data frame in the types of the original table.

        Args:
            x: Inputs (n, features), e.g. `report.adversarial`, or another data set. None: all rows
                of this one.

        Returns:
            A pandas data frame, indexed by the ids where the rows are a data set's.

        Raises:
            DurometerError: The data have no columns: no table, no schema and no `names`.
        """
        if self.columns is None:
            raise DurometerError(
                "these data have no columns: give names=[...], a table or a schema"
            )
        rows = self.x if x is None else x.x if isinstance(x, Dataset) else torch.as_tensor(x)
        made = self.columns.frame(rows.detach().cpu().numpy())
        if x is None or isinstance(x, Dataset):
            made.index = (self if x is None else x).ids
        return made

    def __getitem__(self, rows: Any) -> Dataset:
        if isinstance(rows, str | tuple):
            raise DurometerError(
                f"data[{rows!r}]: expected rows, e.g. data[10:20] or data[mask]; a column is "
                "data.column(name)"
            )
        return self.take([rows] if isinstance(rows, int | np.integer) else rows)

    def take(self, rows: Any) -> Dataset:
        """Selects rows by position; they keep their ids.

        Args:
            rows: Indices, a slice or a boolean mask.

        Returns:
            A data set of these rows, in the order given.

        Raises:
            DurometerError: No row is left.
        """
        index = row_indexing.row_positions(rows, self)
        if not len(index):
            raise DurometerError(f"no row of {len(self)} is left: there is nothing to evaluate")
        return self.rows(index, self.ids[index.numpy()])

    def rows(self, index: Tensor, ids: Any) -> Dataset:
        """Selects rows by position, possibly repeated, under new ids.

        Args:
            index: Positions of the rows (m,).
            ids: The new ids (m,), unique.
        """
        table = None if self.table is None else self.table.iloc[index.numpy()]
        return replace(self, x=self.x[index], y=self.y[index], ids=ids, table=table)

    def where(self, rows: Any = None, /, **values: Any) -> Dataset:
        """Selects rows by a mask, a function or the values of columns.

        Args:
            rows: A boolean mask (a pandas Series is aligned by its index), or a function that takes
                the data set and returns one.
            **values: `y=` selects classes, by index or name; any other keyword names a column of
                the table: `data.where(y="paid", purpose=["car", "house"])`. A list selects any of
                its values, None selects missing cells.

        Returns:
            A data set of the rows that meet all conditions.

        Raises:
            DurometerError: No row meets them, or a column does not exist.
        """
        keep = torch.ones(len(self), dtype=torch.bool)
        if rows is not None:
            keep &= row_indexing.mask(rows, self)
        for column, value in values.items():
            keep &= row_indexing.matches(self, column, value)
        if not bool(keep.any()):
            raise DurometerError(f"no row has {values or 'what the mask asks for'}")
        return self.take(keep)

    def column(self, name: str) -> np.ndarray:
        """One column of the table, in its original type.

        Args:
            name: The name of the column: a feature or an extra column.

        Returns:
            An array with one value per row.

        Raises:
            DurometerError: There is no such column.
        """
        if self.table is not None and name in self.table.columns:
            return np.asarray(self.table[name].to_numpy())
        if self.columns is not None and name in self.columns.names:
            i = self.columns.place([name])[0]
            return np.asarray(self.columns.each[i].decode(self.x[:, i].numpy()))
        known = [*(() if self.table is None else map(str, self.table.columns))]
        known += [] if self.columns is None else self.columns.names
        raise DurometerError(f"no column '{name}' in the data{nearest(name, dict.fromkeys(known))}")

    def head(self, n: int = 5) -> Dataset:
        """The first rows.

        Args:
            n: How many.
        """
        return self[:n]

    def sample(self, n: int, seed: int = 0) -> Dataset:
        """Draws rows without replacement; the draw depends on the seed and the ids only.

        Args:
            n: How many rows.
            seed: Seed of the draw.

        Returns:
            A data set of these rows, in the order of the data.

        Raises:
            DurometerError: There are fewer than `n` rows.
        """
        if not isinstance(n, int | np.integer) or not 0 < n <= len(self):
            raise DurometerError(f"a sample of {n} rows asked for, but the data has {len(self)}")
        return self.take(self._draws(seed, "sample").argsort()[:n].sort().values)

    def split(self, share: float = 0.25, seed: int = 0) -> tuple[Dataset, Dataset]:
        """Splits the rows at random into two data sets; the split depends on the seed and the ids
        only.

        Args:
            share: Share of the rows that go to the second part, between 0 and 1.
            seed: Seed of the split.

        Returns:
            The two parts, e.g. a training and a test set.

        Raises:
            DurometerError: One part would be empty.

        >>> train, test = Dataset([[float(i)] for i in range(100)], [0, 1] * 50).split(0.2)
        >>> len(train), len(test)
        (80, 20)
        """
        n = round(share * len(self))
        if not 0 < n < len(self):
            raise DurometerError(f"split({share}): expected a share that leaves rows in both parts")
        order = self._draws(seed, "split").argsort()
        return self.take(order[n:].sort().values), self.take(order[:n].sort().values)

    def _draws(self, seed: int, purpose: str) -> Tensor:
        from durometer.core.streams import Stream, keys

        stream = Stream(seed, keys(self.ids), purpose=purpose)
        return stream.uniform(torch.arange(len(self)), 1)[:, 0]

    def in_schema(self, schema: Any) -> Dataset:
        """The same rows with the columns that a schema describes, matched by name and in its order.

        Args:
            schema: The `Schema`.

        Raises:
            DurometerError: A column of the schema is not in the data.
        """
        if self.schema is not None and self.schema.columns.alike(schema.columns):
            return self
        if self.table is not None and set(schema.names) <= {str(c) for c in self.table.columns}:
            return replace(
                self, x=schema.tensor(self.table), schema=schema,
                columns=schema.columns_of(self.table),
            )  # fmt: skip
        if self.columns is None or self.x.ndim != 2:
            return replace(self, schema=schema)
        missing = [name for name in schema.names if name not in self.columns.names]
        if missing:
            raise DurometerError(
                f"column '{missing[0]}' of the schema is not in the data"
                f"{nearest(missing[0], self.columns.names)}"
            )
        at = self.columns.place(schema.names)
        return replace(self, x=self.x[:, at], schema=schema, columns=None)

    @property
    def hash(self) -> str:
        """A digest of inputs, labels and ids; the same for the same contents on every machine."""
        digest = hashlib.blake2b(digest_size=6)
        for part in (self.x.cpu().contiguous().numpy(), self.y.cpu().numpy()):
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        for start in range(0, len(self), PART):  # a million texts at once are a lot of memory
            some = self.ids[start : start + PART].tolist()
            digest.update(("\n" * bool(start) + "\n".join(map(str, some))).encode())
        return digest.hexdigest()

    @property
    def by_id(self) -> pd.DataFrame | None:
        """The original table, indexed by id; None where the data did not come as a table."""
        return None if self.table is None else self.table.set_axis(self.ids, axis=0)

    def digests(self, rows: slice | np.ndarray = slice(None)) -> np.ndarray:
        """A number for the contents of each input: the same wherever the same input turns up.

        Args:
            rows: Which rows: a slice or an array of positions. Default: all.

        Returns:
            An array of int64, never 0.
        """
        flat = self.x[rows].cpu().double().flatten(1).contiguous().numpy() + 0.0  # no -0.0
        made = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in flat)
        numbers = np.frombuffer(made, dtype="<i8")
        return np.where(numbers == 0, 1, numbers)  # 0 is: not known
