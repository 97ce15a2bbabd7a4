"""The safety net under the watch: list all resources now and then, and queue what no event brought.

Known keys look again by themselves, since every reconcile says when. The list finds resources that are new or
gone without an event, and shows a dead watch (see `watch_monitor`).
"""

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, Kind, Object
from specfleet.cluster.errors import ClusterError
from specfleet.cluster.work_queue import WorkQueue
from specfleet.controller.key import Key
from specfleet.controller.watch_monitor import WatchMonitor

JITTER = 0.2

logger = logging.getLogger(__name__)


class MetadataLister(Protocol):
    """The one call that resync needs; `KubernetesClient` has it."""

    async def list_metadata(
        self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]
    ) -> list[Object]: ...


class Resync:
    """``namespaces`` empty: the whole cluster. ``keys`` of the queue that are gone get one last run."""

    def __init__(
        self,
        client: MetadataLister,
        queue: WorkQueue[Key],
        monitor: WatchMonitor,
        *,
        namespaces: Sequence[str],
        seconds: float,
        generator: random.Random | None = None,
    ) -> None:
        self._client = client
        self._queue = queue
        self._monitor = monitor
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._seconds = seconds
        self._random = generator or random.Random()

    async def run(self) -> None:
        """Resync for ever. A failed round is logged and tried again a period later."""
        while True:
            await asyncio.sleep(self._seconds * (1 + self._random.uniform(-JITTER, JITTER)))
            try:
                await self.once()
            except ClusterError as error:
                logger.warning("resources could not be listed: %s", error)

    async def once(self) -> None:
        """Make one round. Raises ClusterError; nothing is then concluded."""
        started = asyncio.get_running_loop().time()
        known = self._queue.keys
        listed: list[Object] = []
        for namespace in self._namespaces:
            listed += await self._client.list_metadata(SPECULATIVE_DEPLOYMENT, namespace, {})
        self._monitor.compare(listed, list_started=started)
        found = {Key(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed}
        for key in found.symmetric_difference(known):
            self._queue.add(key)
