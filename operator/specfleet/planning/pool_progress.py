"""How far one pool is: the numbers of its live Deployment, and whether they are about the current spec."""

from dataclasses import dataclass
from typing import Any

from specfleet.api.kinds import DEPLOYMENT
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.manifest import applied_hash
from specfleet.planning.names import ACTIVE
from specfleet.planning.observed import Live, Observed, one_line
from specfleet.planning.ownership import Ownership, ownership
from specfleet.planning.planned import PoolPlan


@dataclass(frozen=True, slots=True)
class PoolProgress:
    """Counts of pods. ``current``: the Deployment is what the plan wants, and its controller has seen it."""

    plan: PoolPlan
    existing: int
    ready: int
    updated: int
    current: bool
    stuck: bool
    refused_pods: str | None

    @property
    def done(self) -> bool:
        """Every wanted pod serves at the current revision, and none of an older one is left.

        Ready pods of an old revision must not satisfy the count (ai-dynamo/dynamo#3567).
        """
        wanted = self.plan.replicas
        return self.current and self.existing == self.updated == self.ready == wanted

    def as_status(self) -> dict[str, Any]:
        """Write reconcile's part of ``status.pools[]``."""
        return {
            "name": self.plan.name,
            "replicas": self.existing,
            "readyReplicas": self.ready,
            "updatedReplicas": self.updated,
            "slices": [
                {"name": ACTIVE, "replicas": self.existing, "ready": self.ready, "updated": self.updated}
            ],
        }


def pool_progress(resource: SpeculativeDeployment, plan: PoolPlan, observed: Observed) -> PoolProgress:
    """Read one pool's live Deployment; one that is missing or not ours has no pods of ours."""
    live = observed.objects.get((DEPLOYMENT, plan.deployment))
    if live is None or ownership(resource, live) is not Ownership.OURS:
        return PoolProgress(plan, 0, 0, 0, current=False, stuck=False, refused_pods=None)
    status = live.get("status") or {}
    seen = int(status.get("observedGeneration", 0)) >= int(live["metadata"].get("generation", 0))
    return PoolProgress(
        plan,
        existing=int(status.get("replicas", 0)),
        ready=int(status.get("readyReplicas", 0)),
        updated=int(status.get("updatedReplicas", 0)),
        current=seen and applied_hash(live) == plan.applied_hash,
        stuck=_condition(live, "Progressing").get("reason") == "ProgressDeadlineExceeded",
        refused_pods=_refused_pods(live),
    )


def _refused_pods(live: Live) -> str | None:
    """Why the API server refuses the pods themselves: quota, admission, a missing service account."""
    failure = _condition(live, "ReplicaFailure")
    return one_line(failure.get("message")) if failure.get("status") == "True" else None


def _condition(live: Live, condition_type: str) -> Live:
    conditions = (live.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found.get("type") == condition_type), {})
