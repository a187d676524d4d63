"""Does `Schema.suggest` find the relations that experts wrote down for URL, LCLD and CTU-13?

    python studies/caa/suggest.py            # under a minute; prints the table

Recall: a published relation counts as *found* if a proposal says the same, and as *implied* if the
proposals and the proposed bounds leave no room for a record that breaks it (linear relations by
linear programming; if-thens also if their conclusion always holds). Precision: the share of
proposals that the published relations imply in turn. The rest is not wrong by that: on URL,
proposals come from the training rows and are counted on rows not seen (`held out`).

"Says the same" is judged by behaviour: equal verdicts on 4,000 records whose columns have been
changed at random.
"""

import argparse
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from durometer import datasets
from durometer.data.dataset import Dataset
from durometer.relations.expression import And, Column, Compare, Or, Relation, walk
from durometer.relations.normal_form import linear, normal_form
from durometer.tables.schema import Schema


def columns(r: Relation) -> frozenset[str]:
    return frozenset(e.name for e in walk(r) if isinstance(e, Column))


@dataclass
class Theory:
    """Relations and bounds, and what follows from them."""

    schema: Schema

    def __post_init__(self) -> None:
        low, high = self.schema.bounds(torch.zeros(1, len(self.schema), dtype=torch.float64))
        self.bounds = np.stack([low[0].numpy(), high[0].numpy()], axis=1)
        self.place = {name: i for i, name in enumerate(self.schema.names)}
        rows = []
        for r in self.schema.relations:
            for part in self._linear_parts(normal_form(r, self.schema.layout)):
                rows += part
        self.rows = np.stack([w for w, _ in rows]) if rows else np.zeros((0, len(self.place)))
        self.limits = np.array([limit for _, limit in rows])
        self.sparse = csr_matrix(self.rows)

    def _linear_parts(self, r: Relation) -> list[list[tuple[np.ndarray, float]]]:
        """Each as rows w x <= limit; a membership or a formula has none."""
        if isinstance(r, And):
            return [rows for p in r.operands for rows in self._linear_parts(p)]
        if not isinstance(r, Compare) or r.op not in ("<=", "=="):
            return []
        one = self.row(r)
        if one is None:
            return []
        weights, limit = one
        return [[one] if r.op == "<=" else [one, (-weights, -limit)]]

    def row(self, r: Compare) -> tuple[np.ndarray, float] | None:
        form = linear(r.left - r.right)
        if form is None:
            return None
        weights = np.zeros(len(self.place))
        for (name, _), weight in form[0].items():
            weights[self.place[name]] = weight
        return weights, -form[1]

    def largest(self, weights: np.ndarray) -> float:
        """The largest w x that the theory allows."""
        box = np.where(weights > 0, self.bounds[:, 1], self.bounds[:, 0])
        by_bounds = float((weights[weights != 0] * box[weights != 0]).sum())
        if by_bounds <= 0 or not len(self.rows):
            return by_bounds
        answer = linprog(-weights, self.sparse, self.limits, bounds=self.bounds, method="highs")
        return -float(answer.fun) if answer.success else by_bounds

    def follows(self, r: Relation) -> bool:
        """Do the linear relations and bounds leave no record that breaks it?"""
        r = normal_form(r, self.schema.layout)
        if isinstance(r, And):
            return all(self.follows(p) for p in r.operands)
        if isinstance(r, Or):
            if any(self.follows(p) for p in r.operands):
                return True
            return self._no_room(r)
        if not isinstance(r, Compare) or (one := self.row(r)) is None:
            return False
        weights, limit = one
        slack = 1e-9 * max(1.0, abs(limit))
        if r.op == "==":
            return max(self.largest(weights) - limit, self.largest(-weights) + limit) <= slack
        if r.op == "<=":
            return self.largest(weights) <= limit + slack
        return r.op == "<" and self.largest(weights) < limit - slack

    def _no_room(self, r: Or) -> bool:
        """If a > 0 then b > 0: with b = 0 (it is never negative), can a still be above 0?"""
        if len(r.operands) != 2 or not all(isinstance(p, Compare) for p in r.operands):
            return False
        weak = [p for p in r.operands if p.op == "<="]  # a <= 0
        strict = [p for p in r.operands if p.op == "<"]  # 0 < b
        if len(weak) != 1 or len(strict) != 1:
            return False
        a, b = self.row(weak[0]), self.row(strict[0])
        if a is None or b is None:
            return False
        zero = [b]
        for place, end in self._chains() * 2:
            # A column above 0 would force one of these above 0: it is 0 as well.
            if any((end == w).all() for w, _ in zero):
                zero.append((-place, 0.0))
        added = Theory.__new__(Theory)
        added.__dict__.update(self.__dict__)
        added.rows = np.vstack([self.rows, *(-w for w, _ in zero)])
        added.limits = np.append(self.limits, [-limit for _, limit in zero])
        added.sparse = csr_matrix(added.rows)
        return added.largest(a[0]) <= a[1] + 1e-9

    def _chains(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The proposed if-thens, as the rows of their premise (a <= 0) and conclusion (0 < b)."""
        found = []
        for r in self.schema.relations:
            if isinstance(r, Or) and len(r.operands) == 2:
                operands = [normal_form(p, self.schema.layout) for p in r.operands]
                if [getattr(p, "op", "") for p in operands] == ["<=", "<"]:
                    ends = [self.row(p) for p in operands]
                    if ends[0] is not None and ends[1] is not None:
                        found.append((ends[0][0], ends[1][0]))
        return found


def verdicts(relations: list[Relation], schema: Schema, x: torch.Tensor) -> np.ndarray:
    return Schema(schema.features, relations).program.holds(x, x).numpy()


def changed(x: torch.Tensor, rows: int = 4000, seed: int = 0) -> torch.Tensor:
    """Records with columns taken from other rows, or moved a little, with gaps at the extremes."""
    rng = np.random.default_rng(seed)
    table = x.numpy()
    base = table[rng.integers(0, len(table), rows)]
    other = np.stack([rng.choice(column, rows) for column in table.T], axis=1)
    high = np.stack([rng.integers(0, max(3.0, v), rows) for v in table.max(0)], axis=1)
    pick = rng.random(base.shape)
    out = np.where(pick < 0.25, other, np.where(pick < 0.45, high, base))
    return torch.from_numpy(out)


def compare(published: Schema, found: Schema, x: torch.Tensor) -> tuple[list[str], list[bool]]:
    """For each published relation "found", "implied" or ""; for each proposal: is it published?"""
    probes = changed(x)
    theirs = verdicts(list(published.relations), found, probes)
    ours = verdicts(list(found.relations), found, probes)
    by_columns: dict[frozenset[str], list[int]] = {}
    for i, r in enumerate(found.relations):
        by_columns.setdefault(columns(r), []).append(i)
    theory, known = Theory(found), Theory(published)
    recall, said = [], set()
    for k, r in enumerate(published.relations):
        same = [
            i for i in by_columns.get(columns(r), []) if (ours[:, i] == theirs[:, k]).mean() > 0.999
        ]
        said |= set(same)
        recall.append("found" if same else "implied" if theory.follows(r) else "")
    precise = [i in said or known.follows(r) for i, r in enumerate(found.relations)]
    return recall, precise


def report(name: str, data: Dataset, held_out: Dataset | None = None) -> None:
    start = time.perf_counter()
    suggestion = Schema.suggest(data.schema.frame(data.x) if name != "ctu13" else frame(data))
    seconds = time.perf_counter() - start
    found = suggestion.schema
    recall, precise = compare(data.schema, found, data.x)
    counts = Counter(recall)
    print(
        f"{name}: {len(data)} rows, {len(data.schema)} features, {seconds:.1f} s. Of "
        f"{len(recall)} published relations {counts['found']} found, {counts['implied']} implied, "
        f"{counts['']} missed. Of {len(precise)} proposals {sum(precise)} are published or follow."
    )
    for r, what in zip(data.schema.relations, recall, strict=True):
        if not what:
            print(f"  missed: {str(r)[:120]}")
    kinds = [c.kind for c in suggestion.candidates]
    for kind in dict.fromkeys(kinds):
        of_kind = [p for k, p in zip(kinds, precise, strict=True) if k == kind]
        print(f"  {kind}: {len(of_kind)} proposed, {sum(of_kind)} published or implied")
    top = precise[: len(recall)]
    print(f"  among the first {len(top)} proposals {sum(top)} are published or implied")
    if held_out is not None:
        broken = (~found.program.holds(held_out.x, held_out.x)).double().mean(0)
        good = int((broken <= 0.002).sum())
        print(
            f"  held out: {good} of {len(broken)} proposals hold in 99.8 % of {len(held_out)} rows"
        )


def frame(data: Dataset):  # type: ignore[no-untyped-def]
    import pandas as pd

    return pd.DataFrame(data.x.numpy(), columns=list(data.schema.names))


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    splits = datasets.url()
    report("url", splits.train, splits.test)
    report("lcld28", datasets.lcld(28).test)
    report("lcld47", datasets.lcld(47).test)
    report("ctu13", datasets.ctu13().test)


if __name__ == "__main__":
    main()
