"""What one tuning pass knows from its metrics sources, by the source's name in the configuration."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specfleet.api.configuration import Configuration
from specfleet.api.objectives import effective_tuning
from specfleet.controller.fleet import PoolView
from specfleet.controller.pool_inputs import metrics_of
from specfleet.telemetry.errors import MetricsError
from specfleet.telemetry.fleet import FleetReader
from specfleet.telemetry.samples import FleetSamples, Readings
from specfleet.telemetry.source import MetricsSource

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Metrics:
    """One source's readings of this pass, or why there are none."""

    readings: Readings = field(default_factory=Readings)
    fault: str | None = None


class MetricsReader:
    """Keeps each source's baselines from pass to pass."""

    def __init__(self, sources: Mapping[str, MetricsSource], configuration: Configuration) -> None:
        scrape = configuration.tuning.scrape_interval_seconds
        self._readers = {
            name: FleetReader(source, configuration.metrics_scope, scrape) for name, source in sources.items()
        }
        self._samples = {name: FleetSamples(scrape) for name in sources}

    async def read(self, views: Sequence[PoolView], now: float) -> dict[str, Metrics]:
        """Read every source that one of these pools names. A source that fails gives a fault."""
        by_source: dict[str, list[PoolView]] = {}
        for view in views:
            source = effective_tuning(view.resource.spec, view.pool).metrics_source
            by_source.setdefault(source, []).append(view)
        # A source without a ready pod is still told, so that baselines of pods that are gone go too.
        answers = await asyncio.gather(
            *(self._read_source(name, pools, now) for name, pools in by_source.items())
        )
        return dict(zip(by_source, answers, strict=True))

    async def _read_source(self, name: str, views: Sequence[PoolView], now: float) -> Metrics:
        reader = self._readers.get(name)
        if reader is None:
            known = ", ".join(sorted(self._readers)) or "none"
            return Metrics(fault=f"metricsSource {name} is not in the operator's configuration ({known})")
        fleet = {pod: metrics_of(view) for view in views for pod in view.ready}
        if not fleet:
            return Metrics()
        try:
            begun = self._samples[name].begin(fleet, now)
            await reader.read(fleet, now, begun.take)
            return Metrics(self._samples[name].finish(begun))
        except MetricsError as error:
            logger.warning("metrics source %s failed: %s", name, error)
            return Metrics(fault=str(error))
        except Exception as error:
            # The border of one source: pools of the others must go on.
            logger.exception("reading metrics source %s failed", name)
            return Metrics(fault=f"the answer could not be read ({type(error).__name__}, see the log)")
