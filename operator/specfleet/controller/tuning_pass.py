"""The tuning pass: read the fleet and its metrics, decide per pool (pure), write what was decided.

One pass at every scrape interval, for all pools together. Reconcile and tuning never call each other; they
meet in the schedule ConfigMap and in status. Source: design/README.md, "The two loops".
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, TUNER_MANAGER
from specfleet.api.schedule import Document
from specfleet.cluster.client import ClusterClient
from specfleet.cluster.errors import ClusterError
from specfleet.cluster.events import EventRecorder
from specfleet.controller.figures import Figures
from specfleet.controller.fleet import PoolKey, PoolView, read_fleet
from specfleet.controller.mend import mended
from specfleet.controller.pass_metrics import Metrics, MetricsReader
from specfleet.controller.pool_inputs import evidence_of, settings_of
from specfleet.controller.pool_memory import SAVE_SECONDS, learnt_at, remembered, save
from specfleet.controller.push import behind, refresh_mounts, write_schedule
from specfleet.controller.tuner_events import news
from specfleet.controller.tuner_status import PoolReport, action, comparable, status_body
from specfleet.telemetry.source import MetricsSource
from specfleet.tuning.decide import Outcome, decide
from specfleet.tuning.decision import EndProbe, HardOff, Hold, LoadProposer, Probe, Push
from specfleet.tuning.memory import Memory
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.verify import applied

PARALLEL_RESOURCES = 8

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pool:
    """What one pool's last pass left in this process.

    ``unanswered``: a write of which the API server has not said that it is done, and what it carries out.
    """

    uid: str
    memory: Memory
    fence: int
    last: Outcome | None = None
    decided_at: float = 0.0
    saved_at: float = 0.0
    document: Document | None = None
    unanswered: tuple[Document, Outcome] | None = None


class TuningPass:
    """``sources`` by name of the configuration; ``fence`` is the leader's."""

    def __init__(
        self,
        client: ClusterClient,
        sources: Mapping[str, MetricsSource],
        configuration: Configuration,
        events: EventRecorder,
        figures: Figures,
        *,
        fence: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._configuration = configuration
        self._events = events
        self._figures = figures
        self._fence = fence
        self._clock = clock
        self._metrics = MetricsReader(sources, configuration)
        self._pools: dict[PoolKey, _Pool] = {}
        self._parallel = asyncio.Semaphore(PARALLEL_RESOURCES)
        self._began: float | None = None

    @property
    def running_seconds(self) -> float:
        """For how long the pass under way has run; 0 between two."""
        return 0.0 if self._began is None else asyncio.get_running_loop().time() - self._began

    async def run(self, stop: asyncio.Event) -> None:
        """Pass at every scrape interval until ``stop``, whatever becomes of a single pass."""
        interval = self._configuration.tuning.scrape_interval_seconds
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            self._began = started = loop.time()
            try:
                await self.run_once(self._clock())
            except ClusterError as error:
                logger.warning("this tuning pass is skipped: the cluster cannot be read: %s", error)
            except Exception:
                # A process that ends here would end again: the next pass reads the same fleet.
                logger.exception("this tuning pass failed")
            self._began = None
            self._figures.tuning_seconds.observe(loop.time() - started)
            try:
                async with asyncio.timeout_at(max(started + interval, loop.time() + 0.1)):
                    await stop.wait()
            except TimeoutError:
                continue

    async def run_once(self, now: float) -> None:
        """Tune every pool once. ``now``: seconds since the epoch. Raises ClusterError: nothing was read."""
        fleet = await read_fleet(self._client, self._configuration.watch_namespaces)
        self._figures.show_conditions(resource.live for resource in fleet)
        views = [view for resource in fleet for view in resource.pools]
        metrics = await self._metrics.read(views, now)
        for gone in set(self._pools) - {view.key for view in views}:
            del self._pools[gone]
        tuned = (self._tune(resource.pools, metrics, now) for resource in fleet if resource.pools)
        await asyncio.gather(*tuned)

    async def _tune(self, views: Sequence[PoolView], metrics: Mapping[str, Metrics], now: float) -> None:
        """Tune the pools of one resource; a failure concerns this resource only."""
        async with self._parallel:
            try:
                reports = [await self._tune_pool(view, metrics, now) for view in views]
                await self._report(reports, now)
            except ClusterError as error:
                logger.warning("tuning of %s/%s is cut short: %s", *views[0].key[:2], error)
            except Exception:
                # The border of one resource, like the work queue's: the others must go on.
                logger.exception("tuning of %s/%s failed", *views[0].key[:2])

    async def _tune_pool(self, view: PoolView, metrics: Mapping[str, Metrics], now: float) -> PoolReport:
        settings = settings_of(view, self._configuration)
        own = self._own(view)
        await self._confirm(view, own, now)
        view = await self._mend(view, own, now)
        read = metrics[settings.tuning.metrics_source]
        evidence = evidence_of(view, read.readings, read.fault, self._configuration, now)
        outcome = decide(settings, evidence, own.memory, now)
        if isinstance(outcome.decision, Push | Probe | EndProbe):
            view = await self._put_in_force(view, own, outcome, settings, now)
        elif (document := view.document) is not None:
            # The last push was cut short between ConfigMap and pods, by an error or by the leader's end.
            await refresh_mounts(self._client, behind(view.ready.values(), document), document)
        # Status tells reconcile of hard-off: it must not be forgotten by whoever leads next.
        if isinstance(outcome.decision, HardOff | LoadProposer):
            await self._save(view, own, outcome.memory, now)
        elif now - (own.saved_at or now) >= SAVE_SECONDS and learnt_at(outcome.memory) > own.saved_at:
            try:
                await self._save(view, own, outcome.memory, now)
            except ClusterError as error:
                # Tried again at each pass; status must not wait for it.
                logger.warning("what is learnt of %s/%s/%s is not kept yet: %s", *view.key, error)
        own.saved_at = own.saved_at or now
        own.document = view.document or own.document
        await self._account(view, own, outcome, now)
        return PoolReport(view, outcome, own.decided_at, applied(evidence), settings.actuator)

    async def _confirm(self, view: PoolView, own: _Pool, now: float) -> None:
        """Take up a push or a probe whose answer was lost, once the cluster shows that it was written."""
        if own.unanswered is not None and view.text == own.unanswered[0].to_json():
            outcome, own.unanswered = own.unanswered[1], None
            await self._account(view, own, outcome, now)

    async def _account(self, view: PoolView, own: _Pool, outcome: Outcome, now: float) -> None:
        """Remember a decision that was carried out, count it and tell it."""
        decision = outcome.decision
        before, own.last, own.memory = own.last, outcome, outcome.memory
        changed = before is None or _standing(before) != _standing(outcome)
        own.decided_at = now if changed or not own.decided_at else own.decided_at
        self._figures.decisions.labels(action=action(outcome)).inc()
        for event_type, reason, note in news(view.pool.name, before, outcome):
            await self._events.record(view.live, event_type, reason, note, action="Tune")
        if isinstance(decision, Push | Probe | EndProbe):
            self._figures.pushes.labels(kind="push" if isinstance(decision, Push) else "probe").inc()

    def _own(self, view: PoolView) -> _Pool:
        own, uid = self._pools.get(view.key), view.resource.uid
        if own is None or own.uid != uid:
            own = self._pools[view.key] = _Pool(uid, remembered(view), fence=0)
        if own.fence == 0 and view.document is not None:
            # A lease that was deleted counts from 0 again; that must not freeze pushes.
            written = view.document.fence
            own.fence = self._fence if self._fence >= written else written + 1
        return own

    async def _mend(self, view: PoolView, own: _Pool, now: float) -> PoolView:
        """Write a good schedule where somebody left a bad one."""
        document = mended(view, own.document, own.fence or self._fence, datetime.fromtimestamp(now, UTC))
        if document is None or view.schedule is None:
            return view
        # The engines have as long to follow as after a push.
        own.memory = replace(own.memory, written_at=now)
        await write_schedule(self._client, view.schedule, document)
        own.fence = document.fence
        note = f"pool {view.pool.name}: a schedule changed by hand is of no use; put back the last one"
        await self._events.record(view.live, "Warning", "ScheduleRestored", note, action="Tune")
        return view.with_document(document)

    async def _put_in_force(
        self, view: PoolView, own: _Pool, outcome: Outcome, settings: PoolSettings, now: float
    ) -> PoolView:
        """Remember first, then write: a crash in between is healed later, a lost count is not.

        This process goes by the new memory only once the table is written: see `_confirm`.
        """
        decision, before = outcome.decision, view.document
        assert before is not None and view.schedule is not None
        assert isinstance(decision, Push | Probe | EndProbe)
        document = Document(
            version=before.version + 1 if own.fence == before.fence else 1,
            fence=own.fence,
            max_depth=settings.max_depth,
            table=decision.table,
            issued_at=datetime.fromtimestamp(now, UTC),
        )
        await self._save(view, own, outcome.memory, now)
        own.unanswered = document, outcome
        await write_schedule(self._client, view.schedule, document)
        own.unanswered = None
        logger.info("%s/%s/%s: version %d: %s", *view.key, document.version, decision.reason)
        await refresh_mounts(self._client, view.ready.values(), document)
        return view.with_document(document)

    async def _save(self, view: PoolView, own: _Pool, memory: Memory, now: float) -> None:
        await save(self._client, view, memory)
        own.saved_at = now

    async def _report(self, reports: Sequence[PoolReport], now: float) -> None:
        """Write status if it differs from the live one by more than its times."""
        body = status_body(reports, now)
        live = reports[0].view.live.get("status") or {}
        if comparable(live) == comparable(body["status"]):
            return
        await self._client.apply_status(SPECULATIVE_DEPLOYMENT, body, manager=TUNER_MANAGER)


def _standing(outcome: Outcome) -> tuple[str, str]:
    """Two holds of one kind are the same decision, whatever their numbers."""
    decision = outcome.decision
    return action(outcome), decision.kind if isinstance(decision, Hold) else decision.reason
