"""``python -m specfleet``: the same commands as the console script."""

from specfleet.cli.main import app

app()
