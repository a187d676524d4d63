"""`python -m durometer` is the command `durometer`."""

from durometer.cli.app import app

app()
