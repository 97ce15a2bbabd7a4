"""The port to Prometheus: one range selector in, raw samples with their own time stamps out.

Source: design/tuning.md, section 3.1: the operator differences raw counters itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a matrix answer. ``samples`` are (seconds since the epoch, value), oldest first."""

    labels: Mapping[str, str]  # with __name__
    samples: tuple[tuple[float, float], ...]


class MetricsSource(Protocol):
    """One Prometheus. Raises `specfleet.telemetry.errors.MetricsError` or one of its subclasses."""

    async def query(self, promql: str, at: float) -> list[Series]:
        """Evaluate a range selector such as ``name[45s]`` at ``at`` (seconds since the epoch).

        An answer with warnings is partial, and raises: partial data is no data.
        """
