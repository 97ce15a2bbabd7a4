"""What the values of a pod's series say: counts between two scrapes, gauges and schedules at one.

Source: design/tuning.md, sections 3.1 and 3.4.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from specfleet.engines.metrics import Count, MetricDictionary
from specfleet.engines.metrics_vllm import NOT_SCRAPED
from specfleet.telemetry.targets import (
    SCHEDULE_LIVE,
    SCHEDULE_PREFIX,
    SCHEDULE_VERSION,
    SeriesKey,
    Values,
)
from specfleet.tuning.interval import Counts

Pair = tuple[SeriesKey, float, float]  # previous value, value


def counts_of(dictionary: MetricDictionary, pairs: Iterable[Pair]) -> tuple[Counts, bool]:
    """Add up the differences of counters; the second value says whether one fell: the engine restarted."""
    totals: defaultdict[str, float] = defaultdict(float)
    by_label: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
    restarted, seen = False, set()
    for (name, items), previous, value in pairs:
        seen.add(name)
        fell = value < previous
        difference = value if fell else value - previous
        labels = dict(items)
        for count in dictionary.counts.get(name, ()):
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
    for field, parts in dictionary.sums.items():
        if not parts <= seen:
            known.pop(field, None)
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


def levels_of(dictionary: MetricDictionary, before: Values, values: Values) -> dict[str, Any]:
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
    for (_, items), value in sorted(item for item in values.items() if item[0][0] == name):
        labels = dict(items)
        if level.parts_by is not None and labels.get(level.parts_by):
            continue
        text = None if level.label is None else labels.get(level.label, "")
        number = value if text is None else float(text) if text.isdecimal() else None
        if number is not None:
            ranks.setdefault(labels.get(dictionary.rank_label, ""), number)
    if not ranks:
        return None
    return sum(ranks.values()) / (len(ranks) if level.over_ranks == "mean" else 1)


def not_numbers(dictionary: MetricDictionary, values: Values) -> tuple[str, ...]:
    """Name what reads NaN or infinite. Sticky gauges may, in an engine that has done nothing yet."""
    gauges = {name for name, (_, sticky) in dictionary.levels.items() if not sticky}
    broken = {name for (name, _), value in values.items() if value is None}
    return tuple(sorted(broken & (gauges | dictionary.counts.keys())))


def sticky_fields(dictionary: MetricDictionary) -> frozenset[str]:
    """Name the fields of gauges that may keep a value from before (trap P12)."""
    return frozenset(level.field for level, sticky in dictionary.levels.values() if sticky)


def refreshed(dictionary: MetricDictionary, before: Values, values: Values) -> bool:
    """Say whether the gauge that tells of sticky ones was written in between (trap P12)."""

    def read(values: Values) -> dict[SeriesKey, float | None]:
        return {key: value for key, value in values.items() if key[0] == dictionary.refreshed}

    return read(values) != read(before)


def not_live(values: Values) -> str | None:
    """Give the engine's word for why it follows no schedule file; None: it follows one."""
    if not any(name.startswith(SCHEDULE_PREFIX) for name, _ in values):
        return NOT_SCRAPED
    labels = [
        dict(items) for (name, items), value in values.items() if name == SCHEDULE_LIVE and value == 0.0
    ]
    return next((one.get("reason", "") for one in labels), None)


def version_of(values: Values) -> tuple[int, int] | None:
    """Read (fence, version): the highest fence, and of its ranks the one that lags behind."""
    found = []
    for (name, items), value in values.items():
        if name == SCHEDULE_VERSION and value is not None:
            fence = dict(items).get("fence", "")
            found.append((int(fence) if fence.isdecimal() else 0, int(value)))
    if not found:
        return None
    newest = max(fence for fence, _ in found)
    return newest, min(version for fence, version in found if fence == newest)
