"""Rows as they are played: finite, in the space's columns, with the model's classes.

Done once for data that are held, and part by part for data that are not (`Parquet`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from durometer.core.capabilities import HasModel, HasSchema, TakesGaps
from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.games.game import Game
from durometer.model.adapters import rule_behind
from durometer.model.frames import align_classes


def prepare_dataset(data: Dataset, game: Game, space: Any) -> Dataset:
    """The rows of a data set in the form in which this game on this space takes them."""
    table = isinstance(space, HasSchema)
    schema = space.schema if table else None
    _check_finite(data, table or (isinstance(game, TakesGaps) and game.gaps))
    if schema is not None:
        data = data.in_schema(schema)
    model = game.model if isinstance(game, HasModel) else game
    return _ruled(model, align_classes(model, data))


def _ruled(model: Any, data: Dataset) -> Dataset:
    """The data with the classes of the rule that the model decides by, where it has one."""
    rule = rule_behind(model)
    if rule is None or rule.count == 2:
        return data
    if rule.cuts is None:
        return replace(data, y=torch.ones(len(data), dtype=torch.long), classes=rule.names)
    names = rule.names
    if data.classes is None and int(data.y.max()) == rule.count - 1:
        return replace(data, classes=names)
    if data.classes is not None and set(data.classes) <= set(names):
        return replace(data, y=[data.classes[i] for i in data.y.tolist()], classes=names)
    raise DurometerError(
        f"{rule.sentence}: the classes are the bands {', '.join(names)}, and y holds "
        f"{', '.join(data.classes) if data.classes else f'0..{int(data.y.max())}'}; give the band "
        "that is right for each row, by name or counted from 0"
    )


def _check_finite(data: Dataset, gaps: bool) -> None:
    """Refuse what is no number; a missing cell is one where space or game know about `gaps`."""
    flat = data.x.reshape(len(data), -1)
    bad = flat.isinf() if gaps else ~flat.isfinite()
    if bool(bad.any()):
        row, column = (int(v) for v in bad.nonzero()[0])
        name = column if data.columns is None else f"'{data.columns.names[column]}'"
        cure = "drop or fill such rows first"
        if data.columns is not None and bool(flat[row, column].isnan()):
            cure += ", or move in a space that knows gaps: Schema.suggest(frame).space(eps=...)"
        raise DurometerError(
            f"{int(bad.any(1).sum())} of {len(data)} inputs hold NaN or infinite values, the first "
            f"in row {row} (id {data.ids[row]}), feature {name}: {float(flat[row, column])}; {cure}"
        )
