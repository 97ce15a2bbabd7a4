"""Events of events.k8s.io/v1: what happened to a resource, for `kubectl describe` and alerting.

Callers record only real changes. The same event again becomes a series of the first one, so that a fault that
flaps cannot flood the API. A lost Event is never worth a failed reconcile: errors are counted and logged.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Protocol

from specfleet.cluster.client import Kind, Object
from specfleet.cluster.errors import ClusterError, NotFound

EVENT = Kind("events.k8s.io", "v1", "Event", "events")
REPORTING_CONTROLLER = "specfleet.dev/operator"

NOTE_BYTES = 1024  # limit of the API
REMEMBERED = 1024
# The API server drops Events after an hour by default; a series must not outlive its first Event.
SERIES_SECONDS = 1800.0

logger = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]


class EventStore(Protocol):
    """The calls that Events need; `KubernetesClient` has them."""

    async def create(self, kind: Kind, body: Object) -> Object: ...

    async def merge_patch(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object: ...


@dataclass(slots=True)
class _Series:
    name: str
    started: float
    count: int = 1


class EventRecorder:
    """Writes Events about resources of one operator process (``instance``)."""

    def __init__(self, store: EventStore, *, instance: str) -> None:
        self._store = store
        self._instance = instance
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self.lost = 0

    async def record(
        self, regarding: Object, event_type: EventType, reason: str, note: str, *, action: str = "Reconcile"
    ) -> None:
        """Record that ``reason`` happened. ``note`` is read by users: no secrets, no remote text."""
        note = _cut(note)
        key = (regarding["metadata"]["uid"], event_type, reason, action, note)
        try:
            series = self._current(key)
            if series is None or not await self._repeat(regarding, series):
                await self._first(key, regarding, event_type)
        except ClusterError as error:
            self.lost += 1
            logger.warning("an Event %s was lost: %s", reason, error)

    def _current(self, key: tuple[str, ...]) -> _Series | None:
        series = self._series.get(key)
        if series is None or asyncio.get_running_loop().time() - series.started > SERIES_SECONDS:
            return None
        self._series.move_to_end(key)
        return series

    async def _first(self, key: tuple[str, ...], regarding: Object, event_type: EventType) -> None:
        _, _, reason, action, note = key
        metadata = regarding["metadata"]
        name = f"{metadata['name']}.{uuid.uuid4().hex[:16]}"
        await self._store.create(
            EVENT,
            {
                "apiVersion": EVENT.api_version,
                "kind": EVENT.kind,
                "metadata": {"name": name, "namespace": metadata["namespace"]},
                "eventTime": _now(),
                "reportingController": REPORTING_CONTROLLER,
                "reportingInstance": self._instance[:128],
                "type": event_type,
                "reason": reason,
                "action": action,
                "note": note,
                "regarding": {
                    "apiVersion": regarding["apiVersion"],
                    "kind": regarding["kind"],
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
            },
        )
        self._series[key] = _Series(name, asyncio.get_running_loop().time())
        self._series.move_to_end(key)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    async def _repeat(self, regarding: Object, series: _Series) -> bool:
        """Count one more; False: the first Event is gone."""
        series.count += 1
        patch = {"series": {"count": series.count, "lastObservedTime": _now()}}
        try:
            await self._store.merge_patch(EVENT, regarding["metadata"]["namespace"], series.name, patch)
        except NotFound:
            return False
        return True


def _cut(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES:
        return note
    return encoded[: NOTE_BYTES - 3].decode(errors="ignore") + "..."


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
