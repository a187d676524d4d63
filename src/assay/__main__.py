"""`python -m assay` is the command `assay`."""

from assay.cli.app import app

app()
