"""Attacks on models that move after the attacker: rehearsed, unrolled, poisoned."""
