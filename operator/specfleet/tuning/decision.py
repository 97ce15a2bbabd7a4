"""What the tuner can decide for one pool in one pass. Reasons are shown to users as they stand."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from specfleet.api.schedule import Table

HoldKind = Literal[
    "Paused",
    "NoSchedule",
    "NoPods",
    "Rollout",
    "MetricsUnavailable",
    "MetricsMissing",
    "MetricsStale",
    "LowCoverage",
    "DroppedSamples",
    "FirstWindow",
    "PushFault",
    "Verifying",
    "NoProposer",
    "HardOff",
    "NoTraffic",
    "NewLoad",
    "ModeObserve",
    "ModeRecommend",
    "Pinned",
    "Probing",
    "CoolDown",
    "Scaled",
    "PushLimit",
    "Settled",
]
# These concern a human; the others come and go with the day's work.
NOTEWORTHY: frozenset[HoldKind] = frozenset(
    {
        "Paused",
        "MetricsUnavailable",
        "MetricsMissing",
        "MetricsStale",
        "LowCoverage",
        "DroppedSamples",
        "PushFault",
    }
)
DATA_FAULTS: frozenset[HoldKind] = frozenset(
    {"MetricsUnavailable", "MetricsMissing", "MetricsStale", "LowCoverage", "DroppedSamples"}
)


@dataclass(frozen=True, slots=True)
class Hold:
    """Change nothing; the engines keep their table."""

    kind: HoldKind
    reason: str


@dataclass(frozen=True, slots=True)
class Push:
    """Put a table in force."""

    table: Table
    reason: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Put a table in force for a moment, to measure one depth. Not counted as a push."""

    table: Table
    depth: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndProbe:
    """Go back to the table from before the probe."""

    table: Table
    reason: str


@dataclass(frozen=True, slots=True)
class HardOff:
    """Restart the pods without their proposer, for ``pause`` seconds at least.

    ``trial``: what a step takes then is not known yet, and decides what comes after.
    """

    reason: str
    pause: float
    trial: bool = False


@dataclass(frozen=True, slots=True)
class LoadProposer:
    """Restart the pods with their proposer again."""

    reason: str


Decision: TypeAlias = Hold | Push | Probe | EndProbe | HardOff | LoadProposer
