"""The command line."""

from durometer.cli.app import app as app
