"""The tables of a report on the console, alike for demo, benchmark and evaluation."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dev.figures import MUST
from rich.console import Console
from rich.table import Table

# Without a terminal, as in a log of CI, rich takes 80 columns and breaks every line.
WIDTH = 120


def report_console() -> Console:
    """Give a console as wide as the terminal, or `WIDTH`."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def a_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """Lay rows out under ``columns``; the first ``left`` are words, the others numbers."""
    table = Table(title=title)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place < left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def figures_table(found: Iterable[Mapping[str, Any]], title: str = "Figures") -> Table:
    """Show each figure of `dev.figures` with its target beside it."""
    rows = (
        (one["name"], _value(one), one["target"], one["kind"], "yes" if one["met"] else _missed(one["kind"]))
        for one in found
    )
    return a_table(title, ("figure", "value", "target", "kind", "met"), rows)


def number(value: float | None) -> str:
    """Write three digits; a dash where there is no value."""
    return "-" if value is None else f"{value:.3g}"


def _value(figure: Mapping[str, Any]) -> str:
    if figure["value"] is None:
        return "-"
    error = f" ± {figure['standardError']:.2g}" if "standardError" in figure else ""
    return f"{number(figure['value'])}{error} {figure['unit']}"


def _missed(kind: str) -> str:
    return "[bold red]NO[/]" if kind == MUST else "[yellow]no[/]"
