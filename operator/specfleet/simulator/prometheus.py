"""A Prometheus in memory: takes pages in text format, answers range selectors as the real one would.

It is the only way from the simulated pods to a policy. Staleness markers do not matter to range selectors
(trap P9), so none are kept. Source: design/simulator.md, section 5.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from specfleet.telemetry.errors import AnswerPartial, QueryRefused, SourceUnavailable
from specfleet.telemetry.source import Series

KEPT_SECONDS = 300.0
_SELECTOR = re.compile(r"^([a-zA-Z_:][\w:]*)?\{(.*)\}\[(\d+)s\]$")
_MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

_Line = str  # name and labels of a series as the page has them


@dataclass(frozen=True, slots=True)
class Selector:
    """A range selector: matchers and a window in seconds."""

    matchers: tuple[tuple[str, str, re.Pattern[str]], ...]
    window: float

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Say whether a series is meant; an absent label is an empty one."""
        return all(
            (pattern.fullmatch(labels.get(name, "")) is not None) == (operator in ("=", "=~"))
            for name, operator, pattern in self.matchers
        )


@lru_cache(maxsize=64)
def parse_selector(promql: str) -> Selector:
    """Read ``name{label="value"}[45s]``. Raises QueryRefused for anything else."""
    found = _SELECTOR.match(promql.strip())
    if found is None:
        raise QueryRefused('the simulator answers range selectors such as {job="x"}[45s] only')
    name, inside, window = found.groups()
    matchers = [("__name__", "=", re.compile(re.escape(name)))] if name else []
    for label, operator, value in _MATCHER.findall(inside):
        text = value.replace("\\\\", "\\")
        matchers.append((label, operator, re.compile(text if "~" in operator else re.escape(text))))
    return Selector(tuple(matchers), float(window))


@dataclass(slots=True)
class _Target:
    labels: Mapping[str, str]
    scrapes: deque[tuple[float, dict[_Line, float]]] = field(default_factory=deque)
    series: dict[_Line, Mapping[str, str]] = field(default_factory=dict)
    meant: dict[Selector, dict[_Line, bool]] = field(default_factory=dict)


class SimulatedPrometheus:
    """Stores scrapes and answers queries. Times in seconds since the epoch.

    ``unreachable`` and ``warns`` may be set while it runs: no answer at all, or one with a warning.
    """

    def __init__(self) -> None:
        self.unreachable = False
        self.warns = False
        self.queries = 0
        self._targets: dict[tuple[str, str], _Target] = {}

    def store(self, target: Mapping[str, str], text: str, at: float) -> None:
        """Take the page of one target. ``target`` are its labels, namespace and pod among them."""
        known = self._targets.setdefault((target["namespace"], target["pod"]), _Target(target))
        values: dict[_Line, float] = {}
        for line in text.split("\n"):
            if line and line[0] != "#":
                name, _, value = line.rpartition(" ")
                values[name] = float(value)
        for name in values.keys() - known.series.keys():
            known.series[name] = _labels(name, target)
        known.scrapes.append((at, values))
        while known.scrapes[0][0] < at - KEPT_SECONDS:
            known.scrapes.popleft()

    async def query(self, promql: str, at: float) -> list[Series]:
        """Answer as a `MetricsSource`."""
        return self.answer(promql, at)

    def answer(self, promql: str, at: float) -> list[Series]:
        """Evaluate a range selector: raw samples with their own stamps. Raises `MetricsError`."""
        self.queries += 1
        if self.unreachable:
            raise SourceUnavailable("the simulated metrics source does not answer")
        if self.warns:
            raise AnswerPartial("the metrics source warns that its answer may lack data")
        selector = parse_selector(promql)
        found: list[Series] = []
        for key, target in list(self._targets.items()):
            if target.scrapes[-1][0] < at - KEPT_SECONDS:
                del self._targets[key]
                continue
            found.extend(_select(target, selector, at))
        return found


def _select(target: _Target, selector: Selector, at: float) -> list[Series]:
    scrapes = [scrape for scrape in target.scrapes if at - selector.window < scrape[0] <= at]
    names = dict.fromkeys(name for _, values in scrapes for name in values)
    meant = target.meant.setdefault(selector, {})
    found = []
    for name in names:
        labels = target.series[name]
        if name not in meant:
            meant[name] = selector.takes(labels)
        if meant[name]:
            samples = tuple((stamp, values[name]) for stamp, values in scrapes if name in values)
            found.append(Series(labels, samples))
    return found


def _labels(line: _Line, target: Mapping[str, str]) -> Mapping[str, str]:
    """Join a series' own labels with its target's, which win: the own one is renamed (trap P17)."""
    name, _, inside = line.partition("{")
    own = {
        (f"exported_{label}" if label in target else label): value for label, value in _LABEL.findall(inside)
    }
    return {"__name__": name, **own, **target}
