"""The operator as one process: what starts in which order, what ends it, and in which order it stops.

Health server, client, CRD check, lease, workers with resync and tuning, kopf last. The lease goes last.
Source: reference guide, section 2.7.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import kopf
from kubernetes.aio.client import Configuration as Connection

from specfleet.api.configuration import Configuration
from specfleet.cluster.connection import kopf_credentials
from specfleet.cluster.errors import ClusterError
from specfleet.cluster.kubernetes_client import KubernetesClient
from specfleet.cluster.lease import Lease, LeaseLost
from specfleet.controller import kopf_wiring
from specfleet.controller.crd_check import UnusableCrd, check_crd
from specfleet.controller.figures import Figures
from specfleet.controller.health import HealthServer
from specfleet.controller.leader import Leader

# An API server that has not answered for that long (the lease asks every 2 s) makes the operator unready.
UNREACHABLE_SECONDS = 10.0
START_RETRY_SECONDS = 2.0

FAILED = 1
LOST_LEASE = 3

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """The process was asked to stop before it led."""


def exit_at_once(error: LeaseLost) -> None:
    """End the process without any clean-up: another operator may already write."""
    logger.critical("the lease is lost, exiting: %s", error)
    sys.stderr.flush()
    os._exit(LOST_LEASE)


class OperatorProcess:
    """One run of the operator. ``connect`` is asked again whenever kopf's credentials expire."""

    def __init__(
        self,
        configuration: Configuration,
        connect: Callable[[], Awaitable[Connection]],
        *,
        namespace: str,
        identity: str,
        lost: Callable[[LeaseLost], None] = exit_at_once,
    ) -> None:
        self._configuration = configuration
        self._connect = connect
        self._namespace = namespace
        self._identity = identity
        self._lost = lost
        self._stop = asyncio.Event()
        self._leading = False
        self.figures = Figures()
        self.health = HealthServer(self.figures.registry, port=configuration.health_port)

    def stop(self) -> None:
        """Ask for a graceful end; `run` then returns 0."""
        self._stop.set()

    async def run(self) -> int:
        """Run until asked to stop or broken. Gives the exit code."""
        self._take_signals()
        async with self.health, KubernetesClient(await self._connect()) as client:
            self._watch_health(client)
            try:
                await self._unless_stopped(self._usable_crd(client))
                lease = Lease(
                    client,
                    namespace=self._namespace,
                    identity=self._identity,
                    settings=self._configuration.leader_election,
                )
                await self._unless_stopped(lease.acquire())
            except UnusableCrd as error:
                logger.error("%s", error)
                return FAILED
            except Stopped:
                return 0
            return await self._lead(client, lease)

    async def _lead(self, client: KubernetesClient, lease: Lease) -> int:
        self._leading = True
        leader = Leader(client, self._configuration, self.figures, self.health, lease, self._identity)
        keeping = asyncio.create_task(self._keep(lease), name="lease")
        # Whatever ends the renewal ends the process; a lost lease does not even come here.
        keeping.add_done_callback(lambda _: self._stop.set())
        work = asyncio.create_task(leader.run(self._stop), name="leader")
        try:
            clean = await self._run_kopf(leader, work)
        finally:
            for task in (work, keeping):
                task.cancel()
            outcomes = await asyncio.gather(work, keeping, return_exceptions=True)
            await lease.release()
        failures = [error for error in outcomes if isinstance(error, Exception)]
        for error in failures:
            logger.error("the operator ends: %s", error, exc_info=error)
        return 0 if clean and not failures else FAILED

    async def _run_kopf(self, leader: Leader, work: asyncio.Task[None]) -> bool:
        """Watch until the leader's work has ended. False: kopf ended first, which is a failure."""
        ended = asyncio.Event()
        work.add_done_callback(lambda _: ended.set())
        tasks = await kopf.spawn_tasks(
            registry=kopf_wiring.registry(leader.queue, leader.monitor, self._log_in),
            settings=kopf_wiring.settings(),
            # kopf would look the user up by name, and a container's user often has none.
            identity="specfleet",  # type: ignore[arg-type]  # a NewType of str that kopf keeps private
            standalone=True,
            stop_flag=ended,
            **kopf_wiring.scope(self._configuration),
        )
        # kopf has just put its own handlers in: it would stop watching before the workers are done.
        self._take_signals()
        await kopf.run_tasks(tasks, ignored=kopf_wiring.TasksOfOthers())
        if not ended.is_set():
            logger.error("the watch ended by itself")
        return ended.is_set()

    async def _log_in(self) -> kopf.ConnectionInfo:
        return kopf_credentials(await self._connect())

    async def _keep(self, lease: Lease) -> None:
        try:
            await lease.keep()
        except LeaseLost as error:
            self._lost(error)
            raise

    async def _usable_crd(self, client: KubernetesClient) -> None:
        """Check the CRD as soon as the API server answers: to restart would not bring it back."""
        namespace = next(iter(self._configuration.watch_namespaces), None)
        while True:
            try:
                return await check_crd(client, namespace)
            except ClusterError as error:
                logger.warning("the CRD cannot be checked yet: %s", error)
                await asyncio.sleep(START_RETRY_SECONDS)

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        stop = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Stopped
        finally:
            task.cancel()
            stop.cancel()

    def _watch_health(self, client: KubernetesClient) -> None:
        def unreachable() -> str | None:
            seconds = client.seconds_since_answer
            return (
                f"no answer from the API server for {seconds:.0f} s"
                if seconds > UNREACHABLE_SECONDS
                else None
            )

        self.health.readiness.append(unreachable)
        self.figures.follow("leading", "1 while this process holds the lease.", lambda: float(self._leading))

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
