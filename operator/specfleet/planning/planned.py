"""What planning decides, as frozen values: what to apply, what to delete, what is refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specfleet.api.kinds import Kind, Object
from specfleet.engines.engine import Refusal
from specfleet.planning.observed import ObjectKey


@dataclass(frozen=True, slots=True)
class Desired:
    """One server-side apply, with ``force=True`` under ``manager``. ``pool`` None: the pools share it."""

    kind: Kind
    body: Object
    manager: str
    pool: str | None = None

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

    ``applied_hash`` is the annotation of an up-to-date Deployment. ``replicas`` is the number of pods wanted,
    ``replicas_owner`` the autoscaler that sets it, if one does. ``held``: a refusal leaves the pool as it is.
    ``loaded``: pods start with the proposer, if the spec has one.
    """

    name: str
    deployment: str
    fingerprint: str
    applied_hash: str
    replicas: int
    replicas_owner: str | None
    held: bool
    loaded: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """``desired`` holds only what has to be applied now: unchanged objects are left out."""

    desired: tuple[Desired, ...]
    removals: tuple[Removal, ...]
    refusals: tuple[Refusal, ...]
    pools: tuple[PoolPlan, ...]

    def refused(self, refusals: Sequence[Refusal]) -> "Plan":
        """Give the plan with what the API server refused of it: those pools are held too."""
        held = {refusal.pool for refusal in refusals}
        pools = tuple(replace(pool, held=pool.held or pool.name in held) for pool in self.pools)
        return replace(self, refusals=(*self.refusals, *refusals), pools=pools)
