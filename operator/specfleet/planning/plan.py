"""The one entry of planning: resource, configuration and observed state in, a plan out.

Reconcile applies `Plan.desired` in order, deletes `Plan.removals`, and hands the plan to `status.status`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import CONFIG_MAP, DEPLOYMENT
from specfleet.api.resource import SpeculativeDeployment
from specfleet.engines.engine import Refusal
from specfleet.engines.registry import ENGINES
from specfleet.planning import names
from specfleet.planning.admission import admission_refusals, wanted_replicas
from specfleet.planning.children import pool_keys, pool_objects, shared_keys, shared_objects
from specfleet.planning.deployment import deployment, replicas_owner, replicas_to_apply
from specfleet.planning.first_start import never_start
from specfleet.planning.manifest import applied_hash
from specfleet.planning.observed import Live, ObjectKey, Observed
from specfleet.planning.ownership import Ownership, is_controlled, ownership, ownership_refusal
from specfleet.planning.planned import Desired, Plan, PoolPlan, Removal
from specfleet.planning.pool_design import design_pool
from specfleet.planning.room import must_give_way
from specfleet.planning.served import as_served, is_unloaded
from specfleet.planning.source_admission import source_refusals
from specfleet.planning.start_table import start_table, started_with

__all__ = ["Desired", "Observed", "Plan", "PoolPlan", "Removal", "plan", "wanted_keys"]


def wanted_keys(resource: SpeculativeDeployment, pod_monitors_served: bool) -> tuple[ObjectKey, ...]:
    """Name every object of a resource, the tuner's too, so that reconcile can look at each.

    A name may be taken by somebody else, and a child may have lost the label by which it is found.
    """
    return (*_wanted_now(resource, pod_monitors_served), *_former_keys(resource))


def _wanted_now(resource: SpeculativeDeployment, pod_monitors_served: bool) -> Iterator[ObjectKey]:
    yield from shared_keys(resource, pod_monitors_served)
    for pool in resource.spec.pools:
        yield from pool_keys(resource, pool.name)


def plan(
    resource: SpeculativeDeployment, configuration: Configuration, observed: Observed, now: datetime
) -> Plan:
    """Say what the cluster must become. ``now`` (aware) dates first schedule documents and failures of pods.

    A pool with a refusal is left exactly as it is: nothing of it is applied, its pods keep serving. Nor is
    anything removed while any pool is held: what left the spec may be what a refused pool was made from (a
    rename), and nothing tells it from a pool that was given up, so both serve on until the refusal is gone.
    """
    engine = ENGINES[resource.spec.engine.type]
    deployments = _own_deployments(resource, observed)
    refusals = (
        *admission_refusals(resource, configuration, engine, deployments),
        *source_refusals(resource, configuration, observed.nodes),
        *_ownership_refusals(resource, observed),
    )
    desired: list[Desired] = []
    pools: list[PoolPlan] = []
    for pool in resource.spec.pools:
        live = deployments.get(pool.name)
        schedule = observed.objects.get((CONFIG_MAP, names.schedule_config_map(resource.name, pool.name)))
        running = None if live is None else started_with(live["spec"]["template"].get("metadata") or {})
        served = as_served(resource, pool.name)
        table = start_table(served, pool, engine, schedule, running)
        kept = None if live is None or never_start(pool.name, live, observed.pods, now) else live
        design = design_pool(resource, pool, engine, configuration, kept, table)
        gives_way = must_give_way(pool.name, observed.pods)
        body = deployment(design, replicas_to_apply(pool.replicas, live), gives_way=gives_way)
        held = any(refusal.holds and refusal.pool in (None, pool.name) for refusal in refusals)
        if not held:
            desired.extend(pool_objects(design, body, observed, now))
        pools.append(
            PoolPlan(
                name=pool.name,
                deployment=design.deployment,
                fingerprint=design.fingerprint,
                applied_hash=applied_hash(body),
                replicas=wanted_replicas(pool, live),
                replicas_owner=replicas_owner(live),
                held=held,
                loaded=not is_unloaded(resource, pool.name),
            )
        )
    desired.extend(_free_shared_objects(resource, configuration, observed, refusals))
    changed = tuple(wanted for wanted in desired if not _is_applied(resource, wanted, observed))
    removals = () if any(refusal.holds for refusal in refusals) else tuple(_removals(resource, observed))
    return Plan(changed, removals, refusals, tuple(pools))


def _own_deployments(resource: SpeculativeDeployment, observed: Observed) -> Mapping[str, Live]:
    """Find the live Deployments that are ours, by pool."""
    found = {}
    for pool in resource.spec.pools:
        live = observed.objects.get((DEPLOYMENT, names.slice_deployment(resource.name, pool.name)))
        if live is not None and ownership(resource, live) is Ownership.OURS:
            found[pool.name] = live
    return found


def _ownership_refusals(resource: SpeculativeDeployment, observed: Observed) -> Iterator[Refusal]:
    keys: list[tuple[ObjectKey, str | None]] = [
        (key, None) for key in shared_keys(resource, observed.pod_monitors_served)
    ]
    keys += [(key, pool.name) for pool in resource.spec.pools for key in pool_keys(resource, pool.name)]
    for key, pool in keys:
        refusal = ownership_refusal(resource, key, observed.objects.get(key), pool)
        if refusal is not None:
            yield refusal


def _free_shared_objects(
    resource: SpeculativeDeployment,
    configuration: Configuration,
    observed: Observed,
    refusals: Sequence[Refusal],
) -> Iterator[Desired]:
    """Give the shared objects whose names are free, unless the whole resource is refused."""
    if any(refusal.holds and refusal.pool is None for refusal in refusals):
        return
    for wanted in shared_objects(resource, configuration, observed.pod_monitors_served):
        if ownership(resource, observed.objects.get(wanted.key)) in (Ownership.ABSENT, Ownership.OURS):
            yield wanted


def _is_applied(resource: SpeculativeDeployment, wanted: Desired, observed: Observed) -> bool:
    """Say whether applying would change nothing: same hash and replicas, and still ours."""
    live = observed.objects.get(wanted.key)
    if observed.full or live is None or not is_controlled(resource, live):
        return False
    replicas = wanted.body.get("spec", {}).get("replicas")
    return (
        bool(applied_hash(wanted.body))
        and applied_hash(wanted.body) == applied_hash(live)
        and (replicas is None or replicas == live["spec"].get("replicas"))
    )


def _removals(resource: SpeculativeDeployment, observed: Observed) -> Iterator[Removal]:
    """Name what is left of pools that the spec no longer has, the tuner's memory included."""
    pools = {pool.name for pool in resource.spec.pools}
    former = frozenset(_former_keys(resource))
    # What is still wanted is repaired by its apply, even with a label that was changed by hand.
    wanted = frozenset(_wanted_now(resource, observed.pod_monitors_served))
    for key, live in observed.objects.items():
        pool = (live["metadata"].get("labels") or {}).get(names.POOL_LABEL)
        gone = key in former if pool is None else pool not in pools
        if gone and key not in wanted and ownership(resource, live) is Ownership.OURS:
            yield Removal(*key)


def _former_keys(resource: SpeculativeDeployment) -> Iterator[ObjectKey]:
    """Name the objects of pools that only status still knows."""
    pools = {pool.name for pool in resource.spec.pools}
    for former in resource.status.pools:
        if former.name not in pools:
            yield from pool_keys(resource, former.name)
