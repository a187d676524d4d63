"""The command line."""

from assay.cli.app import app as app
