"""Questions about whole models, against all pairs of valid records: no code is shared."""

import itertools
import math

import numpy as np
import pytest

import durometer as du

MODELS = 210
BATCHES = 14
NAN = math.nan


def known(*values):
    return not any(isinstance(v, float) and math.isnan(v) for v in values)


# Relations as text, and what they mean, over the columns a, b, c, d. Unknown is accepted.
RELATIONS = {
    "a <= b": lambda a, b, c, d: not known(a, b) or a <= b,
    "a + b <= 4": lambda a, b, c, d: not known(a, b) or a + b <= 4,
    "if c == 1 then a >= 2": lambda a, b, c, d: not known(a, c) or c != 1 or a >= 2,
    "a * b <= 3": lambda a, b, c, d: not known(a, b) or a * b <= 3,
    "a != b": lambda a, b, c, d: not known(a, b) or a != b,
    "count(a > 1, b > 1, d > 1) <= 1": lambda a, b, c, d: (
        not known(a, b, d) or (a > 1) + (b > 1) + (d > 1) <= 1
    ),
    "c in {0, 2} or d <= 1.5": lambda a, b, c, d: not known(c, d) or c in (0, 2) or d <= 1.5,
    "a**2 + d <= 7": lambda a, b, c, d: not known(a, d) or a**2 + d <= 7,
}
CONDITIONS = {
    "b >= 1": lambda a, b, c, d: not known(b) or b >= 1,
    "c != 0": lambda a, b, c, d: not known(c) or c != 0,
}


class Case:
    """A small random model, its table, and all its valid records."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.kind = ("xgboost", "lightgbm", "forest", "boosting")[seed % 4]
        self.classes = 3 if seed % 3 == 2 else 2
        gaps = [bool(rng.random() < 0.4) for _ in "abcd"]
        gaps = gaps if self.kind in ("xgboost", "boosting") else [False] * 4
        gaps[2] = False
        values = [
            [float(v) for v in range(rng.integers(3, 6))],
            [float(v) for v in range(rng.integers(2, 5))],
            [0.0, 1.0, 2.0],
            [0.25 * k for k in range(13)],
        ]
        x = np.stack([rng.choice(v, 150) for v in values], axis=1)
        x[:, 3] = np.round(2 * x[:, 3]) / 2
        for i, gap in enumerate(gaps):
            if gap:
                x[rng.random(150) < 0.2, i] = NAN
        score = np.nan_to_num(x) @ rng.normal(size=4) + rng.normal(size=150)
        y = np.searchsorted(np.quantile(score, np.linspace(0, 1, self.classes + 1)[1:-1]), score)
        self.x, self.model = x, self.fit(x, y, seed)
        texts = list(RELATIONS)
        chosen = [texts[i] for i in rng.choice(len(texts), rng.integers(0, 3), replace=False)]
        wheres = list(CONDITIONS)[: rng.integers(0, 3)]
        self.where = wheres
        names = "abcd"
        kinds = ("integer", "integer", "category", "real")
        self.schema = du.Schema(
            [
                du.Feature(n, k, None if k == "category" else v[0],
                           None if k == "category" else v[-1],
                           values=(0, 1, 2) if k == "category" else (), missing=g)
                for n, k, v, g in zip(names, kinds, values, gaps, strict=True)
            ],
            chosen,
        )  # fmt: skip
        tests = [RELATIONS[t] for t in chosen] + [CONDITIONS[t] for t in wheres]
        every = itertools.product(
            *([*v, NAN] if g else v for v, g in zip(values, gaps, strict=True))
        )
        self.records = np.array([r for r in every if all(t(*r) for t in tests)]).reshape(-1, 4)
        if len(self.records):
            self.label = self.labels(self.records)
            self.score = self.scores(self.records)

    def fit(self, x, y, seed):
        trees, depth = int(self.rng.integers(1, 6)), int(self.rng.integers(1, 4))
        if self.kind == "xgboost":
            import xgboost

            made = xgboost.XGBClassifier(n_estimators=trees, max_depth=depth, learning_rate=0.7,
                                         random_state=seed, n_jobs=1)  # fmt: skip
        elif self.kind == "lightgbm":
            import lightgbm

            more = {"min_child_samples": 5, "random_state": seed, "n_jobs": 1, "verbose": -1}
            made = lightgbm.LGBMClassifier(n_estimators=trees, max_depth=depth, **more)
        elif self.kind == "forest":
            from sklearn.ensemble import RandomForestClassifier

            made = RandomForestClassifier(trees, max_depth=depth, random_state=seed)
        else:
            from sklearn.ensemble import HistGradientBoostingClassifier

            more = {"min_samples_leaf": 5, "random_state": seed}
            made = HistGradientBoostingClassifier(max_iter=trees, max_depth=depth, **more)
        return made.fit(x, y)

    def labels(self, x):
        return np.asarray(self.model.predict(x)).astype(int)

    def scores(self, x):
        """(n, classes): the score of each class, for two classes the margin of the second."""
        if self.kind == "forest":
            return self.model.predict_proba(x)
        if self.kind == "boosting":
            raw = self.model.decision_function(x)
        elif self.kind == "xgboost":
            raw = self.model.predict(x, output_margin=True)
        else:
            raw = self.model.predict(x, raw_score=True)
        raw = np.asarray(raw, dtype=float).reshape(len(x), -1)
        return np.hstack([-raw, raw]) if raw.shape[1] == 1 else raw

    def lead(self):
        """(n,) by how much each record's class is ahead of every other."""
        s = self.score.copy()
        if self.classes == 2 and self.kind != "forest":
            return np.abs(s[:, 1])
        top = np.sort(s, axis=1)
        return top[:, -1] - top[:, -2]

    def is_near(self, x, of, eps):
        """(n,) is each record within a share eps of the range of a row of `x`, but for `of`?"""
        widths = [f.high - f.low if f.kind != "category" else None for f in self.schema.features]
        found = np.zeros(len(self.records), dtype=bool)
        for row in x:
            good = np.ones(len(self.records), dtype=bool)
            for c in set(range(4)) - set(of):
                gone = np.isnan(self.records[:, c])
                far = np.abs(self.records[:, c] - row[c]) > (eps * widths[c] if widths[c] else 0)
                good &= gone if math.isnan(row[c]) else ~gone & ~far
            found |= good
        return found

    def pairs(self, of, within=None, ordered=False):
        """All pairs (i, j) of valid records that differ in these columns only."""
        rest = [i for i in range(4) if i not in of]
        groups = {}
        for i, r in enumerate(self.records):
            groups.setdefault(tuple(str(r[k]) for k in rest), []).append(i)
        first, second = [], []
        for members in groups.values():
            a, b = np.meshgrid(members, members, indexing="ij")
            first.append(a.ravel())
            second.append(b.ravel())
        i, j = np.concatenate(first), np.concatenate(second)
        x, y = self.records[i][:, of], self.records[j][:, of]
        good = np.ones(len(i), dtype=bool)
        if within is not None:
            both = np.isnan(x) & np.isnan(y)
            good &= (both | (np.abs(x - y) <= within)).all(axis=1)
        if ordered:
            good &= (x <= y).all(axis=1)
        return i[good], j[good]


