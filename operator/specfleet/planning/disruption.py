"""The disruption budget of a pool: a node drain takes one pod at a time, and never waits for a broken one."""

from specfleet.api.kinds import DISRUPTION_BUDGET, Object
from specfleet.planning import names
from specfleet.planning.manifest import manifest
from specfleet.planning.pool_design import PoolDesign


def disruption_budget(design: PoolDesign) -> Object:
    """Render one budget per pool: a pod under two budgets could not be evicted at all."""
    resource, pool = design.resource.name, design.pool.name
    spec = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": names.selector(resource, pool)},
    }
    return manifest(
        DISRUPTION_BUDGET, design.resource, design.service, names.labels(resource, pool), spec=spec
    )
