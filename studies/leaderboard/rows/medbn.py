"""MedBN (medians of the batch)."""

TASKS = ("digits",)
DEFENSE = 'type = "MedBN"'
