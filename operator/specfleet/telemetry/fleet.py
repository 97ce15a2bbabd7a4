"""Reads the whole fleet from one source: a query for each family of engines, in parts where it is large.

Source: design/tuning.md, section 3.1: an answer of more than 20,000 series is split by namespace, never by
pool.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from specfleet.engines.metrics import MetricDictionary
from specfleet.telemetry.errors import AnswerTooLarge
from specfleet.telemetry.queries import fleet_query
from specfleet.telemetry.source import MetricsSource, Series
from specfleet.tuning.interval import PodKey

MOST_SERIES = 20_000

Fleet = Mapping[PodKey, MetricDictionary]
Take = Callable[[Sequence[Series]], None]


class FleetReader:
    """One source. It remembers how many series an answer holds, and in how many parts a family comes."""

    def __init__(self, source: MetricsSource, scope: str, scrape_seconds: float) -> None:
        self._source = source
        self._scope = scope
        self._scrape_seconds = scrape_seconds
        self._parts: defaultdict[str, int] = defaultdict(lambda: 1)
        self._most: defaultdict[str, int] = defaultdict(lambda: MOST_SERIES)

    async def read(self, fleet: Fleet, at: float, take: Take) -> None:
        """Read all series of these pods' engines, and give them away part by part. Raises MetricsError.

        A pod's series come in one part. After a part that is too large all come again, so before the end
        nothing may be concluded from those that were taken.
        """
        families: defaultdict[str, dict[PodKey, MetricDictionary]] = defaultdict(dict)
        for pod, dictionary in fleet.items():
            families[dictionary.prefix][pod] = dictionary
        for name, pods in families.items():
            await self._family(name, pods, at, take)

    async def _family(self, name: str, fleet: Fleet, at: float, take: Take) -> None:
        namespaces = sorted({namespace for namespace, _ in fleet})
        refused = False
        while True:
            parts = self._parts[name] = min(self._parts[name], len(namespaces))
            found = 0
            try:
                for part in range(parts):
                    narrowed = namespaces[part::parts] if parts > 1 else ()
                    found += await self._query(fleet, narrowed, at, take)
            except AnswerTooLarge:
                if parts == len(namespaces):
                    raise
                self._parts[name] = 2 * parts
                refused = True
                continue
            if refused and found:  # empty parts tell nothing of what an answer may hold
                self._most[name] = math.ceil(found / parts)
            self._parts[name] = max(1, math.ceil(found / self._most[name]))
            return

    async def _query(self, fleet: Fleet, namespaces: Sequence[str], at: float, take: Take) -> int:
        dictionaries = {dictionary.label: dictionary for dictionary in fleet.values()}.values()
        promql = fleet_query(dictionaries, self._scope, self._scrape_seconds, namespaces)
        part = await self._source.query(promql, at)
        take(part)
        return len(part)
