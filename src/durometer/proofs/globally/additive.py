"""A linear model over the columns of a table: scores as sums of what each feature adds by itself.

    score = base + sum over numbers of slope * x + sum over categories of table[x]

A missing value adds what the imputer before the model makes of it. Read are estimators with
`coef_`, alone or behind steps that treat columns one by one (scalers, imputers, one-hot and ordinal
encoders), and a torch `Linear`. What such steps do to a column is read off their own outputs, at
both of its bounds and at every code, so no formula of theirs is repeated here.

What a reader would get wrong: a scaler that clips, or any step that bends a number, is no slope.
Steps are known by their exact type, and the reading is compared with the model's own answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from durometer.core.errors import Unsupported
from durometer.kernels.arrays import Bools, Floats, Ints
from durometer.model.classifier import Classifier
from durometer.model.exact_types import replaced_method
from durometer.model.frames import column_indices
from durometer.proofs.search.linear_form import weights_of
from durometer.tables.schema import Schema
from durometer.trees.readers.encoded import encoded, inputs_of, owners

_TRIED = 400  # records that reading and model are compared on
_AFFINE = (
    "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "SimpleImputer",
    "OneHotEncoder", "OrdinalEncoder", "FunctionTransformer",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Additive:
    """Scores (n, outputs) as sums; with one output the class is 1 where the sum exceeds 0."""

    source: str
    classes: tuple[Any, ...]
    codes: tuple[Floats | None, ...]  # of each feature: of a category, its values
    slope: Floats  # (d, outputs), 0 for categories
    table: Floats  # (codes of all categories, outputs)
    gone: Floats  # (d, outputs): what a missing value adds
    base: Floats  # (outputs,)
    missing: bool  # does it take missing values anywhere?
    never_missing: tuple[int, ...]
    rounding: float  # what its own arithmetic may move a score by
    cut: float = 0.0

    @property
    def outputs(self) -> int:
        return len(self.base)

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @property
    def n_features(self) -> int:
        return len(self.slope)

    @property
    def votes(self) -> bool:
        """Are the scores means of votes?"""
        return False

    @property
    def scale(self) -> float:
        return 1.0

    @property
    def weights(self) -> Floats:
        """(terms, outputs) what each term adds: slopes, then codes, then missing values."""
        return np.concatenate([self.slope, self.table, self.gone])

    def terms(self, x: Floats) -> Floats:
        """(n, terms) how often each term counts."""
        gone = np.isnan(x)
        known = np.where(gone, 0.0, x)
        parts = [known]
        for i, codes in enumerate(self.codes):
            if codes is not None:
                parts.append((x[:, i, None] == codes).astype(np.float64))
                known[:, i] = 0.0
        return np.concatenate([*parts, gone.astype(np.float64)], axis=1)

    def scores(self, x: Floats) -> Floats:
        """(n, outputs)."""
        return self.terms(np.asarray(x, dtype=np.float64)) @ self.weights + self.base

    def decide(self, x: Floats) -> Ints:
        """(n,) the class, from the scores alone."""
        s = self.scores(x)
        if self.outputs == 1:
            return np.asarray(s[:, 0] > 0, dtype=np.int64)
        return np.asarray(s.argmax(axis=1))

    def near_tie(self, x: Floats) -> Bools:
        """(n,) is the class a matter of rounding?"""
        s = self.scores(x)
        if self.outputs == 1:
            return np.asarray(np.abs(s[:, 0]) <= self.rounding)
        top = np.sort(s, axis=1)
        return np.asarray(top[:, -1] - top[:, -2] <= self.rounding)

    def slack(self) -> float:
        """What the model's own arithmetic may add to a difference of two scores."""
        return self.rounding

    def size(self) -> float:
        """How large the sums are that rounding is a share of."""
        return self.rounding * 2.0**53


