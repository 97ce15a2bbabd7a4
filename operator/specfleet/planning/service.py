"""The Services: one for the whole resource, one per pool. Names never change; slices stand behind them."""

from specfleet.api.kinds import SERVICE, Object
from specfleet.api.resource import SpeculativeDeployment
from specfleet.engines.flags import HTTP
from specfleet.planning import names
from specfleet.planning.manifest import manifest


def service(resource: SpeculativeDeployment, pool: str | None = None) -> Object:
    """Render the Service of one pool, or of all pools."""
    name = resource.name if pool is None else names.pool_service(resource.name, pool)
    spec = {
        "selector": names.selector(resource.name, pool),
        "ports": [{"name": HTTP.name, "port": HTTP.number, "targetPort": HTTP.name, "protocol": "TCP"}],
    }
    return manifest(SERVICE, resource, name, names.labels(resource.name, pool), spec=spec)
