"""The kinds of Kubernetes objects that specfleet reads or writes, and under which manager it writes them.

Values only: the pure core names objects by them, the cluster port finds the endpoint from them.
"""

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

RECONCILE_MANAGER = "specfleet"
TUNER_MANAGER = "specfleet-tuner"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object and where it is served. ``group`` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


SPECULATIVE_DEPLOYMENT = Kind("specfleet.dev", "v1alpha1", "SpeculativeDeployment", "speculativedeployments")
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
SERVICE = Kind("", "v1", "Service", "services")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
POD = Kind("", "v1", "Pod", "pods")
NODE = Kind("", "v1", "Node", "nodes")
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
POD_MONITOR = Kind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")
