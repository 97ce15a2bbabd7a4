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

from specfleet.telemetry.source import Series

SCHEDULE_PREFIX = "specfleet_"
SCHEDULE_VERSION = "specfleet_schedule_version"
SCHEDULE_LIVE = "specfleet_schedule_live"

SeriesKey = tuple[tuple[str, str], ...]
Values = Mapping[SeriesKey, float | None]  # None: the value was NaN or infinite
_Target = tuple[str, str]  # job, instance
# Each series at one time, and since when it is known.
_Values = tuple[dict[SeriesKey, float | None], dict[SeriesKey, float]]
_OF_THE_POD = ("namespace", "pod")  # they tell no series of a pod apart


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
    stamps = _stamps(engine)
    if schedule is not None:
        known = _stamps(schedule)
        if covered := [at for at in stamps if known[0] <= at <= known[-1]]:
            return _joined(engine, schedule, covered[-1])
    values, oldest = _at(engine, stamps[-1])
    return Scrape(stamps[-1], values, oldest, aligned=True)


def _chosen(
    targets: Mapping[_Target, list[Series]], prefix: str, window_seconds: float
) -> list[Series] | None:
    """Take the first by name of those that have such series and are still scraped."""
    having = {key: series for key, series in targets.items() if _has(series, prefix)}
    if not having:
        return None
    newest = max(_stamps(series)[-1] for series in having.values())
    alive = (key for key, series in having.items() if _stamps(series)[-1] > newest - window_seconds)
    return having[min(alive)]


def _has(target: Sequence[Series], prefix: str) -> bool:
    return any(series.labels.get("__name__", "").startswith(prefix) for series in target)


def _stamps(target: Sequence[Series]) -> list[float]:
    return sorted({at for series in target for at, _ in series.samples})


def _at(target: Sequence[Series], at: float) -> _Values:
    def value_at(series: Series, at: float) -> float | None:
        return next((value for stamp, value in reversed(series.samples) if stamp == at), None)

    return _read(target, at, value_at)


def _read(target: Sequence[Series], at: float, value_at: Callable[[Series, float], float | None]) -> _Values:
    values: dict[SeriesKey, float | None] = {}
    oldest: dict[SeriesKey, float] = {}
    for series in target:
        if (value := value_at(series, at)) is not None:
            key = _key(series)
            values[key] = value if math.isfinite(value) else None
            oldest[key] = series.samples[0][0]
    return values, oldest


def _key(series: Series) -> SeriesKey:
    return tuple(sorted(item for item in series.labels.items() if item[0] not in _OF_THE_POD))


def _joined(engine: Sequence[Series], schedule: Sequence[Series], at: float) -> Scrape:
    (values, oldest), (joined, since) = _at(engine, at), _read(schedule, at, _value_at)
    return Scrape(at, values | joined, oldest | since, aligned=False)


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
