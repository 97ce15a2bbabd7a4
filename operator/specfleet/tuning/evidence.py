"""What one pass knows of one pool: intervals, coverage, the document in force, or why there is no data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specfleet.api.schedule import Document, Table
from specfleet.tuning.attribution import Attributed, attributed
from specfleet.tuning.decision import Hold
from specfleet.tuning.interval import Counts, PodInterval, PodKey, pooled
from specfleet.tuning.limits import violation

LEAST_COVERAGE = 0.8
MOST_NAMES = 4  # of missing metrics in one message


@dataclass(frozen=True, slots=True)
class Evidence:
    """``expected``: ready pods. ``warming``: too young to learn from. ``query_fault``: why no answer.

    ``replicas``: pods that exist, ready or not; None: not known. ``missing``: metrics that a pod of this
    ``engine`` must show and does not. ``variable_drafts``: its proposer may propose less than a depth allows.
    ``follows_schedule``: the engine reads the schedule, and says which version it has in force. ``tables``:
    of pods that keep the table they were started with, whatever the document says by now.
    """

    document: Document | None
    fingerprints: frozenset[str] = frozenset()
    expected: frozenset[PodKey] = frozenset()
    reporting: frozenset[PodKey] = frozenset()
    warming: frozenset[PodKey] = frozenset()
    intervals: tuple[PodInterval, ...] = ()
    versions: Mapping[PodKey, tuple[int, int]] = field(default_factory=dict)
    tables: Mapping[PodKey, Table] = field(default_factory=dict)
    query_fault: str | None = None
    replicas: int | None = None
    missing: Mapping[PodKey, tuple[str, ...]] = field(default_factory=dict)
    engine: str = ""
    variable_drafts: bool = False
    follows_schedule: bool = True

    @property
    def coverage(self) -> float:
        return len(self.expected & self.reporting) / len(self.expected) if self.expected else 0.0


@dataclass(frozen=True, slots=True)
class Usable:
    """The intervals of a pass that obey the limits, and of them those that may be learnt from.

    ``counts`` is the sum of the latter; ``timed`` of those whose seconds are known by depth. ``broken`` says
    what each of the others breaks. ``unfit`` pods drafted what no depth of the table explains.
    """

    intervals: tuple[PodInterval, ...] = ()
    learning: tuple[PodInterval, ...] = ()
    broken: tuple[str, ...] = ()
    stuck: tuple[PodKey, ...] = ()
    counts: Counts = field(default_factory=Counts)
    timed: Counts = field(default_factory=Counts)
    unfit: frozenset[PodKey] = frozenset()

    @property
    def dropped(self) -> int:
        return len(self.broken)


def usable(evidence: Evidence) -> Usable:
    """Sort the intervals of a pass: broken ones are dropped, stuck pods left out, restarts not learnt."""
    own = [_by_depth(one, evidence) for one in evidence.intervals if one.pod in evidence.expected]
    unfit = frozenset(one.interval.pod for one in own if not one.fits)
    judged = [(one.interval, violation(one.interval)) for one in own]
    sound = [interval for interval, broken in judged if broken is None]
    moving = tuple(interval for interval in sound if not interval.stuck)
    # Pods of two configurations have no baseline in common.
    comparable = moving if len(evidence.fingerprints) <= 1 else ()
    learning = tuple(
        i for i in comparable if not i.restarted and i.pod not in evidence.warming and i.pod not in unfit
    )
    return Usable(
        intervals=moving,
        learning=learning,
        broken=tuple(broken for _, broken in judged if broken is not None),
        stuck=tuple(interval.pod for interval in sound if interval.stuck),
        counts=pooled(interval.counts for interval in learning),
        timed=pooled(interval.counts for interval in learning if interval.counts.step_seconds),
        unfit=unfit,
    )


def _by_depth(interval: PodInterval, evidence: Evidence) -> Attributed:
    return attributed(interval, _table_of(interval, evidence), evidence.variable_drafts)


def _table_of(interval: PodInterval, evidence: Evidence) -> Table | None:
    """Give the table that a pod ran by throughout an interval; None: there were two, or nobody knows."""
    if (kept := evidence.tables.get(interval.pod)) is not None:
        return kept
    document = evidence.document
    if document is None or interval.start < document.issued_at.timestamp():
        return None
    said = {interval.version_at_start, interval.version}
    return document.table if said == {(document.fence, document.version)} else None


def missing_metrics(evidence: Evidence) -> str | None:
    """Name what pods must show and do not. Absent is not 0, so nothing may be concluded (trap P11)."""
    pods = sorted(pod for pod, names in evidence.missing.items() if names and pod in evidence.expected)
    if not pods:
        return None
    names = sorted({name for pod in pods for name in evidence.missing[pod]})
    shown = ", ".join(names[:MOST_NAMES]) + (" ..." if len(names) > MOST_NAMES else "")
    count = f"{len(pods)} of {len(evidence.expected)} ready pods ({pods[0][1]})"
    return f"{evidence.engine}: {count} do not show {shown}: see that engine.version is what the image runs"


def data_fault(evidence: Evidence, used: Usable, drops: Sequence[tuple[float, int, int]]) -> Hold | None:
    """Say why the data of this pass must not be acted on; None: they are whole.

    ``drops``: passes of the last 5 min as (time, dropped intervals, all intervals), this one among them.
    """
    if evidence.query_fault is not None:
        return Hold("MetricsUnavailable", evidence.query_fault)
    if message := missing_metrics(evidence):
        return Hold("MetricsMissing", message)
    reporting, expected = len(evidence.expected & evidence.reporting), len(evidence.expected)
    if reporting == 0:
        return Hold("MetricsStale", f"no sample of {expected} ready pods is younger than 3 scrapes")
    if evidence.coverage < LEAST_COVERAGE:
        return Hold("LowCoverage", f"{reporting} of {expected} ready pods report, 80 % are needed")
    return _dropped(used, drops)


def _dropped(used: Usable, drops: Sequence[tuple[float, int, int]]) -> Hold | None:
    if used.broken and not used.intervals:
        return Hold("DroppedSamples", f"no interval of this pass can be used: {used.broken[0]}")
    dropped, total = sum(drop[1] for drop in drops), sum(drop[2] for drop in drops)
    if dropped <= 0.2 * total:
        return None
    why = f": {used.broken[0]}" if used.broken else ""
    return Hold("DroppedSamples", f"{dropped} of {total} intervals within 5 min cannot be used{why}")
