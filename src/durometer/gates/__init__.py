"""The gate: does a figure clear its bound? Pass, fail or undecided, valid whenever it stops."""

from durometer.gates.criterion import Criterion
from durometer.gates.decide import Decision, Outcome, SequentialTest, decide

__all__ = ["Criterion", "Decision", "Outcome", "SequentialTest", "decide"]
