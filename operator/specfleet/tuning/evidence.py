"""What one pass knows of one pool: intervals, coverage, the document in force, or why there is no data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specfleet.api.schedule import Document
from specfleet.tuning.decision import Hold
from specfleet.tuning.interval import Counts, PodInterval, PodKey, pooled
from specfleet.tuning.limits import violation

LEAST_COVERAGE = 0.8


@dataclass(frozen=True, slots=True)
class Evidence:
    """``expected``: ready pods. ``warming``: too young to learn from. ``query_fault``: why no answer.

    ``replicas``: pods that exist, ready or not; None: not known.
    """

    document: Document | None
    fingerprints: frozenset[str] = frozenset()
    expected: frozenset[PodKey] = frozenset()
    reporting: frozenset[PodKey] = frozenset()
    warming: frozenset[PodKey] = frozenset()
    intervals: tuple[PodInterval, ...] = ()
    versions: Mapping[PodKey, tuple[int, int]] = field(default_factory=dict)
    query_fault: str | None = None
    replicas: int | None = None

    @property
    def coverage(self) -> float:
        return len(self.expected & self.reporting) / len(self.expected) if self.expected else 0.0


@dataclass(frozen=True, slots=True)
class Usable:
    """The intervals of a pass that obey the limits, and of them those that may be learnt from."""

    intervals: tuple[PodInterval, ...] = ()
    learning: tuple[PodInterval, ...] = ()
    dropped: int = 0
    stuck: tuple[PodKey, ...] = ()
    counts: Counts = field(default_factory=Counts)


def usable(evidence: Evidence) -> Usable:
    """Sort the intervals of a pass: out of range is dropped, stuck pods are left out, restarts not learnt."""
    own = [interval for interval in evidence.intervals if interval.pod in evidence.expected]
    sound = [interval for interval in own if violation(interval) is None]
    moving = tuple(interval for interval in sound if not interval.stuck)
    learning = tuple(i for i in moving if not i.restarted and i.pod not in evidence.warming)
    return Usable(
        intervals=moving,
        learning=learning,
        dropped=len(own) - len(sound),
        stuck=tuple(interval.pod for interval in sound if interval.stuck),
        counts=pooled(interval.counts for interval in learning),
    )


def data_fault(evidence: Evidence, drops: Sequence[tuple[float, int, int]]) -> Hold | None:
    """Say why the data of this pass must not be acted on; None: they are whole."""
    if evidence.query_fault is not None:
        return Hold("MetricsUnavailable", evidence.query_fault)
    reporting, expected = len(evidence.expected & evidence.reporting), len(evidence.expected)
    if reporting == 0:
        return Hold("MetricsStale", f"no sample of {expected} ready pods is younger than 3 scrapes")
    if evidence.coverage < LEAST_COVERAGE:
        return Hold("LowCoverage", f"{reporting} of {expected} ready pods report, 80 % are needed")
    dropped, total = sum(drop[1] for drop in drops), sum(drop[2] for drop in drops)
    if dropped > 0.2 * total:
        return Hold("DroppedSamples", f"{dropped} of {total} intervals within 5 min are out of range")
    return None
