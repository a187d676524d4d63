"""Questions about whole linear models, against all pairs of valid records: no code is shared."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import durometer as du

MODELS, BATCHES = 60, 6
NAN = math.nan
NAMES = ("a", "b", "c", "d")
AREAS = ("north", "south", "west")
RELATIONS = {
    "a <= b": lambda a, b, c, d: a <= b,
    "a + b <= 5": lambda a, b, c, d: a + b <= 5,
    "if c == 'south' then a >= 2": lambda a, b, c, d: c != "south" or a >= 2,
    "a * b <= 4": lambda a, b, c, d: a * b <= 4,  # not linear: left to the check of points
    "a != b": lambda a, b, c, d: a != b,
    "c in {'north', 'west'} or d <= 1": lambda a, b, c, d: c != "south" or d <= 1,
}  # what is unknown is accepted
COLUMNS = {"a": (0, 4), "b": (0, 4), "d": (0, 3)}


def holds(text, record):
    values = dict(zip(NAMES, record, strict=True))
    named = [n for n in NAMES if any(t == n for t in text.replace("(", " ").split())]
    if any(isinstance(values[n], float) and math.isnan(values[n]) for n in named):
        return True
    return RELATIONS[text](*record)


class Case:
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.classes = 3 if seed % 3 == 2 else 2
        self.gap = seed % 4 == 1
        n = 120
        frame = pd.DataFrame(
            {"a": rng.integers(0, 5, n).astype(float), "b": rng.integers(0, 5, n),
             "c": rng.choice(AREAS, n), "d": rng.integers(0, 4, n)}
        )  # fmt: skip
        weight = rng.normal(size=3)
        score = frame[["a", "b", "d"]].to_numpy() @ weight + 2 * rng.normal() * (frame.c == "south")
        score = np.asarray(score + 0.3 * rng.normal(size=n))
        y = np.searchsorted(np.quantile(score, np.linspace(0, 1, self.classes + 1)[1:-1]), score)
        if self.gap:
            frame.loc[rng.random(n) < 0.2, "a"] = NAN
        scaler = (StandardScaler(), MinMaxScaler())[seed % 2]
        numbers = make_pipeline(SimpleImputer(strategy="median"), scaler)
        first = make_column_transformer(
            (numbers, ["a", "d"]), (OneHotEncoder(), ["c"]), remainder="passthrough"
        )
        last = (LogisticRegression(), RidgeClassifier(), LinearSVC(),
                SGDClassifier(random_state=0))[seed % 4]  # fmt: skip
        self.model = make_pipeline(first, last).fit(frame, y)
        texts = list(RELATIONS)
        self.relations = [
            texts[i] for i in rng.choice(len(texts), rng.integers(0, 3), replace=False)
        ]
        self.schema = du.Schema(
            [du.Feature("a", "integer", 0, 4, missing=self.gap),
             du.Feature("b", "integer", 0, 4),
             du.Feature("c", "category", values=AREAS),
             du.Feature("d", "integer", 0, 3)],
            self.relations,
        )  # fmt: skip
        self.data = frame.head(5)
        values = [[*range(5), NAN] if self.gap else range(5), range(5), AREAS, range(4)]
        self.records = [
            r for r in itertools.product(*values) if all(holds(t, r) for t in self.relations)
        ]
        table = pd.DataFrame(self.records, columns=NAMES).astype({"a": float})
        self.label = self.model.predict(table)
        raw = np.asarray(self.model.decision_function(table)).reshape(len(table), -1)
        self.score = np.hstack([-raw, raw]) if raw.shape[1] == 1 else raw
        top = np.sort(raw, axis=1)
        self.lead = np.abs(raw[:, 0]) if raw.shape[1] == 1 else top[:, -1] - top[:, -2]

    def pairs(self, of, within=None, ordered=False, near=None):
        at = [NAMES.index(n) for n in of]
        rest = [i for i in range(4) if i not in at]
        groups = {}
        for i, r in enumerate(self.records):
            groups.setdefault(tuple(str(r[k]) for k in rest), []).append(i)
        found = []
        for members in groups.values():
            for i, j in itertools.product(members, members):
                x, y = self.records[i], self.records[j]
                if within is not None and any(not close(x[k], y[k], within) for k in at):
                    continue
                if ordered and not all(x[k] <= y[k] for k in at):
                    continue
                if near is not None and not any(self.by(x, row, near, rest) for row in self.rows()):
                    continue
                found.append((i, j))
        return np.array(found).reshape(-1, 2)

    def rows(self):
        return [tuple(r) for r in self.data.itertuples(index=False)]

    def by(self, x, row, eps, rest):
        for k in rest:
            if NAMES[k] == "c":
                if x[k] != row[k]:
                    return False
            else:
                low, high = COLUMNS[NAMES[k]]
                if not close(x[k], row[k], eps * (high - low)):
                    return False
        return True


def close(v, w, eps):
    if math.isnan(v) or math.isnan(w):
        return math.isnan(v) and math.isnan(w)
    return abs(v - w) <= eps


def found(answer):
    """Found; where a rule is not linear the search may miss what exists: then it is open."""
    return answer.status == "found" or (answer.status == "open" and bool(answer.left_out))


def reaches(answer, true):
    """The largest value; where a rule is not linear, a pair that reaches no more than it."""
    if answer.left_out:
        return answer.low is None or answer.low <= true + 1e-9
    return answer.low == pytest.approx(true, abs=1e-9)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_all_pairs_of_small_linear_models(batch):
    seen = set()
    for seed in range(batch, MODELS, BATCHES):
        case = Case(seed)
        if not case.records:
            continue
        ask = case.model, case.schema
        of = [["a"], ["c"], ["d"], ["a", "c"], ["b"]][seed % 5]
        within = 1.0 if seed % 7 in (0, 3) and "c" not in of else None
        k = case.classes - 1
        pairs = case.pairs(of, within)
        true = (case.score[pairs[:, 0], k] - case.score[pairs[:, 1], k]).max()
        answer = du.influence(*ask, of=of, label=k, within=within, data=case.data)
        assert reaches(answer, true), (seed, answer)
        assert true - 1e-9 <= answer.high, (seed, answer)
        if not answer.left_out:
            assert answer.status == "proven", (seed, answer)

        one, two = pairs.T
        differ = case.label[one] != case.label[two]
        strength = np.where(differ, np.minimum(case.lead[one], case.lead[two]), -1)
        answer = du.flips(*ask, of=of, within=within, strongest=True)
        seen.add(answer.status)
        if strength.max() > 1e-9:
            assert found(answer), (seed, answer)
            assert answer.high >= strength.max() - 1e-9
            if not answer.left_out:
                assert answer.low == pytest.approx(strength.max(), abs=1e-4), (seed, answer)
            beyond = du.flips(*ask, of=of, within=within, margin=strength.max() + 0.01)
            assert beyond.status == "proven" or answer.left_out, (seed, beyond)
            seen.add(beyond.status)
        else:
            assert answer.status != "found", (seed, answer)

        around = case.pairs(of, within, near=0.3)
        if len(around) and seed % 2:
            true = (case.score[around[:, 0], k] - case.score[around[:, 1], k]).max()
            around_rows = {"data": case.data, "near": 0.3}
            answer = du.influence(*ask, of=of, label=k, within=within, **around_rows)
            assert reaches(answer, true), (seed, answer)
            assert answer.high >= true - 1e-9
        for c in range(case.classes):
            answer = du.reachable(*ask, c)
            there = (case.label == c).any()
            assert found(answer) if there else answer.status != "found", (seed, c, answer)
            assert there or answer.left_out or answer.status == "proven"
        steps = case.pairs(["a"], ordered=True)
        for rising in (True, False):
            step = (case.score[steps[:, 0], k] - case.score[steps[:, 1], k]) * (1 if rising else -1)
            answer = du.monotone(*ask, in_="a", label=k, increasing=rising)
            if step.max() > 1e-5:
                assert found(answer), (seed, answer)
            else:
                assert answer.status == "proven" or case.relations, (seed, answer)
    assert {"found", "proven"} <= seen


def test_steps_that_bend_numbers_are_named():
    frame = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7})
    y = (frame.a + frame.b > 20).astype(int)
    schema = du.Schema([du.Feature("a", "real", 0, 40), du.Feature("b", "real", 0, 7)])
    clipped = make_pipeline(MinMaxScaler(clip=True), LogisticRegression()).fit(frame, y)
    with pytest.raises(du.Unsupported, match="MinMaxScaler that clips"):
        du.influence(clipped, schema, of=["a"])
    bare = LogisticRegression().fit(frame, y)
    endless = du.Schema([du.Feature("a", "real"), du.Feature("b", "real", 0, 7)])
    with pytest.raises(du.Unsupported, match="'a' has no bounds"):
        du.influence(bare, endless, of=["a"])


def test_reals_reach_what_the_weights_say():
    rng = np.random.default_rng(0)
    x = rng.random((200, 3))
    model = LogisticRegression(C=10).fit(x, x @ [1.0, -2.0, 0.5] > 0)
    w = model.coef_[0]
    schema = du.Schema([du.Feature(n, "real", 0, 1) for n in "abc"])
    answer = du.influence(model, schema, of=["b"])
    assert answer.low == pytest.approx(abs(w[1]), rel=1e-12) and answer.status == "proven"
    tied = du.Schema([du.Feature(n, "real", 0, 1) for n in "abc"], ["b <= 0.5 * a", "a + c <= 1"])
    answer = du.influence(model, tied, of=["b"])
    assert answer.low == pytest.approx(0.5 * abs(w[1]), rel=1e-4) and answer.status == "proven"
    assert du.influence(model, schema, of=["b"], within=0.25).low == pytest.approx(abs(w[1]) / 4)
    claims = ["a never lowers the score", "b never raises the score", "b never lowers the score"]
    assert du.check_properties(model, schema, claims).outcomes == ("pass", "pass", "fail")
