"""For those who add an attack, a space, a goal or a defender: checks, and toys to try them on."""

from assay.testing.checks import check_attack, check_defender, check_goal, check_space
from assay.testing.toys import Case, Toy, cases, toy

__all__ = [
    "Case",
    "Toy",
    "cases",
    "check_attack",
    "check_defender",
    "check_goal",
    "check_space",
    "toy",
]