def rows_of(case, answer):
    rows = answer.pair[list("abcd")].to_numpy(dtype=float)
    tests = [RELATIONS.get(str(r)) for r in case.schema.relations]
    assert all(t is None or t(*r) for t in tests for r in rows)
    assert list(answer.labels) == [str(v) for v in case.labels(rows)]
    return rows


@pytest.mark.parametrize("batch", range(BATCHES))
def test_all_pairs_of_small_models(batch):
    asked = 0
    for seed in range(batch, MODELS, BATCHES):
        case = Case(seed)
        if not len(case.records):
            continue
        of = [["a"], ["c"], ["d"], ["a", "c"], ["b"]][seed % 5]
        at = ["abcd".index(n) for n in of]
        within = 1.0 if seed % 7 in (0, 3) and "c" not in of else None
        i, j = case.pairs(at, within)
        same = {"where": case.where, "within": within}
        asked += 1

        # how far it moves the score
        k = case.classes - 1
        true = (case.score[i, k] - case.score[j, k]).max()
        answer = du.influence(case.model, case.schema, of=of, label=k, gap=1e-6, **same)
        assert answer.status == "proven", (seed, answer)
        assert answer.low == pytest.approx(true, abs=3e-6), (seed, answer)
        assert answer.low - 1e-9 <= answer.high <= true + 1e-5, (seed, answer)
        rows_of(case, answer)

        # a claim about it, a little above and below the truth
        for most, status in ((true + 1e-3, "proven"), (true - 1e-3, "found")):
            if most > 0:
                claim = du.influence(case.model, case.schema, of=of, label=k, most=most, **same)
                assert claim.status == status, (seed, most, claim)

        # does it flip a decision, and how strongly
        lead = case.lead()
        differs = case.label[i] != case.label[j]
        strength = np.minimum(lead[i], lead[j])[differs]
        answer = du.flips(case.model, case.schema, of=of, strongest=True, gap=1e-6, **same)
        assert answer.status == ("found" if differs.any() else "proven"), (seed, answer)
        if differs.any():
            assert answer.low == pytest.approx(strength.max(), abs=3e-6), (seed, answer)
            assert answer.high == pytest.approx(strength.max(), abs=1e-5), (seed, answer)
            rows = rows_of(case, answer)
            assert len(set(answer.labels)) == 2
            rest = [c for c in range(4) if c not in at]
            np.testing.assert_array_equal(rows[0][rest], rows[1][rest])
            beyond = du.flips(case.model, case.schema, of=of, margin=strength.max() + 1e-3, **same)
            assert beyond.status == "proven", (seed, beyond)

        # the same among what is near a few rows
        rows = case.x[:6]
        close = case.is_near(rows, at, 0.25)[i]
        if close.any():
            around = {"data": rows, "near": 0.25}
            true = (case.score[i, k] - case.score[j, k])[close].max()
            answer = du.influence(
                case.model, case.schema, of=of, label=k, gap=1e-6, **same, **around
            )
            assert answer.low == pytest.approx(true, abs=3e-6), (seed, answer)
            assert answer.low - 1e-9 <= answer.high <= true + 1e-5, (seed, answer)
            there = differs & close
            answer = du.flips(case.model, case.schema, of=of, **same, **around)
            assert answer.status == ("found" if there.any() else "proven"), (seed, answer)

        # can each class be reached
        for c in range(case.classes):
            answer = du.reachable(case.model, case.schema, c, where=case.where)
            assert answer.status == ("found" if (case.label == c).any() else "proven"), (seed, c)

        # is the score monotone
        for name in ("a", "d"):
            rising = bool(seed % 2)
            i2, j2 = case.pairs(["abcd".index(name)], within, ordered=True)
            if not len(i2):
                continue
            step = (case.score[i2, k] - case.score[j2, k]) * (1 if rising else -1)
            answer = du.monotone(
                case.model, case.schema, in_=name, increasing=rising, label=k, **same
            )
            assert answer.status == ("found" if step.max() > 1e-5 else "proven"), (seed, answer)
    assert asked >= 10
