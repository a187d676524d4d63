"""Attacks that exchange symbols of sequences: words, letters, bytes."""
