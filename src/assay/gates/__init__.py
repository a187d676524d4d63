"""The gate: does a figure clear its bound? Pass, fail or undecided, valid whenever it stops."""

from assay.gates.criterion import Criterion
from assay.gates.decide import Decision, Outcome, Watch, decide

__all__ = ["Criterion", "Decision", "Outcome", "Watch", "decide"]
