"""Do proposer and target fit each other? Their pod tells: its pre-flight check, or the engine itself.

Nothing else can know: the files lie where only the pod looks. Either ends before the pod is ready if the pair
does not fit, so such a pair never gets a request. Source: design/api.md, "Status".
"""

from collections.abc import Sequence
from typing import Literal

from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.conditions import Finding
from specfleet.planning.names import FINGERPRINT_LABEL, PREFLIGHT
from specfleet.planning.observed import Live
from specfleet.planning.planned import PoolPlan
from specfleet.planning.pod_failures import container_statuses, is_gone, last_words, said_at_the_end

# How `specfleet_engine` and `specfleet_preflight` begin their last line when the proposer is at fault.
_AT_FAULT = "proposer: "
# And how the check begins it when nothing is.
_FITS = "fits: "


def proposer_compatible(
    resource: SpeculativeDeployment, pools: Sequence[PoolPlan], pods: Sequence[Live]
) -> Finding:
    """Say whether proposer and target fit, by the pods of the current revision. One refusal is enough."""
    speculation = resource.spec.speculation
    if speculation.method == "none":
        return _finding("True", "NoProposer", "method none has no proposer")
    fingerprints = {pool.fingerprint for pool in pools if pool.loaded}
    current = [pod for pod in pods if _fingerprint(pod) in fingerprints and not is_gone(pod)]
    if speculation.method == "mtp":
        return _own_layers(pools, current)
    if speculation.proposer is None:
        return _finding("True", "NoProposerModel", f"method {speculation.method} drafts from the text itself")
    return _weights(speculation.proposer.uri, pools, current)


def _weights(uri: str, pools: Sequence[PoolPlan], current: Sequence[Live]) -> Finding:
    for pod in sorted(current, key=lambda pod: str(pod["metadata"]["name"])):
        if (reason := _refusal(pod)) is not None:
            return _finding("False", "ProposerRefused", f"{uri}: {reason}")
    if any(_is_ready(pod) for pod in current):
        return _finding("True", "ProposerLoaded", f"{uri} was loaded with the model")
    for pod in current:
        if (plan := _plan(pod)) is not None:
            return _finding("True", "PreflightPassed", f"{uri} fits: {plan}")
    return _not_loaded(uri, pools)


def _own_layers(pools: Sequence[PoolPlan], current: Sequence[Live]) -> Finding:
    """Judge method mtp: whether the model has layers that draft shows when an engine has loaded it."""
    if any(_is_ready(pod) for pod in current):
        return _finding("True", "ProposerLoaded", "method mtp drafts with layers of the model itself")
    return _not_loaded("the model's layers that draft", pools)


def _not_loaded(what: str, pools: Sequence[PoolPlan]) -> Finding:
    if any(pool.loaded for pool in pools):
        return _finding("Unknown", "NotLoadedYet", f"no pod has loaded {what} yet")
    return _finding("Unknown", "HardOff", "the pods serve without their proposer: see pools[].hardOff")


def _finding(status: Literal["True", "False", "Unknown"], reason: str, message: str) -> Finding:
    return Finding("ProposerCompatible", status, reason, message)


def _fingerprint(pod: Live) -> str | None:
    found: str | None = (pod["metadata"].get("labels") or {}).get(FINGERPRINT_LABEL)
    return found


def _refusal(pod: Live) -> str | None:
    for container in container_statuses(pod):
        words = last_words(container)
        if words is not None and words.startswith(_AT_FAULT):
            return words.removeprefix(_AT_FAULT)
    return None


def _plan(pod: Live) -> str | None:
    """Read what the check of a pod added up; None: it has not passed."""
    for container in (pod.get("status") or {}).get("initContainerStatuses") or ():
        words = said_at_the_end(container) if container.get("name") == PREFLIGHT else None
        if words is not None and words.startswith(_FITS):
            return words.removeprefix(_FITS)
    return None


def _is_ready(pod: Live) -> bool:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(containers) and all(container.get("ready") for container in containers)
