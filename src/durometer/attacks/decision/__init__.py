"""Attacks that see labels only: `Ray`, `Circle`, `Walk`, and `Mirror` in tables."""