def read(model: Classifier, schema: Schema) -> Additive | None:
    """The sums of a model; None: it is not linear."""
    source = model.source
    behind = model.module is None and encoded(source) and len(source.steps) > 1
    last = source.steps[-1][1] if behind else source
    if model.module is None:
        if isinstance(last, str) or not (hasattr(last, "coef_") and hasattr(last, "intercept_")):
            return None
        if not _own([last]):
            return None
    low, high = _ends(schema)
    codes = tuple(
        np.sort(np.asarray(f.codes, dtype=np.float64)) if f.kind == "category" else None
        for f in schema.features
    )
    parts = _behind(model, schema, low, high) if behind else _bare(model, schema, codes, low, high)
    if parts is None:
        return None
    slope, tables, gone, base, size, single = parts
    if type(last).__name__ in ("SVC", "NuSVC") and len(base) > 1:
        raise Unsupported(f"{type(last).__name__} votes between pairs of classes: use LinearSVC")
    count = 2 if len(base) == 1 else len(base)
    labels = getattr(last, "classes_", None)
    classes = tuple(range(count)) if labels is None else tuple(np.asarray(labels).tolist())
    if model.module is not None and len(base) == 2:  # of two classes: the lead of the second
        slope, base = slope[:, 1:] - slope[:, :1], base[1:] - base[:1]
        tables = [t[:, 1:] - t[:, :1] for t in tables]
        gone = {i: v[1:] - v[:1] for i, v in gone.items()}
        size, count = 2 * size, 2
    unit = 2.0**-24 if single else 2.0**-53
    never = tuple(i for i in range(len(schema)) if i not in gone)
    made = Additive(
        type(source).__name__, classes, codes, slope,
        np.concatenate(tables) if tables else np.zeros((0, len(base))),
        np.stack([gone.get(i, np.zeros(len(base))) for i in range(len(schema))]), base,
        bool(gone), never, 16 * (len(schema) + len(slope) + 8) * unit * size,
    )  # fmt: skip
    _compare(made, model, schema, low, high)
    return made


_Parts = tuple[Floats, list[Floats], dict[int, Floats], Floats, float, bool] | None


def _ends(schema: Schema) -> tuple[Floats, Floats]:
    """(d,) the bounds of every feature; a score without any has none itself."""
    blank = torch.full((1, len(schema)), torch.nan, dtype=torch.float64)
    low, high = (b[0].numpy().copy() for b in schema.bounds(blank))
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            low[i], high[i] = min(f.codes), max(f.codes)
        elif not (np.isfinite(low[i]) and np.isfinite(high[i])):
            raise Unsupported(
                f"feature '{f.name}' has no bounds, so a score that is linear in it has none: "
                "give low= and high= in the schema"
            )
    return low, high


def _bare(
    model: Classifier, schema: Schema, codes: Sequence[Floats | None], low: Floats, high: Floats
) -> _Parts:
    """A model that takes the columns as they are."""
    found = weights_of(model)
    if found is None:
        return None
    weight, bias, single = found
    d = len(schema)
    if weight.shape[1] != d:
        raise Unsupported(f"the model takes {weight.shape[1]} features, the schema has {d}")
    at = None if model.columns is None or model.module is not None else column_indices(
        model.source, model.columns
    )  # fmt: skip
    slope = np.zeros((d, len(weight)))
    slope[np.arange(d) if at is None else np.asarray(at)] = weight.T
    tables = []
    reach = np.maximum(np.abs(low), np.abs(high))
    size = float((np.abs(slope) * reach[:, None]).sum(axis=0).max() + np.abs(bias).max())
    for i, values in enumerate(codes):
        if values is not None:
            tables.append(values[:, None] * slope[i])
            slope[i] = 0.0
    return slope, tables, {}, np.asarray(bias, dtype=np.float64), size, single


