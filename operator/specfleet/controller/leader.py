"""What runs while this process leads: the queue's workers, the resync and the tuning pass.

If one of them ends by itself, all end, and so does the process: kubelet starts a fresh one.
"""

import asyncio
import logging

from specfleet.api.configuration import Configuration
from specfleet.cluster.events import EventRecorder
from specfleet.cluster.kubernetes_client import KubernetesClient
from specfleet.cluster.lease import Lease
from specfleet.cluster.work_queue import WorkQueue
from specfleet.controller.figures import Figures
from specfleet.controller.health import HealthServer
from specfleet.controller.key import Key
from specfleet.controller.reconcile import Reconciler
from specfleet.controller.resync import Resync
from specfleet.controller.tuning_pass import TuningPass
from specfleet.controller.watch_monitor import WatchMonitor
from specfleet.telemetry.prometheus import PrometheusSource

STALLED_SECONDS = 300.0
SILENT_WATCH_SECONDS = 300.0
# Running reconciles get that long; a cut one is harmless, since every write is idempotent.
DRAIN_SECONDS = 8.0

logger = logging.getLogger(__name__)


class TaskEnded(Exception):
    """A task that must run for ever has ended."""


class Leader:
    """Built once the lease is held. kopf's handlers feed ``queue`` and ``monitor``."""

    def __init__(
        self,
        client: KubernetesClient,
        configuration: Configuration,
        figures: Figures,
        health: HealthServer,
        lease: Lease,
        identity: str,
    ) -> None:
        self._figures = figures
        self.events = EventRecorder(client, instance=identity)
        # The first leader has transition 0, and engines refuse a fence below 1.
        fence = lease.transitions + 1
        reconciler = Reconciler(client, configuration, self.events, figures, fence=fence)
        self.queue: WorkQueue[Key] = WorkQueue(
            reconciler.reconcile,
            group=lambda key: key.namespace,
            finished=self._finished,
            workers=configuration.workers,
        )
        self.monitor = WatchMonitor()
        self.resync = Resync(
            client,
            self.queue,
            self.monitor,
            namespaces=configuration.watch_namespaces,
            seconds=configuration.resync_seconds,
        )
        self._sources = {
            name: PrometheusSource(source) for name, source in configuration.metrics_sources.items()
        }
        self._tuning = TuningPass(client, self._sources, configuration, self.events, figures, fence=fence)
        self._export(health)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop``, then let running reconciles and passes finish. Raises what ended a task."""
        resync = asyncio.create_task(self.resync.run(), name="resync")
        workers = asyncio.create_task(self.queue.run(), name="queue")
        tuning = asyncio.create_task(self._tuning.run(stop), name="tuning")
        stopping = asyncio.create_task(stop.wait(), name="stopping")
        tasks = (resync, workers, tuning, stopping)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                for task in done:
                    task.result()
                raise TaskEnded("a task of the operator ended by itself")
            await self._drain(workers, tuning)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(source.close() for source in self._sources.values()))

    async def _drain(self, *running: asyncio.Task[None]) -> None:
        self.queue.stop()
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*running)
        except TimeoutError:
            logger.warning("work that still ran %g s after the stop is cut", DRAIN_SECONDS)

    def _finished(self, key: Key, seconds: float, error: Exception | None) -> None:
        self._figures.reconcile_seconds.observe(seconds)
        if error is not None:
            self._figures.reconcile_errors.labels(error=type(error).__name__).inc()

    def _export(self, health: HealthServer) -> None:
        def stalled() -> str | None:
            seconds = self.queue.stalled_seconds
            return f"no reconcile has finished for {seconds:.0f} s" if seconds > STALLED_SECONDS else None

        def silent() -> str | None:
            seconds = self.monitor.silent_seconds
            return (
                f"the watch has missed events for {seconds:.0f} s" if seconds > SILENT_WATCH_SECONDS else None
            )

        def hung() -> str | None:
            seconds = self._tuning.running_seconds
            return f"a tuning pass has run for {seconds:.0f} s" if seconds > STALLED_SECONDS else None

        health.liveness += [stalled, silent, hung]
        figures, queue = self._figures, self.queue
        figures.follow("queue_depth", "Keys that wait for a worker.", lambda: float(queue.depth))
        figures.follow(
            "queue_oldest_seconds", "Age of the oldest waiting key.", lambda: queue.oldest_ready_seconds
        )
        figures.follow(
            "watch_silent_seconds",
            "For how long an event of a listed change has been missing.",
            lambda: self.monitor.silent_seconds,
        )
        figures.follow("resources", "Resources that are known to the queue.", lambda: float(len(queue.keys)))
        figures.follow(
            "lost_events", "Kubernetes Events that could not be written.", lambda: float(self.events.lost)
        )
