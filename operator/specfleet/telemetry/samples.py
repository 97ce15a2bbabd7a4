"""From raw samples to intervals: the newest sample of each series, differenced with its own time stamps.

One `FleetSamples` lives as long as the operator leads. Source: design/tuning.md, sections 3.1 and 3.4.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from specfleet.engines.metrics import Count, MetricDictionary
from specfleet.engines.metrics_vllm import NOT_SCRAPED
from specfleet.telemetry.fleet import Fleet
from specfleet.telemetry.source import Series
from specfleet.telemetry.targets import (
    SCHEDULE_LIVE,
    SCHEDULE_PREFIX,
    SCHEDULE_VERSION,
    Scrape,
    Values,
    newest_scrape,
)
from specfleet.tuning.interval import Counts, PodInterval, PodKey

STALE_SCRAPES = 3
GAP_SCRAPES = 4
STUCK_INTERVALS = 3
STICKY_INTERVALS = 2

_Pair = tuple[Mapping[str, str], float, float]  # labels, previous value, value


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


class FleetSamples:
    """Keeps one scrape of every owned pod and turns the next one into an interval."""

    def __init__(self, scrape_seconds: float) -> None:
        self._scrape_seconds = scrape_seconds
        self._baselines: dict[PodKey, _Baseline] = {}

    def advance(self, answer: Iterable[Series], owned: Fleet, now: float) -> Readings:
        """Take the answer of one pass."""
        by_pod = _by_pod(answer, owned)
        window = STALE_SCRAPES * self._scrape_seconds
        intervals: list[PodInterval] = []
        names: dict[PodKey, frozenset[str]] = {}
        for pod, dictionary in owned.items():
            scrape = newest_scrape(by_pod.get(pod, ()), dictionary.prefix, window)
            # By its own stamp: Prometheus goes on returning samples of a target that is gone (trap P9).
            if scrape is None or scrape.at < now - window:
                continue
            names[pod] = frozenset(dict(key)["__name__"] for key in scrape.values)
            if interval := self._difference(pod, dictionary, scrape):
                intervals.append(interval)
        for gone in set(self._baselines) - set(owned):
            del self._baselines[gone]
        versions = {pod: v for pod in names if (v := self._baselines[pod].version) is not None}
        return Readings(tuple(intervals), frozenset(names), versions, names)

    def _difference(self, pod: PodKey, dictionary: MetricDictionary, scrape: Scrape) -> PodInterval | None:
        before = self._baselines.get(pod)
        if before is not None and scrape.at <= before.at:
            return None
        version = _version(scrape.values)
        if before is None or scrape.at - before.at > GAP_SCRAPES * self._scrape_seconds:
            self._baselines[pod] = _Baseline(scrape.at, scrape.values, version, 0, None)
            return None
        counts, restarted = _counts(dictionary, self._pairs(before, scrape))
        levels = _levels(dictionary, before.values, scrape.values)
        running = levels.get("running")
        moved = counts.all_steps > 0 or (counts.generation_tokens or 0.0) > 0
        frozen = 0 if moved or not running else before.frozen_intervals + 1
        refreshed_at = _refreshed_at(dictionary, before, scrape)
        self._baselines[pod] = _Baseline(scrape.at, scrape.values, version, frozen, refreshed_at)
        fresh = STICKY_INTERVALS * self._scrape_seconds
        if not running or refreshed_at is None or scrape.at - refreshed_at > fresh:
            levels = {name: value for name, value in levels.items() if name not in _sticky(dictionary)}
        return PodInterval(
            pod=pod,
            start=before.at,
            end=scrape.at,
            counts=counts,
            version_at_start=before.version,
            version=version,
            restarted=restarted,
            stuck=frozen >= STUCK_INTERVALS,
            aligned=scrape.aligned,
            not_live=_not_live(scrape.values),
            **levels,
        )

    def _pairs(self, before: _Baseline, scrape: Scrape) -> Iterator[_Pair]:
        """Pair each series' value with its predecessor; one without a predecessor is left out (trap P4)."""
        adjacent = scrape.at - before.at < STALE_SCRAPES * self._scrape_seconds
        for key, value in scrape.values.items():
            if key in before.values:
                previous = before.values[key]
            else:
                # Label values appear with their first use. That starts from 0 only if the series really
                # began after the scrape before: one of a second scrape job is merely out of step.
                previous = 0.0 if adjacent and scrape.oldest[key] > before.at else None
            if value is not None and previous is not None:
                yield dict(key), previous, value


