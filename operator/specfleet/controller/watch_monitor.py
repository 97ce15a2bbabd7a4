"""Which events the watch has delivered: to skip echoes, and to notice a watch that is dead but looks alive.

kopf's watch of one kind may end while the operator lives on (kopf#955, #1145, #1276), and handlers never see
bookmarks, so "no events" proves nothing. The resync lists the same objects: one with a new resourceVersion,
for which no event comes, is the proof.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from specfleet.cluster.client import Object


@dataclass(slots=True)
class _Seen:
    version: str
    digest: str
    at: float
    missed_since: float | None = None


class WatchMonitor:
    """Remembers one line per watched object; `prune` forgets objects that are gone."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def delivered(self, event_type: str | None, body: Any) -> bool:
        """Note an event. True: it may mean work. False: only status moved, which asks for nothing."""
        metadata = body["metadata"]
        before = self._seen.pop(metadata["uid"], None)
        if event_type == "DELETED":
            return True
        seen = _Seen(metadata["resourceVersion"], _digest(body), asyncio.get_running_loop().time())
        self._seen[metadata["uid"]] = seen
        return before is None or event_type is None or before.digest != seen.digest

    def compare(self, listed: Iterable[Object], *, list_started: float) -> None:
        """Hold a list against the events; ``list_started`` is the loop's time before it was asked for."""
        present = {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in listed}
        for uid in [uid for uid, seen in self._seen.items() if uid not in present and seen.at < list_started]:
            del self._seen[uid]
        for uid, version in present.items():
            seen = self._seen.setdefault(uid, _Seen("", "", float("-inf")))
            # An event that came while the list was made may be newer than the list.
            if seen.version != version and seen.at < list_started and seen.missed_since is None:
                seen.missed_since = list_started

    @property
    def silent_seconds(self) -> float:
        """For how long an event has been missing; 0: the watch delivers."""
        missed = [seen.missed_since for seen in self._seen.values() if seen.missed_since is not None]
        return asyncio.get_running_loop().time() - min(missed) if missed else 0.0


def _digest(body: Any) -> str:
    """What reconcile reacts to in a resource: its spec, deletion, and the tuner's faults and hard-off."""
    metadata = body["metadata"]
    pools = (body.get("status") or {}).get("pools") or ()
    told = [(pool.get("name"), pool.get("fault"), _hard_off(pool)) for pool in pools]
    return json.dumps([metadata.get("generation"), metadata.get("deletionTimestamp"), told], default=dict)


def _hard_off(pool: Any) -> tuple[Any, Any]:
    """Which proposer is out; since when and why changes nothing."""
    said = pool.get("hardOff") or {}
    return said.get("phase"), said.get("proposer")
