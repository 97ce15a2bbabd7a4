"""From raw samples to intervals: the newest sample of each series, differenced with its own time stamps.

One `FleetSamples` lives as long as the operator leads. Source: design/tuning.md, sections 3.1 and 3.4.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from specfleet.engines.metrics import MetricDictionary
from specfleet.telemetry.fleet import Fleet
from specfleet.telemetry.source import Series
from specfleet.telemetry.targets import Scrape, Values, newest_scrape
from specfleet.telemetry.values import (
    Pair,
    counts_of,
    levels_of,
    not_live,
    not_numbers,
    refreshed,
    sticky_fields,
    version_of,
)
from specfleet.tuning.interval import PodInterval, PodKey

STALE_SCRAPES = 3
GAP_SCRAPES = 4
STUCK_INTERVALS = 3
STICKY_INTERVALS = 2


@dataclass(frozen=True, slots=True)
class Readings:
    """What one pass read. ``reporting`` are the owned pods with a sample that is not stale.

    ``versions`` are (fence, version) of the schedule that each of them had in force, ``names`` the series
    that each of them shows.
    """

    intervals: tuple[PodInterval, ...] = ()
    reporting: frozenset[PodKey] = frozenset()
    versions: Mapping[PodKey, tuple[int, int]] = field(default_factory=dict)
    names: Mapping[PodKey, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Baseline:
    at: float
    values: Values
    version: tuple[int, int] | None
    frozen_intervals: int
    refreshed_at: float | None  # when the gauge that tells of sticky ones last moved


@dataclass(frozen=True, slots=True)
class _Taken:
    names: frozenset[str]
    baseline: _Baseline
    interval: PodInterval | None


class FleetSamples:
    """Keeps one scrape of every owned pod and turns the next one into an interval."""

    def __init__(self, scrape_seconds: float) -> None:
        self._scrape_seconds = scrape_seconds
        self._baselines: Mapping[PodKey, _Baseline] = {}

    def advance(self, answer: Iterable[Series], owned: Fleet, now: float) -> Readings:
        """Take the answer of one pass, if it comes in one part."""
        begun = self.begin(owned, now)
        begun.take(answer)
        return self.finish(begun)

    def begin(self, owned: Fleet, now: float) -> "Advance":
        """Begin a pass whose answer comes in parts; dropped, it leaves all as it was."""
        return Advance(self._baselines, owned, now, self._scrape_seconds)

    def finish(self, begun: "Advance") -> Readings:
        """Keep the scrapes of a pass that has all its parts, and give what it read."""
        readings, self._baselines = begun.readings(), begun.baselines()
        return readings


class Advance:
    """One pass. Parts are reduced to scrapes as they come, so that no two are held at once."""

    def __init__(
        self, before: Mapping[PodKey, _Baseline], owned: Fleet, now: float, scrape_seconds: float
    ) -> None:
        self._before = before
        self._owned = owned
        self._now = now
        self._scrape_seconds = scrape_seconds
        self._taken: dict[PodKey, _Taken] = {}

    def take(self, part: Iterable[Series]) -> None:
        """Take all series of some pods; those of a pod that comes again count instead of the former."""
        window = STALE_SCRAPES * self._scrape_seconds
        for pod, series in _by_pod(part, self._owned).items():
            dictionary = self._owned[pod]
            scrape = newest_scrape(series, dictionary.prefix, window)
            # By its own stamp: Prometheus goes on returning samples of a target that is gone (trap P9).
            if scrape is not None and scrape.at >= self._now - window:
                names = frozenset(name for name, _ in scrape.values)
                self._taken[pod] = _Taken(names, *self._difference(pod, dictionary, scrape))

    def readings(self) -> Readings:
        """Give what was read, pods in the order of the fleet."""
        taken = {pod: self._taken[pod] for pod in self._owned if pod in self._taken}
        versions = {pod: one.baseline.version for pod, one in taken.items()}
        return Readings(
            tuple(one.interval for one in taken.values() if one.interval is not None),
            frozenset(taken),
            {pod: version for pod, version in versions.items() if version is not None},
            {pod: one.names for pod, one in taken.items()},
        )

    def baselines(self) -> Mapping[PodKey, _Baseline]:
        """Give the scrapes that the next pass begins with: of pods without a new one those from before."""
        kept = {pod: one for pod, one in self._before.items() if pod in self._owned}
        return kept | {pod: one.baseline for pod, one in self._taken.items()}

    def _difference(
        self, pod: PodKey, dictionary: MetricDictionary, scrape: Scrape
    ) -> tuple[_Baseline, PodInterval | None]:
        before = self._before.get(pod)
        if before is not None and scrape.at <= before.at:
            return before, None
        version = version_of(scrape.values)
        if before is None or scrape.at - before.at > GAP_SCRAPES * self._scrape_seconds:
            return _Baseline(scrape.at, scrape.values, version, 0, None), None
        counts, restarted = counts_of(dictionary, self._pairs(before, scrape, dictionary))
        levels = levels_of(dictionary, before.values, scrape.values)
        running = levels.get("running")
        # Where tokens are not known nobody can say that none came.
        moved = counts.all_steps > 0 or counts.generation_tokens is None or counts.generation_tokens > 0
        frozen = 0 if moved or not running else before.frozen_intervals + 1
        written = refreshed(dictionary, before.values, scrape.values)
        refreshed_at = scrape.at if written else before.refreshed_at
        fresh = STICKY_INTERVALS * self._scrape_seconds
        if not running or refreshed_at is None or scrape.at - refreshed_at > fresh:
            sticky = sticky_fields(dictionary)
            levels = {name: value for name, value in levels.items() if name not in sticky}
        interval = PodInterval(
            pod=pod,
            start=before.at,
            end=scrape.at,
            counts=counts,
            version_at_start=before.version,
            version=version,
            restarted=restarted,
            stuck=frozen >= STUCK_INTERVALS,
            aligned=scrape.aligned,
            not_live=not_live(scrape.values),
            not_numbers=not_numbers(dictionary, scrape.values),
            **levels,
        )
        return _Baseline(scrape.at, scrape.values, version, frozen, refreshed_at), interval

    def _pairs(self, before: _Baseline, scrape: Scrape, dictionary: MetricDictionary) -> Iterator[Pair]:
        """Pair each counter's value with its predecessor; one without a predecessor is left out (trap P4)."""
        adjacent = scrape.at - before.at < STALE_SCRAPES * self._scrape_seconds
        for key, value in scrape.values.items():
            if key[0] not in dictionary.counts:
                continue
            if key in before.values:
                previous = before.values[key]
            else:
                # Label values appear with their first use. That starts from 0 only if the series really
                # began after the scrape before: one of a second scrape job is merely out of step.
                previous = 0.0 if adjacent and scrape.oldest[key] > before.at else None
            if value is not None and previous is not None:
                yield key, previous, value


def _by_pod(answer: Iterable[Series], owned: Fleet) -> dict[PodKey, list[Series]]:
    pods: dict[PodKey, list[Series]] = {}
    for series in answer:
        # Target labels; an exporter's own label is called exported_pod (trap P17).
        pod = (series.labels.get("namespace", ""), series.labels.get("pod", ""))
        if pod in owned:
            pods.setdefault(pod, []).append(series)
    return pods
