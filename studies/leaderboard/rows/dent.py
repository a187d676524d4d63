"""DENT (entropy, per input)."""

TASKS = ("digits",)
DEFENSE = 'type = "DENT"'
