"""Reads the whole fleet from one source: a query for each family of engines, in parts where it is large.

Source: design/tuning.md, section 3.1: an answer of more than 20,000 series is split by namespace, never by
pool.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from specfleet.engines.metrics import MetricDictionary
from specfleet.telemetry.errors import AnswerTooLarge
from specfleet.telemetry.queries import fleet_query
from specfleet.telemetry.source import MetricsSource, Series
from specfleet.tuning.interval import PodKey

MOST_SERIES = 20_000

Fleet = Mapping[PodKey, MetricDictionary]


class FleetReader:
    """One source. It remembers how many series an answer holds, and in how many parts a family comes."""

    def __init__(self, source: MetricsSource, scope: str, scrape_seconds: float) -> None:
        self._source = source
        self._scope = scope
        self._scrape_seconds = scrape_seconds
        self._parts: defaultdict[str, int] = defaultdict(lambda: 1)
        self._most: defaultdict[str, int] = defaultdict(lambda: MOST_SERIES)

    async def read(self, fleet: Fleet, at: float) -> list[Series]:
        """Read all series of these pods' engines. Raises MetricsError."""
        families: defaultdict[str, dict[PodKey, MetricDictionary]] = defaultdict(dict)
        for pod, dictionary in fleet.items():
            families[dictionary.prefix][pod] = dictionary
        return [series for name in families for series in await self._family(name, families[name], at)]

    async def _family(self, name: str, fleet: Fleet, at: float) -> list[Series]:
        namespaces = sorted({namespace for namespace, _ in fleet})
        refused = False
        while True:
            parts = self._parts[name] = min(self._parts[name], len(namespaces))
            try:
                found = [
                    series
                    for part in range(parts)
                    for series in await self._query(fleet, namespaces[part::parts] if parts > 1 else (), at)
                ]
            except AnswerTooLarge:
                if parts == len(namespaces):
                    raise
                self._parts[name] = 2 * parts
                refused = True
                continue
            if refused and found:  # empty parts tell nothing of what an answer may hold
                self._most[name] = math.ceil(len(found) / parts)
            self._parts[name] = max(1, math.ceil(len(found) / self._most[name]))
            return found

    async def _query(self, fleet: Fleet, namespaces: Sequence[str], at: float) -> list[Series]:
        dictionaries = {dictionary.label: dictionary for dictionary in fleet.values()}.values()
        promql = fleet_query(dictionaries, self._scope, self._scrape_seconds, namespaces)
        return await self._source.query(promql, at)
