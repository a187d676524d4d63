"""Norm (batch statistics)."""

TASKS = ("digits",)
DEFENSE = 'type = "Norm"'
