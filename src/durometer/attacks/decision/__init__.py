"""Attacks that see labels only: `Ray` in Linf, `Circle` in L2."""
