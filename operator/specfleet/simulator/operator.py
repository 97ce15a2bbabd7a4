"""The operator's part in a run: query, difference, decide, write. The real telemetry and the real tuner."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from specfleet.api.configuration import TuningPace
from specfleet.api.objectives import EffectiveObjectives, EffectiveTuning
from specfleet.api.schedule import Document
from specfleet.engines.metrics_vllm import BUILTIN
from specfleet.simulator.pod import NAMESPACE, Pod
from specfleet.simulator.policy import Policy, keep
from specfleet.simulator.pool import EPOCH, ongoing
from specfleet.simulator.prometheus import SimulatedPrometheus, parse_selector
from specfleet.simulator.scenario import Scenario
from specfleet.telemetry.errors import MetricsError
from specfleet.telemetry.queries import fleet_query
from specfleet.telemetry.samples import FleetSamples, Readings
from specfleet.tuning.decide import Outcome
from specfleet.tuning.decision import EndProbe, Probe, Push
from specfleet.tuning.evidence import Evidence
from specfleet.tuning.interval import PodKey
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings

SCOPE = 'specfleet_dev_pool!=""'
WARM_UP_SCRAPES = 12
DRAIN_SECONDS, DOWN_SECONDS = 60.0, 180.0  # of a pod that is restarted
FENCE = 2
LOADED, WITHOUT = "with-proposer", "without-proposer"  # fingerprints


class SimulatedOperator:
    """Calls the policy as the tuning pass calls the tuner. Times in seconds of the run."""

    def __init__(self, scenario: Scenario, policy: Policy, prometheus: SimulatedPrometheus) -> None:
        self.document = Document(1, FENCE, scenario.max_depth, policy.table, _date(0.0))
        self._scenario = scenario
        self._prometheus = prometheus
        self._reads = policy.controller is not None or len(scenario.slices) > 1
        self._controller = policy.controller() if policy.controller is not None else keep
        self._settings = settings_of(scenario)
        self._memory = Memory()
        scrape = scenario.telemetry.scrape_seconds
        self._query = fleet_query([BUILTIN], SCOPE, scrape)
        self._samples = FleetSamples(scrape)

    @property
    def asked(self) -> Callable[[str], bool]:
        """Say which metrics the queries read: pods need not show others."""
        names = [
            pattern
            for label, operator, pattern in parse_selector(self._query).matchers
            if label == "__name__" and operator in ("=", "=~")
        ]
        return lambda name: any(pattern.fullmatch(name) for pattern in names)

    def decide(self, pods: Sequence[Pod], at: float) -> tuple[Readings, Outcome, Document | None]:
        """Make one pass; the document, if there is a new one to write."""
        keys = {(NAMESPACE, pod.name): pod for pod in pods if pod.ready}
        readings, fault = self._read(frozenset(keys), EPOCH + at)
        own = frozenset(key for key, pod in keys.items() if pod.slice.table is None)
        replicas = sum(pod.slice.table is None for pod in pods)
        evidence = replace(self._evidence(keys, own, readings, fault, at), replicas=replicas)
        outcome = self._controller(self._settings, evidence, self._memory, EPOCH + at)
        self._memory = outcome.memory
        if not isinstance(outcome.decision, Push | Probe | EndProbe):
            return readings, outcome, None
        self.document = replace(
            self.document,
            version=self.document.version + 1,
            table=outcome.decision.table,
            issued_at=_date(at),
        )
        return readings, outcome, self.document

    def _read(self, owned: frozenset[PodKey], now: float) -> tuple[Readings, str | None]:
        if not self._reads:
            return Readings(), None
        at = now - EPOCH
        self._prometheus.unreachable = ongoing(self._scenario.faults, "outage", at)
        self._prometheus.warns = ongoing(self._scenario.faults, "warning", at)
        try:
            answer = self._prometheus.answer(self._query, now)
        except MetricsError as error:
            return Readings(), str(error)
        return self._samples.advance(answer, dict.fromkeys(owned, BUILTIN), now), None

    def _evidence(
        self,
        pods: dict[PodKey, Pod],
        own: frozenset[PodKey],
        readings: Readings,
        fault: str | None,
        at: float,
    ) -> Evidence:
        young = at - WARM_UP_SCRAPES * self._scenario.telemetry.scrape_seconds
        return Evidence(
            document=self.document,
            fingerprints=frozenset(LOADED if pods[key].slice.loaded else WITHOUT for key in own),
            expected=own,
            reporting=readings.reporting & own,
            warming=frozenset(key for key in own if pods[key].started > max(0.0, young)),
            intervals=tuple(interval for interval in readings.intervals if interval.pod in own),
            versions={key: version for key, version in readings.versions.items() if key in own},
            query_fault=fault,
        )


def settings_of(scenario: Scenario) -> PoolSettings:
    """Give the settings of a resource with this scenario's promises, in mode Enforce."""
    service = scenario.service
    return PoolSettings(
        objectives=EffectiveObjectives(service.token, service.first_token, service.first_token / 2, 0.1),
        tuning=EffectiveTuning("Enforce", False, "default", 6, None),
        pace=TuningPace(scrape_interval_seconds=scenario.telemetry.scrape_seconds),
        initial_depth=scenario.initial_depth,
        max_depth=scenario.max_depth,
        max_requests=scenario.limits.max_requests,
        restart_seconds=DRAIN_SECONDS + DOWN_SECONDS,
    )


def _date(at: float) -> datetime:
    return datetime.fromtimestamp(EPOCH + at, UTC)
