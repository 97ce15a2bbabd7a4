"""Which scrape targets of a pod are read, and how two of them are brought to one moment.

A pod's series may come from several: the engine's port, a second port with the counts of schedules (vLLM's
plug-in lives in another process than its metrics), and the same port again where somebody else's monitor
selects it too. Values of one target were read at once; those of another are read at another time, so its
counters are interpolated. Source: design/tuning.md, section 3.1.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from specfleet.telemetry.source import Series

SCHEDULE_PREFIX = "specfleet_"
SCHEDULE_VERSION = "specfleet_schedule_version"
SCHEDULE_LIVE = "specfleet_schedule_live"

SeriesKey = tuple[str, tuple[tuple[str, str], ...]]  # name, other labels
Values = Mapping[SeriesKey, float | None]  # None: the value was NaN or infinite
_Target = tuple[str, str]  # job, instance
# Each series at one time, and since when it is known.
_Values = tuple[dict[SeriesKey, float | None], dict[SeriesKey, float]]
_NO_LABELS = frozenset(("__name__", "namespace", "pod"))  # the last two tell no series of a pod apart
_KEPT_ITEMS = 2**16  # of labels: most are the same in the series of many pods


@dataclass(frozen=True, slots=True)
class Scrape:
    """One moment of one pod. ``oldest``: stamp of each series' oldest sample in the window.

    ``aligned``: all values were read at once; False: those of schedules are interpolated.
    """

    at: float
    values: Values
    oldest: Mapping[SeriesKey, float]
    aligned: bool


def newest_scrape(pod: Iterable[Series], prefix: str, window_seconds: float) -> Scrape | None:
    """Give the newest moment that a pod's targets tell of. ``prefix``: how the engine's series begin.

    Of two targets with the same series one is read, since their sum would count everything twice.
    """
    targets: defaultdict[_Target, list[Series]] = defaultdict(list)
    for series in pod:
        if series.samples:
            targets[(series.labels.get("job", ""), series.labels.get("instance", ""))].append(series)
    engine = _chosen(targets, prefix, window_seconds)
    if engine is None:
        return None
    schedule = None if _has(engine, SCHEDULE_PREFIX) else _chosen(targets, SCHEDULE_PREFIX, window_seconds)
    if schedule is not None:
        known = _stamps(schedule)
        if covered := [at for at in _stamps(engine) if known[0] <= at <= known[-1]]:
            return _joined(engine, schedule, covered[-1])
    newest = _newest(engine)
    values, oldest = _read(engine, newest, _value_then)
    return Scrape(newest, values, oldest, aligned=True)


def _chosen(
    targets: Mapping[_Target, list[Series]], prefix: str, window_seconds: float
) -> list[Series] | None:
    """Take the first by name of those that have such series and are still scraped."""
    having = {key: series for key, series in targets.items() if _has(series, prefix)}
    if not having:
        return None
    stamps = {key: _newest(series) for key, series in having.items()}
    newest = max(stamps.values())
    return having[min(key for key, at in stamps.items() if at > newest - window_seconds)]


def _has(target: Sequence[Series], prefix: str) -> bool:
    return any(series.labels.get("__name__", "").startswith(prefix) for series in target)


def _stamps(target: Sequence[Series]) -> list[float]:
    return sorted({at for series in target for at, _ in series.samples})


def _newest(target: Sequence[Series]) -> float:
    return max(series.samples[-1][0] for series in target)


def _read(target: Sequence[Series], at: float, value_at: Callable[[Series, float], float | None]) -> _Values:
    values: dict[SeriesKey, float | None] = {}
    oldest: dict[SeriesKey, float] = {}
    for series in target:
        if (value := value_at(series, at)) is not None:
            key = _key(series.labels)
            values[key] = value if math.isfinite(value) else None
            oldest[key] = series.samples[0][0]
    return values, oldest


def _key(labels: Mapping[str, str]) -> SeriesKey:
    items = [_item(name, value) for name, value in labels.items() if name not in _NO_LABELS]
    return labels.get("__name__", ""), tuple(sorted(items))


@lru_cache(_KEPT_ITEMS)
def _item(name: str, value: str) -> tuple[str, str]:
    """Give the same object for equal items: the keys of a fleet are held from pass to pass."""
    return name, value


def _joined(engine: Sequence[Series], schedule: Sequence[Series], at: float) -> Scrape:
    values, oldest = _read(engine, at, _value_then)
    joined, since = _read(schedule, at, _value_at)
    return Scrape(at, values | joined, oldest | since, aligned=False)


def _value_then(series: Series, at: float) -> float | None:
    for stamp, value in reversed(series.samples):
        if stamp == at:
            return value
    return None


def _value_at(series: Series, at: float) -> float | None:
    """Interpolate a counter between its samples; None: it began later, or has ended.

    A counter that fell in between, and the version of a schedule, keep the value from before.
    """
    after = bisect_right(series.samples, at, key=lambda sample: sample[0])
    if after == 0:
        return None
    start, before = series.samples[after - 1]
    if start == at:
        return before
    if after == len(series.samples):
        return None
    end, value = series.samples[after]
    if value < before or series.labels.get("__name__") in (SCHEDULE_VERSION, SCHEDULE_LIVE):
        return before
    return before + (value - before) * (at - start) / (end - start)
