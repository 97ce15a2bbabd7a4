"""Whether the new pods of an update find room, or need that of the old ones.

Without GPUs an update begins with a pod more, so that none is missing. Where no node can take it, an old pod
has to go first, or both would wait for ever; but only if the new one then fits in its place. A pod that fits
nowhere must not cost one that serves.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction

from specfleet.planning.gpus import amount
from specfleet.planning.names import POOL_LABEL
from specfleet.planning.observed import Live
from specfleet.planning.pod_failures import is_gone, unschedulable

# Set by the Deployment's controller: which revision of the template a pod has.
_REVISION = "pod-template-hash"
# How the scheduler begins what a node lacks; selectors and taints have other words.
_LACKS = "Insufficient "
_PLACEMENT = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")


def must_give_way(pool: str, pods: Iterable[Live]) -> bool:
    """Say whether an old pod has to go first: a pod of another revision waits, and fits in its place."""
    there = [pod for pod in pods if _labels(pod).get(POOL_LABEL) == pool and not is_gone(pod)]
    waiting = [pod for pod in there if _LACKS in (unschedulable(pod) or "")]
    placed = [pod for pod in there if _spec(pod).get("nodeName")]
    return any(
        _labels(new).get(_REVISION) != _labels(old).get(_REVISION) and _fits(new, old)
        for new in waiting
        for old in placed
    )


def _labels(pod: Live) -> Live:
    return pod["metadata"].get("labels") or {}


def _spec(pod: Live) -> Live:
    return pod.get("spec") or {}


def _fits(new: Live, old: Live) -> bool:
    """Say whether a pod asks for nothing that the other one has not got, on no other nodes."""
    if any((_spec(new).get(field) or None) != (_spec(old).get(field) or None) for field in _PLACEMENT):
        return False
    held = _requests(old)
    return all(quantity <= held.get(resource, 0) for resource, quantity in _requests(new).items())


def _requests(pod: Live) -> Mapping[str, Fraction]:
    total: defaultdict[str, Fraction] = defaultdict(Fraction)
    for container in _spec(pod).get("containers") or ():
        for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] += amount(str(quantity))
    return total
