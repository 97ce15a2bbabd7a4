"""The conditions that reconcile owns: what each is true of, in which words, and when it changed.

Source: design/api.md, "Status".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from specfleet.api.resource import Condition, SpeculativeDeployment
from specfleet.engines.engine import Refusal
from specfleet.planning.ownership import NAME_CONFLICT, WAITING_FOR_DELETION
from specfleet.planning.pod_failures import PodFailure
from specfleet.planning.pool_progress import PoolProgress

_LONGEST_MESSAGE = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition without its times."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def dated(
    findings: Sequence[Finding], resource: SpeculativeDeployment, now: datetime
) -> list[dict[str, Any]]:
    """Write conditions; one whose status is what it was keeps its ``lastTransitionTime``."""
    before = {condition.type: condition for condition in resource.status.conditions}
    return [
        {
            "type": found.type,
            "status": found.status,
            "reason": found.reason,
            "message": found.message[:_LONGEST_MESSAGE],
            "observedGeneration": resource.generation,
            "lastTransitionTime": _since(found, before.get(found.type), now),
        }
        for found in findings
    ]


def _since(found: Finding, before: Condition | None, now: datetime) -> str:
    if before is not None and before.status == found.status:
        return before.last_transition_time
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready(pools: Sequence[PoolProgress], refusals: Sequence[Refusal]) -> Finding:
    """Say whether every pool serves, through its Services, at the current revision."""
    counts = "; ".join(_count(pool) for pool in pools)
    blocked = [refusal.message for refusal in refusals if _blocks(refusal)]
    if blocked:
        return Finding("Ready", "False", "Blocked", f"{counts}; {blocked[0]}")
    if not all(pool.current for pool in pools):
        return Finding("Ready", "False", "NotApplied", f"{counts}; the current spec is not in force yet")
    if not all(pool.done for pool in pools):
        return Finding("Ready", "False", "PodsNotReady", counts)
    if not any(pool.plan.replicas for pool in pools):
        return Finding("Ready", "True", "ScaledToZero", "no pods are wanted")
    return Finding("Ready", "True", "AllPodsServe", counts)


def _blocks(refusal: Refusal) -> bool:
    """A shared Service that is somebody else's holds no pool, but nothing is served through it."""
    return refusal.holds or refusal.reason in (NAME_CONFLICT, WAITING_FOR_DELETION)


def _count(pool: PoolProgress) -> str:
    owner = f" (replicas set by {pool.plan.replicas_owner})" if pool.plan.replicas_owner else ""
    return f"pool {pool.plan.name}: {pool.ready} of {pool.plan.replicas} pods ready{owner}"


def progressing(pools: Sequence[PoolProgress], refusals: Sequence[Refusal], fetching: str = "") -> Finding:
    """Say whether something is on its way that nobody has to help with. ``fetching``: which pods download."""
    waiting = [refusal.message for refusal in refusals if refusal.reason == WAITING_FOR_DELETION]
    if waiting:
        return Finding("Progressing", "True", WAITING_FOR_DELETION, waiting[0])
    stuck = [pool.plan.name for pool in pools if pool.stuck and not pool.done]
    if stuck:
        message = f"pools {', '.join(stuck)}: no new pod became ready within the deadline: see Degraded"
        return Finding("Progressing", "False", "ProgressDeadlineExceeded", message)
    moving = [pool for pool in pools if not pool.done and not pool.plan.held]
    if moving:
        counts = (f"{_count(pool)}, {pool.updated} updated" for pool in moving)
        message = "; ".join((*counts, *([fetching] if fetching else ())))
        return Finding("Progressing", "True", "PodsChange", message)
    if any(pool.plan.held for pool in pools):
        held = ", ".join(pool.plan.name for pool in pools if pool.plan.held)
        return Finding("Progressing", "False", "Blocked", f"pools {held} stay as they are: see Degraded")
    return Finding("Progressing", "False", "Complete", "everything is at the current revision")


def degraded(
    resource: SpeculativeDeployment,
    pools: Sequence[PoolProgress],
    refusals: Sequence[Refusal],
    failures: Sequence[PodFailure],
) -> Finding:
    """Say what a human has to look at. The reason is the worst problem's, the message has them all."""
    told = [refusal for refusal in refusals if refusal.reason != WAITING_FOR_DELETION]
    problems = [
        *((refusal.reason, refusal.message) for refusal in told if _blocks(refusal)),
        *((failure.reason, failure.message) for failure in failures),
        *(problem for pool in pools for problem in _rollout_problems(pool)),
        *_schedule_problems(resource, pools),
        *((refusal.reason, refusal.message) for refusal in told if not _blocks(refusal)),
    ]
    if not problems:
        return Finding("Degraded", "False", "NoProblem", "")
    return Finding("Degraded", "True", problems[0][0], "; ".join(message for _, message in problems))


def _rollout_problems(pool: PoolProgress) -> Iterator[tuple[str, str]]:
    if pool.refused_pods:
        yield "PodsNotCreated", f"pool {pool.plan.name}: {pool.refused_pods}"
    if pool.stuck and not pool.done:
        message = "no new pod became ready within the deadline: see kubectl describe and logs of its pods"
        yield "RolloutStuck", f"pool {pool.plan.name}: {message}"


def _schedule_problems(
    resource: SpeculativeDeployment, pools: Sequence[PoolProgress]
) -> Iterator[tuple[str, str]]:
    """Pass on what the tuner found wrong with its pushes, for pools that still exist."""
    names = {pool.plan.name for pool in pools}
    for pool in resource.status.pools:
        if pool.fault is not None and pool.name in names:
            yield pool.fault.reason, f"pool {pool.name}: {pool.fault.message}"