def _behind(model: Classifier, schema: Schema, low: Floats, high: Floats) -> _Parts:
    """A model behind steps that treat columns one by one."""
    source = model.source
    for step in _steps(source.steps[:-1]):
        name = type(step).__name__
        clips = bool(getattr(step, "clip", False))
        if name not in _AFFINE or clips or not _own([step]):
            raise Unsupported(
                f"the step {name}{' that clips' if clips else ''} before a linear model is not read"
            )
    assert model.columns is not None
    inputs, last = inputs_of(source, model.columns), source.steps[-1][1]
    weight = np.atleast_2d(np.asarray(last.coef_, dtype=np.float64))
    bias = np.atleast_1d(np.asarray(last.intercept_, dtype=np.float64))
    owner, _, gaps = owners(inputs)
    at = column_indices(source, model.columns)
    place = list(range(len(inputs.codes))) if at is None else at
    d, count = len(schema), len(weight)
    slope, base = np.zeros((d, count)), bias.copy()
    start = inputs(inputs.base[None])[0]
    base += weight[:, owner < 0] @ start[owner < 0]
    size = np.abs(bias) + np.abs(weight[:, owner < 0]) @ np.abs(start[owner < 0])
    tables: dict[int, Floats] = {}
    gone: dict[int, Floats] = {}
    for i, known in enumerate(inputs.codes):
        f, own = place[i], weight[:, owner == i]
        feature = schema.features[f]
        if feature.kind == "category":
            values = np.sort(np.asarray(feature.codes, dtype=np.float64))
            out = inputs.varied(i, values)[:, owner == i]
            tables[f] = out @ own.T
            size += np.abs(own) @ np.abs(out).max(axis=0)
        elif known is not None:  # a boolean: two values, a line through both
            ends = inputs.varied(i, known)[:, owner == i]
            if tuple(known) != (0.0, 1.0):
                raise Unsupported(f"'{feature.name}' is a category to the model, not to the schema")
            slope[f] = own @ (ends[1] - ends[0])
            base += own @ ends[0]
            size += np.abs(own) @ np.abs(ends).max(axis=0) * 2
        else:
            top = max(abs(low[f]), abs(high[f]), 1e-300)
            a, b = (low[f], high[f]) if high[f] > low[f] else (low[f], low[f] + top)
            ends = inputs.varied(i, (a, b))[:, owner == i]
            each = (ends[1] - ends[0]) / (b - a)
            slope[f] = own @ each
            base += own @ (ends[0] - each * a)
            size += np.abs(own) @ (np.abs(ends).max(axis=0) + 2 * np.abs(each) * top)
        if i in gaps and np.isfinite(gaps[i]).all():  # what is passed through stays a gap
            gone[f] = own @ gaps[i][owner == i] - _shift(slope, feature.kind, own, inputs, i, owner,
                                                        low, high, f)  # fmt: skip
    listed = [tables.get(i, np.zeros((len(f.codes), count)))
              for i, f in enumerate(schema.features) if f.kind == "category"]  # fmt: skip
    return slope, listed, gone, base, float(size.max()), False


def _shift(
    slope: Floats, kind: str, own: Floats, inputs: Any, i: int, owner: Ints, low: Floats,
    high: Floats, f: int,
) -> Floats:  # fmt: skip
    """What the base holds of a number already: its score at 0."""
    if kind == "category":
        return np.zeros(len(own))
    a = 0.0 if inputs.codes[i] is not None else low[f]
    return np.asarray(own @ inputs.varied(i, (a,))[0, owner == i] - slope[f] * a)


def _steps(steps: Any) -> Iterator[Any]:
    """Every step, of inner pipelines and column transformers too."""
    for _, step, *_ in steps:
        if step is None or isinstance(step, str):
            continue
        if hasattr(step, "transformers_"):
            yield from _steps(step.transformers_)
        elif hasattr(step, "steps"):
            yield from _steps(step.steps)
        else:
            yield step


def _own(parts: Sequence[Any]) -> bool:
    """Are these scikit-learn's own, with nothing replaced?"""
    return all(
        type(p).__module__.startswith("sklearn.") and replaced_method(p) is None for p in parts
    )


def _compare(made: Additive, model: Classifier, schema: Schema, low: Floats, high: Floats) -> None:
    """Refuse a reading that answers otherwise than the model."""
    rng = np.random.default_rng(0)
    x = low + rng.random((_TRIED, len(low))) * (high - low)
    for i, f in enumerate(schema.features):
        if f.kind == "category":
            x[:, i] = rng.choice(np.asarray(f.codes, dtype=np.float64), _TRIED)
        elif bool(schema.whole[i]):
            x[:, i] = np.clip(np.rint(x[:, i]), np.ceil(low[i]), np.floor(high[i]))
        if f.missing and i not in made.never_missing:
            x[rng.random(_TRIED) < 0.2, i] = np.nan
    theirs = model.logits(torch.from_numpy(x)).argmax(1).numpy()
    wrong = (theirs != made.decide(x)) & ~made.near_tie(x)
    if wrong.any():
        raise Unsupported(
            f"the reading of this linear {made.source} disagrees with its predict on "
            f"{int(wrong.sum())} of {_TRIED} records; please report it"
        )
