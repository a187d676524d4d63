"""Rows and labels as users have them: arrays, frames, files."""
