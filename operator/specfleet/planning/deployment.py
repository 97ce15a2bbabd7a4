"""The Deployment of a slice: how many pods, how they roll, and who owns the number of replicas."""

from collections.abc import Mapping
from typing import Any

from specfleet.api.kinds import DEPLOYMENT, RECONCILE_MANAGER, Object
from specfleet.planning import names
from specfleet.planning.gpus import gpus_per_pod
from specfleet.planning.manifest import manifest
from specfleet.planning.pod import pod_template
from specfleet.planning.pool_design import PoolDesign


def deployment(design: PoolDesign, replicas: int | None, *, gives_way: bool) -> Object:
    """Render the Deployment; ``replicas`` None leaves the number to whoever owns it.

    ``gives_way``: in an update an old pod goes before a new one comes.

    The hash does not cover the number: whether pods are current does not depend on how many there are.
    """
    resource, pool = design.resource.name, design.pool.name
    spec: dict[str, Any] = {
        "selector": {"matchLabels": names.selector(resource, pool, names.ACTIVE)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(design, gives_way)},
        # A pod may use its whole start-up budget; five minutes more cover scheduling and the image pull, and
        # an hour the download of 200 GB at half a gigabit per second.
        "progressDeadlineSeconds": design.start_seconds + 300 + (3600 if design.downloads else 0),
        "revisionHistoryLimit": 3,
        "template": pod_template(design),
    }
    labels = names.labels(resource, pool, names.ACTIVE)
    named = design.resource.spec.engine.image
    # Not on the template: a note there would roll the pods.
    notes = {names.NAMED_IMAGE: named} if named else {}
    body = manifest(DEPLOYMENT, design.resource, design.deployment, labels, notes, spec=spec)
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return body


def _rolling_update(design: PoolDesign, gives_way: bool) -> dict[str, int]:
    """With GPUs the old pod goes first, or the new one waits for the card it holds (defilantech/LLMKube#192).

    That costs one pod during an update, all of a pool of one. Without GPUs nothing is missing at any time,
    unless the cluster has no room for a pod more.
    """
    if gives_way or gpus_per_pod(design.pool.template.resources):
        return {"maxSurge": 0, "maxUnavailable": 1}
    return {"maxSurge": 1, "maxUnavailable": 0}


def replicas_owner(live: Mapping[str, Any] | None) -> str | None:
    """Name the autoscaler that owns ``spec.replicas`` of a live Deployment, if there is one.

    Anybody but specfleet counts, except kubectl: what a human scaled by hand goes back to the spec. So
    ``kubectl scale`` also hands the number back to specfleet once an autoscaler is gone.
    """
    for manager in _replicas_managers(live):
        if manager != RECONCILE_MANAGER and not manager.startswith("kubectl"):
            return manager
    return None


def replicas_to_apply(wanted: int | None, live: Mapping[str, Any] | None) -> int | None:
    """Say which number to apply; None: leave ``spec.replicas`` out.

    A field that we own and then leave out falls back to its default of 1. So when the spec no longer names a
    number, ours stays at what it is until the autoscaler has taken the field over.
    """
    if replicas_owner(live) is not None:
        return None
    if wanted is None and live is not None and RECONCILE_MANAGER in _replicas_managers(live):
        current: int | None = live["spec"].get("replicas")
        return current
    return wanted


def _replicas_managers(live: Mapping[str, Any] | None) -> tuple[str, ...]:
    if live is None:
        return ()
    return tuple(
        str(entry.get("manager"))
        for entry in live["metadata"].get("managedFields") or ()
        if "f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {})
    )
