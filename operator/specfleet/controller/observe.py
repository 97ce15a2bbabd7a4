"""Reading everything around one resource: few calls, side by side, nothing kept for the next time."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NODE,
    POD,
    POD_MONITOR,
    SERVICE,
    Kind,
    Object,
)
from specfleet.api.resource import SpeculativeDeployment
from specfleet.cluster.client import ClusterClient
from specfleet.cluster.errors import ClusterError, Forbidden, NotFound
from specfleet.planning.model_source import image_references
from specfleet.planning.names import selector
from specfleet.planning.observed import ObjectKey, Observed
from specfleet.planning.plan import wanted_keys

OWNED_KINDS = (DEPLOYMENT, SERVICE, CONFIG_MAP, DISRUPTION_BUDGET)
# PodMonitors come with another operator, which may be installed later.
POD_MONITORS_RECHECK_SECONDS = 600.0

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Observer:
    """Remembers only whether PodMonitors are served."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._monitors_missing_until = float("-inf")

    async def observe(self, resource: SpeculativeDeployment, *, fence: int) -> Observed:
        """Read the owned objects, whatever else has a wanted name, and the pods. Raises ClusterError."""
        labels = selector(resource.name)
        *owned, monitors, pods = await together(
            *(self._client.list(kind, resource.namespace, labels) for kind in OWNED_KINDS),
            self._monitors(resource.namespace, labels),
            self._client.list(POD, resource.namespace, labels),
        )
        kinds = (*OWNED_KINDS, POD_MONITOR)
        objects: dict[ObjectKey, Object] = {
            (kind, item["metadata"]["name"]): item
            for kind, items in zip(kinds, (*owned, monitors or []), strict=True)
            for item in items or []
        }
        served = monitors is not None
        missing = [key for key in wanted_keys(resource, served) if key not in objects]
        found = await together(*(self._find(kind, resource.namespace, name) for kind, name in missing))
        objects.update({key: item for key, item in zip(missing, found, strict=True) if item is not None})
        return Observed(objects, tuple(pods or ()), served, fence, nodes=await self._nodes(resource))

    async def _nodes(self, resource: SpeculativeDeployment) -> tuple[Object, ...]:
        """Read the nodes if the resource mounts images; none if the operator may not."""
        if not image_references(resource.spec):
            return ()
        try:
            return tuple(await self._client.list(NODE, None, {}))
        except Forbidden:
            logger.info("may not list nodes: whether they mount images as volumes is not checked")
            return ()

    async def _monitors(self, namespace: str, labels: Mapping[str, str | None]) -> list[Object] | None:
        now = asyncio.get_running_loop().time()
        if now < self._monitors_missing_until:
            return None
        try:
            return await self._client.list(POD_MONITOR, namespace, labels)
        except NotFound:
            self._monitors_missing_until = now + POD_MONITORS_RECHECK_SECONDS
            return None

    async def _find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Read an object without our label: it may be foreign, or our own with the label taken off."""
        try:
            return await self._client.get(kind, namespace, name)
        except NotFound:
            return None


async def together(*calls: Awaitable[T]) -> list[T]:
    """Await all calls at once. The first ClusterError cancels the others and is raised."""

    async def one(call: Awaitable[T]) -> T:
        return await call

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(call)) for call in calls]
    except* ClusterError as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
