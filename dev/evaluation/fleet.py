"""One operator process and a fleet of pools: what its telemetry and its tuner take of a core and of memory.

`python -m dev.evaluation.fleet INPUT` is that process: it imports what the operator imports, reads a
Prometheus over HTTP through the operator's own adapter, and decides for every pool, pass after pass. `scale`
prepares the input and plays the Prometheus.
"""

import asyncio
import json
import pickle
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from specfleet.api.configuration import MetricsSourceConfig
from specfleet.api.schedule import Document
from specfleet.engines.metrics_vllm import BUILTIN
from specfleet.telemetry.fleet import FleetReader
from specfleet.telemetry.prometheus import PrometheusSource
from specfleet.telemetry.samples import FleetSamples, Readings
from specfleet.tuning import cost
from specfleet.tuning.decide import decide
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.interval import PodKey
from specfleet.tuning.memory import from_json
from specfleet.tuning.settings import PoolSettings


@dataclass(frozen=True, slots=True)
class Input:
    """What the process is given. ``passes``: times of passes; the first ``warm_up`` are not measured.

    ``pools``: the pods of each. ``memory``: what the tuner of each already knows, as JSON.
    """

    url: str
    scope: str
    settings: PoolSettings
    pools: tuple[frozenset[PodKey], ...]
    memory: str
    document: Document
    fingerprint: str
    passes: tuple[float, ...]
    warm_up: int


async def measure(given: Input) -> dict[str, float]:
    """Make all passes. CPU seconds are those of a pass, bytes the most that this process ever held."""
    source = _Counted(MetricsSourceConfig(url=given.url, timeout_seconds=60.0))
    scrape = given.settings.scrape_seconds
    reader, samples = FleetReader(source, given.scope, scrape), FleetSamples(scrape)
    fleet = {pod: BUILTIN for pods in given.pools for pod in pods}
    remembered = from_json(given.memory)
    assert remembered is not None
    memories = [remembered] * len(given.pools)
    found: list[tuple[float, float, float]] = []
    for now in given.passes:
        queries, began = source.queries, time.process_time()
        begun = samples.begin(fleet, now)
        await reader.read(fleet, now, begun.take)
        readings = samples.finish(begun)
        read = time.process_time()
        for number, evidence in enumerate(_evidence(given, readings)):
            # All pools of this fleet look alike; in a real one nobody profits from another's fit.
            cost._regression.cache_clear()
            memories[number] = decide(given.settings, evidence, memories[number], now).memory
        found.append((read - began, time.process_time() - read, source.queries - queries))
    await source.close()
    measured = found[given.warm_up :]
    reading, deciding, queries_made = (sum(values) / len(measured) for values in zip(*measured, strict=True))
    return {
        "readingSeconds": reading,
        "decidingSeconds": deciding,
        "cores": (reading + deciding) / scrape,
        "queriesPerSecond": queries_made / scrape,
        "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "windows": len(memories[0].windows),
    }


class _Counted(PrometheusSource):
    queries = 0

    async def query(self, promql: str, at: float) -> list:  # type: ignore[type-arg]
        self.queries += 1
        return await super().query(promql, at)


def _evidence(given: Input, readings: Readings) -> list[Evidence]:
    by_pod = {interval.pod: interval for interval in readings.intervals}
    return [
        Evidence(
            document=given.document,
            fingerprints=frozenset({given.fingerprint}),
            expected=pods,
            reporting=readings.reporting & pods,
            intervals=tuple(by_pod[pod] for pod in sorted(pods) if pod in by_pod),
            versions={pod: readings.versions[pod] for pod in pods if pod in readings.versions},
            replicas=len(pods),
        )
        for pods in given.pools
    ]


if __name__ == "__main__":
    with Path(sys.argv[1]).open("rb") as file:
        print(json.dumps(asyncio.run(measure(pickle.load(file)))))
