"""What an engine shows on its ``/metrics`` page, as data: one dictionary for each engine.

Telemetry reads by it, queries are written from it, and a name that it needs and that is not there is an
error: absent is never 0 (design/tuning.md, trap P11).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
# When a series must be there. "always": from the first scrape on. "speculating": the same, where the engine
# was started with a proposer. "schedule": where it follows a schedule file. "drafts": where it does and was.
# "finished": once a request has ended, for series that begin with their first use. "never": it is read where
# it is there.
Need = Literal["always", "speculating", "schedule", "drafts", "finished", "never"]


@dataclass(frozen=True, slots=True)
class Count:
    """Adds the difference of a counter to a field of `specfleet.tuning.interval.Counts`.

    ``part``: which series of a histogram. ``by``: the label whose number becomes the key, plus ``shift``.
    ``only``: label and the values that count.
    """

    field: str
    part: str = ""
    by: str | None = None
    shift: int = 0
    only: tuple[str, frozenset[str]] | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """Sets a field of `specfleet.tuning.interval.PodInterval` from a gauge, over the pod's ranks.

    ``label``: the number is not the value but a label, as info metrics have it. ``parts_by``: series where
    that label is not empty are parts of the one where it is. ``steady``: the field is known only if the value
    was the same at both ends.
    """

    field: str
    over_ranks: Literal["sum", "mean"] = "sum"
    label: str | None = None
    parts_by: str | None = None
    steady: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``labels`` are its own, beside those that all series of the engine have.

    ``sticky``: the engine writes it now and then, and leaves the last value standing (trap P12).
    ``formerly``: names of other versions, looked for only to say what has become of a missing one.
    """

    name: str
    kind: Kind
    meaning: str
    need: Need = "always"
    labels: tuple[str, ...] = ()
    counts: tuple[Count, ...] = ()
    level: Level | None = None
    sticky: bool = False
    formerly: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        """Names of the series that are read."""
        return tuple(dict.fromkeys(f"{self.name}{count.part}" for count in self.counts)) or (self.name,)


@dataclass(frozen=True)
class MetricDictionary:
    """All that is read of one engine. ``label``: its name, as messages have it.

    Series of a scrape target that begin with ``prefix`` make it the engine's own. ``rank_label`` tells
    data-parallel ranks apart: gauges that differ in others are the same thing seen twice.
    ``follows_schedule``: every pod of it follows a schedule file. ``refreshed``: the gauge that moves
    whenever the sticky ones are written.
    """

    label: str
    prefix: str
    rank_label: str
    metrics: tuple[Metric, ...]
    follows_schedule: bool = False
    refreshed: str | None = None

    @cached_property
    def counts(self) -> Mapping[str, tuple[Count, ...]]:
        """What each series of a counter or histogram adds to."""
        found: dict[str, tuple[Count, ...]] = {}
        for metric in self.metrics:
            for count in metric.counts:
                name = f"{metric.name}{count.part}"
                found[name] = (*found.get(name, ()), count)
        return found

    @cached_property
    def sums(self) -> Mapping[str, frozenset[str]]:
        """Series that a field is the sum of, where there are several: without one the sum is not known."""
        found: dict[str, set[str]] = {}
        for name, counts in self.counts.items():
            for count in counts:
                found.setdefault(count.field, set()).add(name)
        return {field: frozenset(names) for field, names in found.items() if len(names) > 1}

    @cached_property
    def levels(self) -> Mapping[str, tuple[Level, bool]]:
        """What each gauge sets, and whether it is sticky."""
        return {m.name: (m.level, m.sticky) for m in self.metrics if m.level is not None}

    @cached_property
    def series(self) -> tuple[str, ...]:
        """Every series to ask for, former names included."""
        return tuple(name for metric in self.metrics for name in (*metric.series, *metric.formerly))

    def missing(self, present: Collection[str], *, speculating: bool) -> tuple[str, ...]:
        """Say which needed metrics a pod does not show, each with what stands in its place.

        ``present``: names of the pod's series. ``speculating``: the engine was started with a proposer.
        Series of a schedule that are there in part are missed, whatever the engine.
        """
        finished = any(m.need == "finished" and _shown(m, present) for m in self.metrics)
        scheduled = any(m.need == "schedule" and _shown(m, present) for m in self.metrics)
        needed = {
            "always": True,
            "speculating": speculating,
            "schedule": self.follows_schedule or scheduled,
            "drafts": speculating and (self.follows_schedule or scheduled),
            "finished": finished,
            "never": False,
        }
        return tuple(
            _named(metric, present)
            for metric in self.metrics
            if needed[metric.need] and not _shown(metric, present)
        )


def _shown(metric: Metric, present: Collection[str]) -> bool:
    return all(name in present for name in metric.series)


def _named(metric: Metric, present: Collection[str]) -> str:
    former = next((name for name in metric.formerly if name in present), None)
    return metric.name if former is None else f"{metric.name} (it shows {former}, an older name)"
