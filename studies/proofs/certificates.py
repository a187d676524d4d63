"""Certificates: is every honest one accepted, and every one refused that was tampered with?

    python studies/proofs/certificates.py [--smoke]        # about two CPU-minutes

Proven rows of small tables (whole numbers, categories, one-hot groups, eight sets of relations,
four norms and a cost, boosted trees and forests, two and four classes) and of URL (63 features, 14
relations). Each certificate is checked by plain numpy as it was written; then changed by somebody
who knows the format and makes the digests fit (dropped parts and cuts, tighter bounds, changed
multipliers and potentials, other kinds of refutation); then given to other rows, among them rows
that can be broken, and to other models. A refusal of an honest one and an acceptance of a forged
one about a row that can be broken are both counted.

What a reader would get wrong: a changed certificate can still be a proof. Any multipliers are
allowed, so a larger one of a constraint that refutes a part by itself refutes it all the more; and
a part that was closed by a bound may have one leaf in every tree. Such changes are accepted.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

import durometer as du
from durometer.core import serialization
from durometer.proofs.search.decide import decide, pack_certificate
from durometer.trees import read
from durometer.verification.assumptions import Space, around
from durometer.verification.certificate import check, constraints
from durometer.verification.domain import Refused

sys.path.insert(0, str(Path(__file__).parents[2]))

from studies.proofs.soundness import CODED, SPACES
from tests.oracles.small_tables import INTEGERS, MIXED, RELATIONS, table
from tests.oracles.tampering import forge, tampers


class Case:
    """A model, rows in a space, and what the search found."""

    def __init__(self, model: Any, x: np.ndarray, y: np.ndarray, schema: Any, space: Any) -> None:
        self.trees, self.x, self.schema, self.space = read(model), x, schema, space
        self.goal = np.ones((len(x), self.trees.n_classes), dtype=bool)
        self.goal[np.arange(len(x)), y] = False
        region = space.around(torch.from_numpy(x))
        self.found = decide(self.trees, region, self.goal, 2.0, certificates=True)

    def said(self, i: int) -> Space:
        return around(
            serialization.to_dict(self.space), self.schema, self.x[i].copy(), self.goal[i], False
        )


def holds(certificate: bytes, trees: Any, said: Space) -> bool:
    try:
        check(certificate, trees, said.row)
        return all(said.implies(claim) for claim in constraints(certificate))
    except Refused:
        return False


def small(seeds: int, rows: int = 8) -> list[Case]:
    kinds = ("xgboost", "forest")
    each = itertools.product(RELATIONS.values(), SPACES, kinds, range(seeds))
    asked = [(INTEGERS, r, s, k, 10 + n, 2 + 2 * (n % 2)) for r, s, k, n in each]
    rules = ["if k == 'u' then a <= 4", "if p == 1 then b > 0"]
    coded = itertools.product(CODED, kinds, range(seeds))
    asked += [(MIXED, rules, s, k, 50 + n, 2) for s, k, n in coded]
    made = []
    for features, relations, space, kind, seed, classes in asked:
        schema = du.Schema(features, relations)
        x, y = table(features, 400, seed)
        y = y + 2 * (x[:, 1] > 3) if classes > 2 else y
        model = XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1)
        if kind == "forest":
            model = RandomForestClassifier(12, max_depth=5, random_state=seed)
        model.fit(x, y)
        valid = schema.program.valid(torch.from_numpy(x), torch.from_numpy(x)).numpy()
        x = x[valid][:rows]
        made.append(Case(model, x, model.predict(x), schema, schema.space(**space)))
    return made


def url(rows: int) -> list[Case]:
    splits = du.datasets.url()
    model = XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1)
    model.fit(splits.train.x.numpy(), splits.train.y.numpy())
    x, y = splits.test.x.numpy(), splits.test.y.numpy()
    right = np.flatnonzero(model.predict(x) == y)[:rows]
    schema = splits.test.schema
    sizes = ((0.05, np.inf), (0.1, 2), (0.1, 1))
    spaces = [schema.space(eps=eps, p=p) for eps, p in sizes]
    return [Case(model, x[right], y[right], schema, space) for space in spaces]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    torch.set_num_threads(1)
    cases = [*small(1, 4 if smoke else 8), *url(10 if smoke else 80)]
    rng = np.random.default_rng(0)
    counts: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    sizes = []
    for case in cases:
        proven = np.flatnonzero(case.found.proven)
        broken = np.flatnonzero(case.found.broken)
        counts["proven"] += len(proven)
        kept = [i for i in proven if case.found.certificates[i] is not None]
        counts["with a certificate"] += len(kept)
        size = case.trees.value.shape
        other = next(c.trees for c in cases if c.trees.value.shape != size)
        for i in kept:
            certificate, said = case.found.certificates[i], case.said(i)
            assert certificate is not None
            sizes.append(len(certificate))
            counts["accepted"] += holds(certificate, case.trees, said)
            counts["every relation understood"] += said.complete
            for name, changed in tampers(certificate, said.row.x0, rng):
                counts["tampered"] += 1
                counts[f"tampered: {name}"] += 1
                accepted[name] += holds(pack_certificate(changed), case.trees, said)
            counts["of another model"] += 1
            accepted["of another model"] += holds(certificate, other, said)
        for i, j in itertools.product(kept[:2], broken[:5]):
            forged = forge(case.found.certificates[i], case.x[j], case.trees)
            counts["forged for a broken row"] += 1
            accepted["forged for a broken row"] += holds(forged, case.trees, case.said(int(j)))
    print(f"bytes: mean {np.mean(sizes):.0f}, median {np.median(sizes):.0f}, max {max(sizes)}")
    for name, n in counts.items():
        print(f"{name}: {n}")
    print("accepted after a change:", dict(accepted) if sum(accepted.values()) else "none")


if __name__ == "__main__":
    main()