def _by_pod(answer: Iterable[Series], owned: Fleet) -> dict[PodKey, list[Series]]:
    pods: dict[PodKey, list[Series]] = {}
    for series in answer:
        # Target labels; an exporter's own label is called exported_pod (trap P17).
        pod = (series.labels.get("namespace", ""), series.labels.get("pod", ""))
        if pod in owned:
            pods.setdefault(pod, []).append(series)
    return pods


def _counts(dictionary: MetricDictionary, pairs: Iterable[_Pair]) -> tuple[Counts, bool]:
    totals: defaultdict[str, float] = defaultdict(float)
    by_label: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    restarted = False
    for labels, previous, value in pairs:
        fell = value < previous
        difference = value if fell else value - previous
        for count in dictionary.counts.get(labels["__name__"], ()):
            if count.only is not None and labels.get(count.only[0]) not in count.only[1]:
                continue
            if count.by is None:
                totals[count.field] += difference
            elif (key := _key(count, labels)) is not None:
                by_label[count.field][key] += difference
            else:
                continue
            restarted = restarted or fell
    known: dict[str, Any] = {**totals, **{name: dict(values) for name, values in by_label.items()}}
    return Counts(**known), restarted


def _key(count: Count, labels: Mapping[str, str]) -> float | None:
    """Read a label as a number: depths and positions are whole, bounds are 1 or 1.0 alike (trap P7)."""
    text = labels.get(count.by or "", "")
    if text.isdecimal():
        return int(text) + count.shift
    try:
        return float(text) if count.by == "le" else None
    except ValueError:
        return None


def _levels(dictionary: MetricDictionary, before: Values, values: Values) -> dict[str, Any]:
    """Read the gauges at the end of an interval, by field."""
    found = {}
    for name, (level, _) in dictionary.levels.items():
        value = _level(dictionary, name, values)
        if value is not None and not (level.steady and value != _level(dictionary, name, before)):
            found[level.field] = value
    return found


def _level(dictionary: MetricDictionary, name: str, values: Values) -> float | None:
    level, _ = dictionary.levels[name]
    ranks: dict[str, float] = {}
    for key, value in sorted(item for item in values.items() if ("__name__", name) in item[0]):
        labels = dict(key)
        if level.parts_by is not None and labels.get(level.parts_by):
            continue
        text = None if level.label is None else labels.get(level.label, "")
        number = value if text is None else float(text) if text.isdecimal() else None
        if number is not None:
            ranks.setdefault(labels.get(dictionary.rank_label, ""), number)
    if not ranks:
        return None
    return sum(ranks.values()) / (len(ranks) if level.over_ranks == "mean" else 1)


def _sticky(dictionary: MetricDictionary) -> frozenset[str]:
    return frozenset(level.field for level, sticky in dictionary.levels.values() if sticky)


def _refreshed_at(dictionary: MetricDictionary, before: _Baseline, scrape: Scrape) -> float | None:
    """Say when the sticky gauges were last written, as far as is known (trap P12)."""
    if dictionary.refreshed is None:
        return None

    def read(values: Values) -> dict[Any, float | None]:
        return {key: value for key, value in values.items() if ("__name__", dictionary.refreshed) in key}

    return scrape.at if read(scrape.values) != read(before.values) else before.refreshed_at


def _not_live(values: Values) -> str | None:
    """Give the engine's word for why it follows no schedule file; None: it follows one."""
    if not any(dict(key)["__name__"].startswith(SCHEDULE_PREFIX) for key in values):
        return NOT_SCRAPED
    labels = [
        dict(key) for key, value in values.items() if ("__name__", SCHEDULE_LIVE) in key and value == 0.0
    ]
    return next((one.get("reason", "") for one in labels), None)


def _version(values: Values) -> tuple[int, int] | None:
    """Read (fence, version): the highest fence, and of its ranks the one that lags behind."""
    found = []
    for key, value in values.items():
        labels = dict(key)
        if labels.get("__name__") == SCHEDULE_VERSION and value is not None:
            fence = labels.get("fence", "")
            found.append((int(fence) if fence.isdecimal() else 0, int(value)))
    if not found:
        return None
    newest = max(fence for fence, _ in found)
    return newest, min(version for fence, version in found if fence == newest)
