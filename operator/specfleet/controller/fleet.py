"""What the tuning pass reads of the cluster: a handful of lists for the whole fleet, whatever its size."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from specfleet.api.kinds import CONFIG_MAP, POD, SPECULATIVE_DEPLOYMENT, Object
from specfleet.api.resource import PoolSpec, SpeculativeDeployment
from specfleet.api.schedule import Document
from specfleet.api.validation import InvalidResource, validate
from specfleet.cluster.client import ClusterClient
from specfleet.planning import names
from specfleet.planning.names import SCHEDULE_KEY
from specfleet.planning.ownership import is_controlled
from specfleet.planning.served import as_served
from specfleet.tuning.interval import PodKey

MEMORY_KEY = "memory.json"
PoolKey = tuple[str, str, str]  # namespace, resource, pool

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool as the cluster shows it. ``ready`` are pods of the active slice that serve.

    ``resource`` is what the user wrote.
    """

    live: Object
    resource: SpeculativeDeployment
    pool: PoolSpec
    schedule: Object | None
    memory: Object | None
    ready: Mapping[PodKey, Object]

    @property
    def served(self) -> SpeculativeDeployment:
        """The resource as the pods are to serve it: without a proposer under hard-off."""
        return as_served(self.resource, self.pool.name)

    @property
    def key(self) -> PoolKey:
        return (self.resource.namespace, self.resource.name, self.pool.name)

    @property
    def text(self) -> str:
        """What lies in the ConfigMap, readable or not; empty: nothing."""
        return str(((self.schedule or {}).get("data") or {}).get(SCHEDULE_KEY) or "")

    @property
    def document(self) -> Document | None:
        """The schedule in force; None: none was written yet, or somebody broke it by hand."""
        if not self.text:
            return None
        try:
            return Document.from_json(self.text)
        except ValueError:
            logger.warning("the schedule of %s/%s/%s cannot be read", *self.key)
            return None

    def with_document(self, document: Document) -> "PoolView":
        """Give the view after a schedule was written."""
        schedule = {**(self.schedule or {}), "data": {SCHEDULE_KEY: document.to_json()}}
        return replace(self, schedule=schedule)

    @property
    def replicas(self) -> int | None:
        """Pods that exist by reconcile's account; None: it has not said yet."""
        pools = (self.live.get("status") or {}).get("pools") or ()
        return next((pool.get("replicas") for pool in pools if pool["name"] == self.pool.name), None)

    @property
    def fingerprints(self) -> frozenset[str]:
        return frozenset(_labels(pod).get(names.FINGERPRINT_LABEL, "") for pod in self.ready.values())

    def warming(self, since: datetime) -> frozenset[PodKey]:
        """Pods whose engine started after ``since``: too young to learn from."""
        return frozenset(key for key, pod in self.ready.items() if (at := _started(pod)) and at > since)


@dataclass(frozen=True, slots=True)
class ResourceView:
    """One resource as the cluster shows it, and its pools; an invalid one has none that could be tuned."""

    live: Object
    pools: Sequence[PoolView]


async def read_fleet(client: ClusterClient, namespaces: Sequence[str]) -> list[ResourceView]:
    """Read every resource that is not being deleted, with its pools. Raises ClusterError."""
    scopes: Sequence[str | None] = namespaces or (None,)
    selector = {names.DEPLOYMENT_LABEL: None}
    answers = await asyncio.gather(
        *(client.list(SPECULATIVE_DEPLOYMENT, scope, {}) for scope in scopes),
        *(client.list(POD, scope, {**selector, names.SLICE_LABEL: names.ACTIVE}) for scope in scopes),
        *(client.list(CONFIG_MAP, scope, selector) for scope in scopes),
    )
    count = len(scopes)
    resources, pods, maps = (
        [item for answer in answers[start : start + count] for item in answer]
        for start in (0, count, 2 * count)
    )
    pods_by_pool: defaultdict[PoolKey, dict[PodKey, Object]] = defaultdict(dict)
    for pod in filter(_is_ready, pods):
        metadata, labels = pod["metadata"], _labels(pod)
        key = (metadata["namespace"], labels[names.DEPLOYMENT_LABEL], labels.get(names.POOL_LABEL, ""))
        pods_by_pool[key][(metadata["namespace"], metadata["name"])] = pod
    maps_by_name = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in maps}
    return [
        ResourceView(live, _pools(live, pods_by_pool, maps_by_name))
        for live in resources
        if not live["metadata"].get("deletionTimestamp")
    ]


def _pools(
    live: Object,
    pods: Mapping[PoolKey, Mapping[PodKey, Object]],
    maps: Mapping[tuple[str, str], Object],
) -> list[PoolView]:
    try:
        resource = validate(live)
    except InvalidResource:
        return []  # reconcile says so in status

    def own(name: str) -> Object | None:
        found = maps.get((resource.namespace, name))
        return found if found is not None and is_controlled(resource, found) else None

    return [
        PoolView(
            live=live,
            resource=resource,
            pool=pool,
            schedule=own(names.schedule_config_map(resource.name, pool.name)),
            memory=own(names.tuning_config_map(resource.name, pool.name)),
            ready=pods.get((resource.namespace, resource.name, pool.name), {}),
        )
        for pool in resource.spec.pools
    ]


def _labels(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def _is_ready(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions: Sequence[Mapping[str, Any]] = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _started(pod: Object) -> datetime | None:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == names.ENGINE_CONTAINER:
            text = ((status.get("state") or {}).get("running") or {}).get("startedAt")
            return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None
    return None
