"""Attacks: one idea, one file. `base.py` says what an attack is and how attacks combine."""
