"""For those who add an attack, a space, a goal or a defender: checks, and toys to try them on."""

from durometer.testing.checks import check_attack, check_defender, check_goal, check_space
from durometer.testing.toys import Case, Toy, cases, toy

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
