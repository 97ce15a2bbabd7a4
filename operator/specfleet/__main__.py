"""`python -m specfleet`."""

from specfleet.cli.main import app

app()
