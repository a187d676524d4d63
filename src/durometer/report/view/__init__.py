"""The local viewer: all runs under a folder, their rows, and two of them compared."""
