"""Spaces: what may change. One file each; `region.py` says what a space must offer."""
