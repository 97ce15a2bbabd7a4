"""The PodMonitor: has every pod of a resource scraped, in its own namespace only.

Monitors over all namespaces are forbidden in many clusters (opendatahub-io/kserve#847).
"""

from specfleet.api.kinds import POD_MONITOR, Object
from specfleet.api.resource import SpeculativeDeployment
from specfleet.engines.registry import ENGINES
from specfleet.planning import names
from specfleet.planning.manifest import manifest


def pod_monitor(resource: SpeculativeDeployment, scrape_interval_seconds: float) -> Object:
    """Render the monitor. The pool's label becomes target label ``specfleet_dev_pool``, for queries."""
    interval = f"{round(scrape_interval_seconds * 1000)}ms"
    spec = {
        "selector": {"matchLabels": names.selector(resource.name)},
        "podTargetLabels": [names.POOL_LABEL],
        "podMetricsEndpoints": [
            # A timeout above the interval is refused; the global default is 10 s.
            {"port": port.name, "path": "/metrics", "interval": interval, "scrapeTimeout": interval}
            for port in ENGINES[resource.spec.engine.type].runtime(resource.spec).ports
        ],
    }
    return manifest(POD_MONITOR, resource, resource.name, names.labels(resource.name), spec=spec)
