"""A check of deepchecks that measures robust accuracy, for suites of tables.

    from durometer.plugins.deepchecks import RobustAccuracy

    check = RobustAccuracy(schema.space(eps=0.1), rows=200).add_condition_robust(0.8)
    Suite("before release", check, ...).run(rows, model=pipeline)

What a reader would get wrong: a condition is looked at once, on rows fixed beforehand, and passes
or fails only where the whole interval lies on one side of the bound; between, it warns. A gate
(`du.gate`) plays on until it is decided, and may be looked at as often as one likes.
"""

from __future__ import annotations

from typing import Any, Literal

from durometer._evaluate import evaluate
from durometer.attacks.base import Attack
from durometer.core.errors import DurometerError
from durometer.data.dataset import Dataset
from durometer.goals.goal import Expandable
from durometer.report.report import Report
from durometer.report.stats import Estimate
from durometer.spaces.region import Space
from durometer.tables.space import TableSpace

try:
    from deepchecks.core import CheckResult, ConditionCategory, ConditionResult
    from deepchecks.tabular import SingleDatasetCheck
except ImportError:  # said when somebody makes one
    CheckResult = ConditionCategory = ConditionResult = SingleDatasetCheck = None

METRICS = {"clean": "clean", "at least": "proven", "at most": "robust"}


class RobustAccuracy(SingleDatasetCheck or object):  # type: ignore[misc, unused-ignore]
    """Measures how many rows of a data set keep their right class under attack.

    The value is a dictionary: "clean", "at least" (proven) and "at most" (attacked) accuracy, each
    as value, low, high and n with a 95 % interval, and the ids of the run's warnings. "at least" is
    None where no proof knows the model.

    Args:
        space: What the attacker may change. A table space brings its schema: columns are matched
            by name.
        goal: What counts as a success of the attacker. None: untargeted.
        attack: The attack; "standard" is the ensemble of proofs and attacks that fits the model.
        rows: Attack a random sample of at most so many rows, the same ones every time.
        seed: Seed of the sample and of the attack.
        **kwargs: What every check of deepchecks takes.

    Raises:
        DurometerError: deepchecks is not installed, or `rows` is no number above 0.
    """

    def __init__(
        self, space: Space, goal: Expandable | None = None,
        attack: Attack | Literal["standard"] = "standard", rows: int = 200, seed: int = 0,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if SingleDatasetCheck is None:
            raise DurometerError("this check is one of deepchecks: pip install deepchecks")
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
            raise DurometerError(f"RobustAccuracy(rows={rows!r}): expected a number >= 1")
        super().__init__(**kwargs)
        self.space, self.goal, self.attack = space, goal, attack
        self.rows, self.seed = rows, seed

    def run_logic(self, context: Any, dataset_kind: Any) -> Any:
        """Evaluates the model on the rows of one data set (deepchecks calls it)."""
        given = context.get_data_by_kind(dataset_kind)
        schema = self.space.schema if isinstance(self.space, TableSpace) else None
        data = Dataset(given.features_columns, given.label_col.to_numpy(), schema=schema)
        report = evaluate(
            context.model, data.sample(self.rows, self.seed) if self.rows < len(data) else data,
            space=self.space, goal=self.goal, attack=self.attack, seed=self.seed, progress=False,
        )  # fmt: skip
        display = [_table(report)] if context.with_display else None
        return CheckResult(_value(report), header="Robust accuracy", display=display)

    def add_condition_robust(
        self, bound: float, side: Literal["at least", "at most"] = "at most"
    ) -> Any:
        """Adds a condition: passes where robust accuracy is shown to be at least `bound`, fails
        where it is shown to be below, and warns where the rows decide neither.

        Args:
            bound: The least robust accuracy, above 0 and below 1.
            side: "at most" asks for the share that the attack left, "at least" for the share that
                is proven.

        Returns:
            The check itself.

        Raises:
            DurometerError: The bound is no such number, or the side is unknown.
        """
        if not 0 < bound < 1:
            raise DurometerError(f"add_condition_robust({bound!r}): expected a share, e.g. 0.8")
        if side not in ("at least", "at most"):
            raise DurometerError(f"side={side!r}: expected 'at least' or 'at most'")

        def decided(value: dict[str, Any]) -> Any:
            found = value[side]
            if found is None:
                return ConditionResult(ConditionCategory.WARN, "no proof knows this model")
            said = f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}], "
            said += f"n = {found['n']}"
            if found["low"] >= bound:
                return ConditionResult(ConditionCategory.PASS, said)
            if found["high"] < bound:
                return ConditionResult(ConditionCategory.FAIL, said)
            return ConditionResult(ConditionCategory.WARN, f"undecided: {said}")

        return self.add_condition(f"Robust accuracy, {side}, is not below {bound:g}", decided)


def _value(report: Report) -> dict[str, Any]:
    unproven = any(flag.id == "no-proof" for flag in report.flags)
    found = {
        side: None if side == "at least" and unproven else _plain(report.metric(metric))
        for side, metric in METRICS.items()
    }
    return {**found, "warnings": [f.id for f in report.flags if f.level == "warning"]}


def _plain(found: Estimate | dict[str, Estimate]) -> dict[str, float]:
    assert isinstance(found, Estimate)
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


def _table(report: Report) -> Any:
    import pandas as pd

    rows = {title: [e.value, e.low, e.high, e.n] for title, e in report.shown.values()}
    return pd.DataFrame.from_dict(rows, "index", columns=["value", "low", "high", "rows"])
