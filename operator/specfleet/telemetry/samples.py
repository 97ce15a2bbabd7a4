"""From raw samples to intervals: the newest sample of each series, differenced with its own time stamps.

One `FleetSamples` lives as long as the operator leads. Source: design/tuning.md, sections 3.1 and 3.4.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from specfleet.telemetry import metrics
from specfleet.telemetry.source import Series
from specfleet.tuning.interval import Counts, PodInterval, PodKey

STALE_SCRAPES = 3
GAP_SCRAPES = 4
STUCK_INTERVALS = 3

SeriesKey = tuple[tuple[str, str], ...]
_Pair = tuple[Mapping[str, str], float, float]  # labels, previous value, value
Values = Mapping[SeriesKey, float | None]  # None: the value was NaN or infinite


@dataclass(frozen=True, slots=True)
class Readings:
    """What one pass read. ``reporting`` are the owned pods with a sample that is not stale.

    ``versions`` are (fence, version) of the schedule that each of them had in force.
    """

    intervals: tuple[PodInterval, ...]
    reporting: frozenset[PodKey]
    versions: Mapping[PodKey, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Scrape:
    """One scrape of one pod. ``oldest`` is the stamp of the oldest sample of each series in the window."""

    at: float
    values: Values
    oldest: Mapping[SeriesKey, float]


@dataclass(frozen=True, slots=True)
class _Baseline:
    at: float
    values: Values
    version: tuple[int, int] | None
    frozen_intervals: int


class FleetSamples:
    """Keeps one scrape of every owned pod and turns the next one into an interval."""

    def __init__(self, scrape_seconds: float) -> None:
        self._scrape_seconds = scrape_seconds
        self._baselines: dict[PodKey, _Baseline] = {}

    def advance(self, answers: Sequence[Iterable[Series]], owned: Collection[PodKey], now: float) -> Readings:
        """Take the answers of one pass. A pod counts only if it is in every one of them."""
        by_pod = [_by_pod(answer, owned) for answer in answers]
        intervals: list[PodInterval] = []
        reporting: set[PodKey] = set()
        for pod in owned:
            scrape = _newest_common([answer.get(pod, []) for answer in by_pod])
            # By its own stamp: Prometheus goes on returning samples of a target that is gone (trap P9).
            if scrape is None or scrape.at < now - STALE_SCRAPES * self._scrape_seconds:
                continue
            reporting.add(pod)
            if interval := self._difference(pod, scrape):
                intervals.append(interval)
        for gone in set(self._baselines) - set(owned):
            del self._baselines[gone]
        versions = {pod: v for pod in reporting if (v := self._baselines[pod].version) is not None}
        return Readings(tuple(intervals), frozenset(reporting), versions)

    def _difference(self, pod: PodKey, scrape: _Scrape) -> PodInterval | None:
        before = self._baselines.get(pod)
        if before is not None and scrape.at <= before.at:
            return None
        version = _version(scrape.values)
        if before is None or scrape.at - before.at > GAP_SCRAPES * self._scrape_seconds:
            self._baselines[pod] = _Baseline(scrape.at, scrape.values, version, 0)
            return None
        counts, restarted = _counts(self._pairs(before, scrape))
        running = _total(scrape.values, metrics.RUNNING)
        moved = counts.all_steps > 0 or (counts.generation_tokens or 0.0) > 0
        frozen = 0 if moved or not running else before.frozen_intervals + 1
        self._baselines[pod] = _Baseline(scrape.at, scrape.values, version, frozen)
        return PodInterval(
            pod=pod,
            start=before.at,
            end=scrape.at,
            counts=counts,
            version_at_start=before.version,
            version=version,
            restarted=restarted,
            stuck=frozen >= STUCK_INTERVALS,
            running=running,
            waiting=_total(scrape.values, metrics.WAITING),
            kv_usage=_mean(scrape.values, metrics.KV_USAGE),
            kv_capacity_tokens=_kv_capacity(scrape.values),
        )

    def _pairs(self, before: _Baseline, scrape: _Scrape) -> Iterator[_Pair]:
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


def _by_pod(answer: Iterable[Series], owned: Collection[PodKey]) -> dict[PodKey, list[Series]]:
    pods: dict[PodKey, list[Series]] = {}
    for series in answer:
        # Target labels; an exporter's own label is called exported_pod (trap P17).
        pod = (series.labels.get("namespace", ""), series.labels.get("pod", ""))
        if pod in owned:
            pods.setdefault(pod, []).append(series)
    return pods


def _newest_common(answers: Sequence[list[Series]]) -> _Scrape | None:
    """Find the newest scrape that all answers know: one may be read before it was stored, one after."""
    stamps = [{at for series in answer for at, _ in series.samples} for answer in answers]
    common = set.intersection(*stamps) if stamps else set()
    if not common:
        return None
    newest = max(common)
    values: dict[SeriesKey, float | None] = {}
    oldest: dict[SeriesKey, float] = {}
    for series in chain.from_iterable(answers):
        value = next((value for at, value in reversed(series.samples) if at == newest), None)
        if value is not None:
            key = tuple(sorted(series.labels.items()))
            values[key] = value if math.isfinite(value) else None
            oldest[key] = series.samples[0][0]
    return _Scrape(newest, values, oldest)


def _counts(pairs: Iterable[_Pair]) -> tuple[Counts, bool]:
    totals: defaultdict[str, float] = defaultdict(float)
    by_label: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    restarted = False
    for labels, previous, value in pairs:
        name = labels.get("__name__", "")
        fell = value < previous
        difference = value if fell else value - previous
        if name in metrics.TOTALS:
            totals[metrics.TOTALS[name]] += difference
        elif name == metrics.COMPLETIONS and labels.get("finished_reason") in metrics.COMPLETED_REASONS:
            totals["completions"] += difference
        elif name in metrics.BY_LABEL:
            field, label, shift = metrics.BY_LABEL[name]
            if not labels.get(label, "").isdecimal():
                continue
            by_label[field][int(labels[label]) + shift] += difference
        elif name in metrics.BUCKETS and (bound := _bound(labels.get("le", ""))) is not None:
            by_label[metrics.BUCKETS[name]][bound] += difference
        else:
            continue
        restarted = restarted or fell
    known: dict[str, Any] = {**totals, **{field: dict(values) for field, values in by_label.items()}}
    return Counts(**known), restarted


def _bound(text: str) -> float | None:
    """Read ``le`` as a number: engines write 1 or 1.0 (trap P7)."""
    try:
        return float(text)
    except ValueError:
        return None


def _named(values: Values, name: str) -> list[float]:
    return [value for key, value in values.items() if ("__name__", name) in key and value is not None]


def _total(values: Values, name: str) -> float | None:
    found = _named(values, name)
    return sum(found) if found else None


def _mean(values: Values, name: str) -> float | None:
    found = _named(values, name)
    return sum(found) / len(found) if found else None


def _kv_capacity(values: Values) -> float | None:
    """Sum the cache sizes of a pod's ranks: a label of an info metric, in tokens."""
    labels = [dict(key) for key in values if ("__name__", metrics.CACHE_INFO) in key]
    sizes = [float(size) for one in labels if (size := one.get(metrics.CACHE_TOKENS, "")).isdecimal()]
    return sum(sizes) if sizes else None


def _version(values: Values) -> tuple[int, int] | None:
    """Read (fence, version): the highest fence, and of its ranks the one that lags behind."""
    found = []
    for key, value in values.items():
        labels = dict(key)
        if labels.get("__name__") == metrics.VERSION and value is not None:
            fence = labels.get("fence", "")
            found.append((int(fence) if fence.isdecimal() else 0, int(value)))
    if not found:
        return None
    newest = max(fence for fence, _ in found)
    return newest, min(version for fence, version in found if fence == newest)
