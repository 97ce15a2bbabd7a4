"""The port to Kubernetes: five verbs over plain dicts, implemented by adapters and by the fake of the tests.

Objects are dicts as the API serves them. Every write is a server-side apply under a named field manager, so
that reconcile and the tuner never delete each other's fields.
"""

from collections.abc import Mapping
from typing import Protocol

from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD,
    POD_MONITOR,
    RECONCILE_MANAGER,
    SERVICE,
    SPECULATIVE_DEPLOYMENT,
    TUNER_MANAGER,
    Kind,
    Object,
)

__all__ = [
    "CONFIG_MAP",
    "DEPLOYMENT",
    "DISRUPTION_BUDGET",
    "POD",
    "POD_MONITOR",
    "RECONCILE_MANAGER",
    "SERVICE",
    "SPECULATIVE_DEPLOYMENT",
    "TUNER_MANAGER",
    "ClusterClient",
    "Kind",
    "Object",
]


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
        """Server-side apply to the status subresource.

        With a ``metadata.uid`` in the body, Conflict tells that another object of the name was met. It may
        have got the status; its own reconcile or next tuning pass replaces it.
        """

    async def delete(self, kind: Kind, namespace: str, name: str) -> None:
        """Delete one object with background propagation. Already gone is fine."""
