"""Comparison: two runs on the same rows, paired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from durometer.report import wording
from durometer.report.stats import Estimate, mcnemar, paired_difference, wilcoxon

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

from durometer.report.metrics import middle


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two reports on the same rows, compared row by row; made by `Report.compare`.

    Under noise, the probability that the answer stays is compared.

    Args:
        first: Records of the shared rows in the first report.
        second: Records of the same rows in the second report.
        setting: What the two runs have in common. None: not known.
    """

    first: pd.DataFrame
    second: pd.DataFrame
    setting: wording.Setting | None = None  # what the two runs have in common, where known

    @property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """What each side gives a row: its probability under noise, else whether it held."""
        a, b = (middle(t) for t in (self.first, self.second))
        if np.isfinite(a).all() and np.isfinite(b).all():
            return a, b
        return tuple(~t["success"].to_numpy(bool) for t in (self.first, self.second))  # type: ignore[return-value]

    @property
    def noisy(self) -> bool:
        """Whether probabilities are compared."""
        return self.sides[0].dtype != bool

    @property
    def robust(self) -> Estimate:
        """Robust accuracy of the first minus that of the second, with its 95 % interval."""
        return paired_difference(*self.sides, self.ids)

    @property
    def ids(self) -> np.ndarray:
        """The ids of the rows."""
        return self.first.index.get_level_values("id").to_numpy()

    @property
    def only_first(self) -> int:
        """Rows that only the first attack broke."""
        return int((self.first["success"] & ~self.second["success"]).sum())

    @property
    def only_second(self) -> int:
        """Rows that only the second attack broke."""
        return int((self.second["success"] & ~self.first["success"]).sum())

    @property
    def proven(self) -> tuple[int, int]:
        """Rows that each side has proven."""
        return tuple(int((t["verdict"] == "proven").sum()) for t in (self.first, self.second))  # type: ignore[return-value]

    @property
    def verdicts(self) -> tuple[wording.Verdicts, wording.Verdicts]:
        """The shared rows by verdict, of each side."""

        def of(t: pd.DataFrame) -> wording.Verdicts:
            wrong = (t["success"] & (t["winner"] == "clean")).to_numpy(bool)
            broken, proven = t["success"].to_numpy(bool), (t["verdict"] == "proven").to_numpy(bool)
            left = len(t) - int(broken.sum()) - int(proven.sum())
            lost = int(wrong.sum())
            return wording.Verdicts(int(broken.sum()) - lost, int(proven.sum()), left, lost)

        return of(self.first), of(self.second)

    def sentence(self, names: tuple[str, str] = ("A", "B")) -> str:
        """The result in a sentence; it ranks nothing that the runs do not rank.

        Args:
            names: What to call the two runs.
        """
        d, setting = self.robust, self.setting
        points = (100 * d.low, 100 * d.value, 100 * d.high)
        if self.noisy:
            return wording.noise_ranking(setting, names, points, self.p_value)
        if setting is None:
            return ""
        if setting.same_model and setting.same_question:
            held = int((~self.first["success"] & ~self.second["success"]).sum())
            only = (self.only_first, self.only_second)
            return wording.same_model(names, only, held, len(self.first))
        return wording.ranking(setting, names, self.verdicts, points, self.p_value)

    @property
    def p_value(self) -> float:
        """P-value of equal robustness: McNemar's exact test, or Wilcoxon's under noise."""
        if self.noisy:
            return wilcoxon(*self.sides)
        return mcnemar(self.only_first, self.only_second)

    @property
    def queries_p_value(self) -> float:
        """P-value of equal cost, in forward passes per row (Wilcoxon's test)."""
        return wilcoxon(self.first["forwards"].to_numpy(), self.second["forwards"].to_numpy())

    def plot(self, ax: Axes | None = None, names: tuple[str, str] = ("first", "second")) -> Axes:
        """Draws how many rows held or broke in which run; under noise each row's probabilities.

        Args:
            ax: matplotlib axes to draw into. None makes a figure.
            names: What to call the two runs.

        Returns:
            The axes; the title is `sentence(names)`.

        Raises:
            Unsupported: matplotlib is not installed.
        """
        from durometer.report.plot import comparison  # late: most comparisons are not drawn

        return comparison(self, ax, names)

    def _repr_html_(self) -> str:
        from durometer.report.notebook_repr import comparison

        return comparison(self)

    def __str__(self) -> str:
        r, (a, b) = self.robust, self.sides
        decided = not any(v.open for v in self.verdicts)
        attacked = "robust accuracy      " if decided else "robust acc., at most "
        name = "probability it stays " if self.noisy else attacked
        lines = [
            f"rows compared            {len(self.first)}",
            f"{name}    {a.mean():.3f} against {b.mean():.3f}",
            f"difference               {r.value:+.3f} [{r.low:+.3f}, {r.high:+.3f}]",
        ]
        if self.noisy:
            lines.append(f"Wilcoxon                 p = {self.p_value:.3g}")
            return "\n".join([*lines, self.sentence(("first", "second"))])
        if any(self.proven):
            n = len(self.first)
            least = " against ".join(f"{k / n:.3f}" for k in self.proven)
            lines.append(f"of it proven             {least}")
        lines += [
            f"broken by one only       {self.only_first} against {self.only_second} "
            f"(McNemar p = {self.p_value:.3g})",
            f"forward passes per row   {self.first['forwards'].mean():.1f} against "
            f"{self.second['forwards'].mean():.1f} (Wilcoxon p = {self.queries_p_value:.3g})",
        ]
        lines += [self.sentence(("first", "second"))] if self.setting is not None else []
        return "\n".join(lines)
