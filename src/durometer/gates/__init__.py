"""The gate: does a figure clear its bound, do claims hold? Pass, fail or undecided."""

from durometer.gates.criterion import Criterion
from durometer.gates.decide import Decision, Outcome, SequentialTest, decide

__all__ = ["Criterion", "Decision", "Outcome", "SequentialTest", "decide"]
