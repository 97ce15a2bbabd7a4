"""The live table: one line per few seconds, as rows on a terminal that redraws or as plain lines in a log."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from dev.demo.counters import Window, difference
from rich.console import Console
from rich.live import Live
from rich.table import Table

ROWS = 14
COLUMNS = (
    "time", "phase", "running", "waiting", "depth", "tokens/step", "ms/token", "queue ms", "KV free",
    "last decision",
)  # fmt: skip


class LiveTable:
    """Fed with samples; shows what the pods did since the row before."""

    def __init__(self, console: Console, row_seconds: float) -> None:
        self._console = console
        self._row_seconds = row_seconds
        self._rows: deque[tuple[str, ...]] = deque(maxlen=ROWS)
        self._before: Mapping[str, Any] | None = None
        self._started: float | None = None
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> "LiveTable":
        if self._console.is_terminal:
            self._live.start()
        else:
            self._console.print(" | ".join(COLUMNS), soft_wrap=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(self, sample: Mapping[str, Any]) -> None:
        """Take a sample; add a row when it is time for one."""
        if "problem" in sample:
            return
        if self._before is None:
            self._before, self._started = sample, sample["time"]
            return
        if sample["time"] - self._before["time"] < self._row_seconds:
            return
        assert self._started is not None
        row = _row(sample, difference(self._before, sample), sample["time"] - self._started)
        self._before = sample
        self._rows.append(row)
        if self._console.is_terminal:
            self._live.update(self._drawn(), refresh=True)
        else:
            self._console.print(" | ".join(row), soft_wrap=True, markup=False, highlight=False)

    def _drawn(self) -> Table:
        table = Table(expand=True, pad_edge=False)
        for column in COLUMNS:
            right = column not in ("phase", "last decision")
            table.add_column(column, justify="right" if right else "left", no_wrap=right)
        for row in self._rows:
            table.add_row(*row)
        return table


def _row(sample: Mapping[str, Any], window: Window, seconds: float) -> tuple[str, ...]:
    pods = sample["pods"].values()
    decision = sample.get("pool", {}).get("lastDecision", {})
    return (
        f"{int(seconds) // 60}:{int(seconds) % 60:02d}",
        sample["stage"],
        f"{sum(pod['running'] for pod in pods):.0f}",
        f"{sum(pod['waiting'] for pod in pods):.0f}",
        _number(window.mean_depth, 1),
        _number(window.accepted_length, 2),
        _number(window.token_seconds, 1, scale=1000.0),
        _number(window.queue_seconds, 0, scale=1000.0),
        f"{100.0 * (1.0 - max((pod['kvUsage'] for pod in pods), default=0.0)):.0f} %",
        f"{decision.get('action', '')}: {decision.get('reason', '')}" if decision else "",
    )


def _number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"
