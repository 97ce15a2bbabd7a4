"""The port of policies: what the operator's tuner takes and gives, so that it runs here unmodified."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from specfleet.api.schedule import Table
from specfleet.simulator.state import TABLE
from specfleet.tuning.decide import Outcome
from specfleet.tuning.decision import Hold
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings


class Controller(Protocol):
    """Decides once per scrape interval from telemetry. ``now``: seconds since the epoch."""

    def __call__(
        self, settings: PoolSettings, evidence: Evidence, memory: Memory, now: float, /
    ) -> Outcome: ...


def keep(settings: PoolSettings, evidence: Evidence, memory: Memory, now: float) -> Outcome:
    """Never change the table."""
    return Outcome(Hold("Pinned", "this policy never pushes"), memory, "Active")


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to choose depths. ``table`` is in force at the start, ``controller`` makes a new one per run.

    ``controller`` None: the table stays (static depths, profiled tables). Then nothing is read from
    Prometheus, unless pods are in slices, which are judged by what is read.

    ``rule`` other than TABLE lets the engine itself choose on every step (`specfleet.simulator.state`).
    ``loaded`` False: hard-off, all pods start without a proposer.
    """

    name: str
    table: Table
    controller: Callable[[], Controller] | None = None
    rule: int = TABLE
    loaded: bool = True
