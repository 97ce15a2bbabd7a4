"""Which objects a resource has: their names without rendering anything, and the objects themselves."""

from collections.abc import Iterator
from datetime import datetime

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD_MONITOR,
    RECONCILE_MANAGER,
    SERVICE,
    TUNER_MANAGER,
    Object,
)
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning import names
from specfleet.planning.disruption import disruption_budget
from specfleet.planning.monitor import pod_monitor
from specfleet.planning.observed import ObjectKey, Observed
from specfleet.planning.planned import Desired
from specfleet.planning.pool_design import PoolDesign
from specfleet.planning.schedule_map import first_schedule, schedule_map
from specfleet.planning.service import service


def shared_keys(resource: SpeculativeDeployment, pod_monitors_served: bool) -> tuple[ObjectKey, ...]:
    """Name what belongs to no single pool."""
    monitor = ((POD_MONITOR, resource.name),) if pod_monitors_served else ()
    return ((SERVICE, resource.name), *monitor)


def pool_keys(resource: SpeculativeDeployment, pool: str) -> tuple[ObjectKey, ...]:
    """Name what belongs to one pool: what reconcile applies, and at last what the tuner remembers.

    That one reconcile only looks at, lest it is somebody else's, and deletes with the pool.
    """
    return (
        (CONFIG_MAP, names.schedule_config_map(resource.name, pool)),
        (SERVICE, names.pool_service(resource.name, pool)),
        (DISRUPTION_BUDGET, names.pool_service(resource.name, pool)),
        (DEPLOYMENT, names.slice_deployment(resource.name, pool)),
        (CONFIG_MAP, names.tuning_config_map(resource.name, pool)),
    )


def shared_objects(
    resource: SpeculativeDeployment, configuration: Configuration, pod_monitors_served: bool
) -> Iterator[Desired]:
    """Render what belongs to no single pool."""
    yield Desired(SERVICE, service(resource), RECONCILE_MANAGER)
    if pod_monitors_served:
        monitor = pod_monitor(resource, configuration.tuning.scrape_interval_seconds)
        yield Desired(POD_MONITOR, monitor, RECONCILE_MANAGER)


def pool_objects(
    design: PoolDesign, deployment: Object, observed: Observed, now: datetime
) -> Iterator[Desired]:
    """Give what belongs to one pool, in the order of its keys: pods find everything when they start."""
    pool = design.pool.name
    yield Desired(CONFIG_MAP, schedule_map(design), RECONCILE_MANAGER, pool)
    live = observed.objects.get((CONFIG_MAP, design.schedule))
    if (first := first_schedule(design, live, observed.fence, now)) is not None:
        yield Desired(CONFIG_MAP, first, TUNER_MANAGER, pool)
    yield Desired(SERVICE, service(design.resource, pool), RECONCILE_MANAGER, pool)
    yield Desired(DISRUPTION_BUDGET, disruption_budget(design), RECONCILE_MANAGER, pool)
    yield Desired(DEPLOYMENT, deployment, RECONCILE_MANAGER, pool)
