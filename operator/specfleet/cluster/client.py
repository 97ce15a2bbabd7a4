"""The port to Kubernetes: five verbs over plain dicts. Adapters and the tests' fake API server stand behind it.

Objects are dicts as the API serves them. Every write is a server-side apply under a named field manager, so
that reconcile and the tuner never delete each other's fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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
DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
POD_MONITOR = Kind("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors")


class ClusterClient(Protocol):
    """All methods raise `specfleet.cluster.errors.ClusterError` or one of its subclasses."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Read one object. Raises NotFound."""

    async def list(self, kind: Kind, namespace: str | None, labels: Mapping[str, str | None]) -> list[Object]:
        """Read all pages. ``namespace`` None: all namespaces. A label value None: the label must exist."""

    async def apply(self, kind: Kind, body: Object, *, manager: str, force: bool = True) -> Object:
        """Server-side apply: create the object or own exactly the fields of ``body``.

        A ``metadata.uid`` in the body makes the call fail with Conflict instead of creating or touching
        another object of the same name.
        """

    async def apply_status(self, kind: Kind, body: Object, *, manager: str) -> Object:
        """Server-side apply to the status subresource."""

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete one object with background propagation. Already gone is fine."""
