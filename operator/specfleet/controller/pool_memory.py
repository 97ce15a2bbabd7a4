"""A pool's memory over a restart: in an owned ConfigMap, written at decisions and now and then.

Source: design/tuning.md, section 11 (operator restart); design/contracts.md, "Names and labels".
"""

from specfleet.api.kinds import CONFIG_MAP, TUNER_MANAGER
from specfleet.cluster.client import ClusterClient
from specfleet.controller.fleet import MEMORY_KEY, PoolView
from specfleet.planning import names
from specfleet.planning.manifest import manifest
from specfleet.tuning.memory import Memory, from_json, to_json

# Between decisions nothing is lost but what was measured: the reservoir of a pool that is only observed too.
SAVE_SECONDS = 600.0


def remembered(view: PoolView) -> Memory:
    """Read back what an earlier process learnt; an empty memory where there is nothing to read."""
    text = ((view.memory or {}).get("data") or {}).get(MEMORY_KEY)
    return (from_json(text) if text else None) or Memory()


async def save(client: ClusterClient, view: PoolView, memory: Memory) -> None:
    """Write a pool's memory. Raises ClusterError."""
    resource, pool = view.resource, view.pool.name
    body = manifest(
        CONFIG_MAP,
        resource,
        names.tuning_config_map(resource.name, pool),
        names.labels(resource.name, pool, names.ACTIVE),
        data={MEMORY_KEY: to_json(memory)},
    )
    if view.memory is not None:
        body["metadata"]["uid"] = view.memory["metadata"]["uid"]
    await client.apply(CONFIG_MAP, body, manager=TUNER_MANAGER, force=False)
