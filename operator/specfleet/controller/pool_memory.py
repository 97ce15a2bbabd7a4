"""A pool's memory over a restart: in an owned ConfigMap, written at decisions and now and then.

Source: design/tuning.md, section 11 (operator restart); design/contracts.md, "Names and labels".
"""

import logging

from specfleet.api.kinds import CONFIG_MAP, TUNER_MANAGER, Object
from specfleet.cluster.client import ClusterClient
from specfleet.cluster.errors import NotFound
from specfleet.controller.fleet import MEMORY_KEY, PoolView
from specfleet.planning import names
from specfleet.planning.manifest import manifest
from specfleet.planning.ownership import Ownership, ownership
from specfleet.tuning.memory import Memory, from_json, to_json

# Between decisions nothing is lost but what was measured: the reservoir of a pool that is only observed too.
SAVE_SECONDS = 600.0

logger = logging.getLogger(__name__)


def remembered(view: PoolView) -> Memory:
    """Read back what an earlier process learnt; an empty memory where there is nothing to read."""
    text = ((view.memory or {}).get("data") or {}).get(MEMORY_KEY)
    return (from_json(text) if text else None) or Memory()


def learnt_at(memory: Memory) -> float:
    """Give when steps were last measured: without traffic there is nothing new to write."""
    return max((window.at for window in memory.windows), default=0.0)


async def save(client: ClusterClient, view: PoolView, memory: Memory) -> None:
    """Write a pool's memory over whatever was made of it by hand. Raises ClusterError.

    An object of somebody else is left alone: the tuner goes on without, and reconcile says so in status.
    A pool without a schedule of its own has learnt nothing; its names may be those of another resource's.
    """
    if view.schedule is None:
        return
    resource, pool = view.resource, view.pool.name
    name = names.tuning_config_map(resource.name, pool)
    live = view.memory or await _find(client, resource.namespace, name)
    if ownership(resource, live) not in (Ownership.ABSENT, Ownership.OURS):
        logger.warning("what is learnt of %s/%s/%s is not kept: ConfigMap %s is not ours", *view.key, name)
        return
    labels = names.labels(resource.name, pool, names.ACTIVE)
    body = manifest(CONFIG_MAP, resource, name, labels, data={MEMORY_KEY: to_json(memory)})
    # The hash marks what reconcile applied: each save would be drift to it.
    del body["metadata"]["annotations"]
    if live is not None:
        body["metadata"]["uid"] = live["metadata"]["uid"]
    await client.apply(CONFIG_MAP, body, manager=TUNER_MANAGER, force=live is not None)


async def _find(client: ClusterClient, namespace: str, name: str) -> Object | None:
    """Look for what the list by labels does not give: a foreign object, or our own without label or owner."""
    try:
        return await client.get(CONFIG_MAP, namespace, name)
    except NotFound:
        return None
