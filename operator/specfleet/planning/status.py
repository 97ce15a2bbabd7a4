"""The part of status that reconcile owns, derived from live objects and the plan, never from memory."""

from datetime import datetime
from typing import Any

from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning import conditions
from specfleet.planning.compatibility import proposer_compatible
from specfleet.planning.observed import Observed
from specfleet.planning.planned import Plan
from specfleet.planning.pod_failures import pod_failures
from specfleet.planning.pod_work import pods_that_fetch
from specfleet.planning.pool_progress import pool_progress


def status(
    resource: SpeculativeDeployment, observed: Observed, planned: Plan, now: datetime
) -> dict[str, Any]:
    """Write ``status`` for `ClusterClient.apply_status` under manager ``specfleet``.

    Conditions that did not change keep their ``lastTransitionTime``. ``observed`` may be from before the
    apply: a Deployment counts only once it carries the plan's hash.
    """
    pools = [pool_progress(resource, pool, observed) for pool in planned.pools]
    names = {pool.name for pool in planned.pools}
    failures = pod_failures(observed.pods, names)
    findings = (
        conditions.ready(pools, planned.refusals),
        conditions.progressing(pools, planned.refusals, pods_that_fetch(observed.pods, names)),
        conditions.degraded(resource, pools, planned.refusals, failures),
        proposer_compatible(resource, planned.pools, observed.pods),
    )
    return {
        "observedGeneration": resource.generation,
        "fingerprint": ",".join(dict.fromkeys(pool.fingerprint for pool in planned.pools)),
        "ready": f"{sum(pool.ready for pool in pools)}/{sum(pool.plan.replicas for pool in pools)}",
        "pools": [pool.as_status() for pool in pools],
        "conditions": conditions.dated(findings, resource, now),
    }
