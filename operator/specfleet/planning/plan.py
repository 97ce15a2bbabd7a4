"""The one entry of planning: resource, configuration and observed state in, a plan out.

Reconcile applies `Plan.desired` in order, deletes `Plan.removals`, and hands the plan to `status.status`.
"""

from dataclasses import dataclass
from datetime import datetime

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import Kind, Object
from specfleet.api.resource import SpeculativeDeployment
from specfleet.engines.engine import Refusal
from specfleet.planning.observed import ObjectKey, Observed


@dataclass(frozen=True, slots=True)
class Desired:
    """One server-side apply, with ``force=True`` under ``manager``."""

    kind: Kind
    body: Object
    manager: str

    @property
    def key(self) -> ObjectKey:
        return self.kind, self.body["metadata"]["name"]


@dataclass(frozen=True, slots=True)
class Removal:
    """One owned object that nothing in the spec asks for any more."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What status must know of one pool: what its Deployment has to be to count as current.

    ``applied_hash`` is the annotation of an up-to-date Deployment. ``replicas`` is what will be applied; None:
    somebody else owns the number, ``replicas_owner`` if it is known. ``held``: a refusal leaves the pool as it is.
    """

    name: str
    deployment: str
    fingerprint: str
    applied_hash: str
    replicas: int | None
    replicas_owner: str | None
    held: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """``desired`` holds only what has to be applied now: unchanged objects are left out."""

    desired: tuple[Desired, ...]
    removals: tuple[Removal, ...]
    refusals: tuple[Refusal, ...]
    pools: tuple[PoolPlan, ...]


def wanted_keys(resource: SpeculativeDeployment, pod_monitors_served: bool) -> tuple[ObjectKey, ...]:
    """Name every object that a plan may create, so that reconcile can look whether the name is taken."""
    raise NotImplementedError


def plan(
    resource: SpeculativeDeployment, configuration: Configuration, observed: Observed, now: datetime
) -> Plan:
    """Say what the cluster must become. ``now`` (aware) dates the first schedule document of a pool."""
    raise NotImplementedError
