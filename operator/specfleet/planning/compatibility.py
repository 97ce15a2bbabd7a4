"""Do proposer and target fit each other? The engine finds out when it loads them, and its pod tells.

Nothing else can know: the files lie where only the pod looks. An engine that refuses its proposer ends before
it is ready, so such a pair never gets a request. Source: design/api.md, "Status".
"""

from collections.abc import Sequence
from typing import Literal

from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.conditions import Finding
from specfleet.planning.names import FINGERPRINT_LABEL
from specfleet.planning.observed import Live
from specfleet.planning.planned import PoolPlan
from specfleet.planning.pod_failures import is_gone, last_words

# How `specfleet_engine` begins its last line when the proposer is at fault.
_AT_FAULT = "proposer: "


def proposer_compatible(
    resource: SpeculativeDeployment, pools: Sequence[PoolPlan], pods: Sequence[Live]
) -> Finding:
    """Say whether proposer and target fit, by the pods of the current revision. One refusal is enough."""
    speculation = resource.spec.speculation
    if speculation.method == "none":
        return _finding("True", "NoProposer", "method none has no proposer")
    if speculation.proposer is None:
        return _finding("True", "NoProposerModel", f"method {speculation.method} drafts from the text itself")
    fingerprints = {pool.fingerprint for pool in pools}
    current = [pod for pod in pods if _fingerprint(pod) in fingerprints and not is_gone(pod)]
    for pod in sorted(current, key=lambda pod: str(pod["metadata"]["name"])):
        if (reason := _refusal(pod)) is not None:
            return _finding("False", "ProposerRefused", f"{speculation.proposer.uri}: {reason}")
    if any(_is_ready(pod) for pod in current):
        return _finding("True", "ProposerLoaded", f"{speculation.proposer.uri} was loaded with the model")
    return _finding("Unknown", "NotLoadedYet", f"no pod has loaded {speculation.proposer.uri} yet")


def _finding(status: Literal["True", "False", "Unknown"], reason: str, message: str) -> Finding:
    return Finding("ProposerCompatible", status, reason, message)


def _fingerprint(pod: Live) -> str | None:
    found: str | None = (pod["metadata"].get("labels") or {}).get(FINGERPRINT_LABEL)
    return found


def _refusal(pod: Live) -> str | None:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        words = last_words(container)
        if words is not None and words.startswith(_AT_FAULT):
            return words.removeprefix(_AT_FAULT)
    return None


def _is_ready(pod: Live) -> bool:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(containers) and all(container.get("ready") for container in containers)
