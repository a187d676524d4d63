"""Hardening: a fitted model in, one of its kind out that an attacker breaks much less.

`harden` is the loop, `retention` says which features an attacker does not move for free, `refit`
and `growth` fit the user's own estimator in stages, `judge` proves and breaks held-out rows,
`explain` says what the first model was weak by and what the hardened one leans on.
"""

from durometer.training.hardening.fairness import Unflipped, without_flips
from durometer.training.hardening.harden import harden
from durometer.training.hardening.path import Hardened, Round

__all__ = ["Hardened", "Round", "Unflipped", "harden", "without_flips"]
