"""The table of design/simulator.md and the figures, printed and written."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dev.evaluation.means import Mean, Result, differences, log_ratios, mean_over_scenarios, of_policy
from dev.evaluation.plan import ORACLE
from dev.evaluation.scenarios import TABLE_SCENARIOS
from dev.figures import written
from dev.tables import a_table, figures_table
from rich.console import Console

COLUMNS = (
    "policy",
    "SS-regret mean / worst %",
    "e2e [se] / worst",
    "missed limits, points over oracle [se] / worst",
    "pushes per h",
    "changes of depth per h",
)

_TABLE = {one.name for one in TABLE_SCENARIOS}


def rows(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Give the table of design/simulator.md, section 8, a policy a row."""
    table = [one for one in results if one["scenario"] in _TABLE]
    return [_row(table, policy) for policy in dict.fromkeys(one["policy"] for one in table)]


def _row(table: Sequence[Result], policy: str) -> tuple[str, ...]:
    regret = mean_over_scenarios(of_policy(table, policy, "regret"))
    pushes = mean_over_scenarios(of_policy(table, policy, "pushes"))
    switches = mean_over_scenarios(of_policy(table, policy, "switches"))
    ratios = log_ratios(table, policy, ORACLE, "latency")
    late = differences(table, policy, ORACLE, "violations")
    return (
        policy,
        f"{100 * regret.value:.1f} [{_error(100 * regret.error, 1)}] / {100 * regret.worst:.1f}",
        _latency(mean_over_scenarios(ratios)) if ratios else "-",
        _points(mean_over_scenarios(late)) if late else "-",
        f"{pushes.value:.1f}",
        f"{switches.value:.0f}",
    )


def _latency(mean: Mean) -> str:
    return f"{math.exp(mean.value):.3f} [{_error(mean.error, 3)}] / {math.exp(mean.worst):.2f}"


def _points(mean: Mean) -> str:
    return f"{100 * mean.value:+.1f} [{_error(100 * mean.error, 1)}] / {100 * mean.worst:+.1f}"


def _error(value: float, digits: int) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def show(console: Console, results: Sequence[Result], found: Sequence[Mapping[str, Any]]) -> None:
    """Print the table and the figures."""
    table = [one for one in results if one["scenario"] in _TABLE]
    scenarios, seeds = (len({one[key] for one in table}) for key in ("scenario", "seed"))
    title = f"Policies over {scenarios} scenarios and {seeds} seeds"
    console.print(a_table(title, COLUMNS, rows(results)))
    console.print(figures_table(found))


def write(
    path: Path, results: Sequence[Result], found: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> None:
    """Write the figures, the table, and every cell that they were computed from."""
    table = [dict(zip(COLUMNS, row, strict=True)) for row in rows(results)]
    body = {"figures": list(found), "about": dict(about), "table": table, "cells": list(results)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(body), encoding="utf-8")
