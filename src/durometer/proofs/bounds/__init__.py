"""Bounds of what a network says to a whole region, and what closes the rows they leave open."""
