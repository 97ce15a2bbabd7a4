"""Inputs of planning in which a test states only what matters, and a cluster that does what a plan says."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import CONFIG_MAP, DEPLOYMENT, RECONCILE_MANAGER, Kind
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.observed import ObjectKey, Observed
from specfleet.planning.plan import Plan, plan

NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NOON_TEXT = "2026-01-01T12:00:00Z"
EARLIER_TEXT = "2026-01-01T09:00:00Z"

ACTIVE = (DEPLOYMENT, "chat-interactive-active")
SCHEDULE = (CONFIG_MAP, "chat-interactive-active-schedule")


def a_pool(name: str = "interactive", **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": 2, **fields}


def a_resource(
    *pools: Mapping[str, Any],
    name: str = "chat",
    uid: str = "uid-of-chat",
    generation: int = 1,
    engine: Mapping[str, Any] | None = None,
    speculation: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> SpeculativeDeployment:
    """A resource of the built-in engine with one pool of two pods."""
    return SpeculativeDeployment.model_validate(
        {
            "metadata": {"name": name, "namespace": "llm", "uid": uid, "generation": generation},
            "spec": {
                "model": {"uri": "file:///models/smollm2"},
                "engine": engine or {"type": "builtin"},
                "speculation": speculation or {"method": "ngram"},
                "pools": list(pools) or [a_pool()],
                **spec,
            },
            "status": status or {},
        }
    )


def a_simulated_resource(*pools: Mapping[str, Any], **fields: Any) -> SpeculativeDeployment:
    return a_resource(*pools, **{"engine": {"type": "simulated"}, "model": {}, **fields})


def a_configuration(**fields: Any) -> Configuration:
    return Configuration.model_validate(
        {
            "images": {
                "builtin": "example.test/engine:1",
                "simulated": "example.test/simulated:1",
                "vllm": "example.test/vllm:v{version}",
                "vllmPlugin": "example.test/vllm-plugin:1",
                "sglang": "example.test/sglang:v{version}",
                "preflight": "example.test/preflight:1",
            },
            "metricsSources": {"default": {"url": "http://prometheus.test"}},
            **fields,
        }
    )


def an_empty_cluster(*, pod_monitors_served: bool = False) -> Observed:
    return Observed(objects={}, pods=(), pod_monitors_served=pod_monitors_served, fence=7)


def after(plan: Plan, before: Observed, manager: str = "specfleet") -> Observed:
    """The cluster once a plan was carried out; the controllers have not looked yet."""
    objects = {key: deepcopy(dict(live)) for key, live in before.objects.items()}
    for desired in plan.desired:
        live = objects.setdefault(desired.key, {"metadata": {}})
        body = deepcopy(desired.body)
        metadata = {**live["metadata"], **body.pop("metadata")}
        generation = live["metadata"].get("generation", 0) + (body.get("spec") != live.get("spec"))
        live.update(body)
        live["metadata"] = {**metadata, "generation": generation}
        if desired.kind == DEPLOYMENT:
            live["spec"].setdefault("replicas", 1)
            live["metadata"]["managedFields"] = replicas_fields(manager, desired.body)
    for removal in plan.removals:
        del objects[removal.kind, removal.name]
    return replace(before, objects=objects)


def replicas_fields(manager: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    spec = {"f:template": {}, **({"f:replicas": {}} if "replicas" in body["spec"] else {})}
    return [{"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": spec}}]


def scaled_by(manager: str, observed: Observed, name: str, replicas: int) -> Observed:
    """Somebody used the scale subresource: the API server moves the field to that manager."""

    def scale(live: dict[str, Any]) -> None:
        live["spec"]["replicas"] = replicas
        for entry in live["metadata"]["managedFields"]:
            entry["fieldsV1"]["f:spec"].pop("f:replicas", None)
        live["metadata"]["managedFields"].append(
            {
                "manager": manager,
                "operation": "Update",
                "subresource": "scale",
                "fieldsV1": {"f:spec": {"f:replicas": {}}},
            }
        )

    return changed(observed, DEPLOYMENT, name, scale)


def rolled_out(observed: Observed, **counts: int) -> Observed:
    """The Deployment controller has seen everything; without counts every pod is ready and updated."""
    for kind, name in list(observed.objects):
        if kind == DEPLOYMENT:

            def report(live: dict[str, Any]) -> None:
                wanted = live["spec"]["replicas"]
                live["status"] = {
                    "observedGeneration": live["metadata"]["generation"],
                    **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), wanted),
                    **counts,
                }

            observed = changed(observed, kind, name, report)
    return observed


def changed(observed: Observed, kind: Kind, name: str, edit: Any) -> Observed:
    live = deepcopy(dict(observed.objects[kind, name]))
    edit(live)
    return replace(observed, objects={**observed.objects, (kind, name): live})


def with_object(observed: Observed, kind: Kind, name: str, **metadata: Any) -> Observed:
    live = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "llm", **metadata},
        "spec": {"template": {"spec": {"containers": []}}},
    }
    return replace(observed, objects={**observed.objects, (kind, name): live})


def a_pod(
    name: str = "chat-interactive-active-1",
    *,
    pool: str = "interactive",
    container: Mapping[str, Any] | None = None,
    conditions: Iterable[Mapping[str, Any]] = (),
    phase: str = "Running",
    since: str = EARLIER_TEXT,
    **metadata: Any,
) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase, "conditions": list(conditions), "startTime": since}
    if container is not None:
        status["containerStatuses"] = [{"name": "engine", "image": "example.test/engine:1", **container}]
    labels = {"specfleet.dev/deployment": "chat", "specfleet.dev/pool": pool}
    return {"metadata": {"name": name, "labels": labels, **metadata}, "status": status}


def with_pods(observed: Observed, *pods: Mapping[str, Any]) -> Observed:
    """The cluster with pods of its Deployment, unless their own labels say another thing."""
    labels = observed.objects[ACTIVE]["spec"]["template"]["metadata"]["labels"]

    def made(pod: Mapping[str, Any]) -> dict[str, Any]:
        return {**pod, "metadata": {**pod["metadata"], "labels": {**labels, **pod["metadata"]["labels"]}}}

    return replace(observed, pods=tuple(map(made, pods)))


def planned(resource: SpeculativeDeployment, observed: Observed, **configuration: Any) -> Plan:
    return plan(resource, a_configuration(**configuration), observed, NOON)


def running(resource: SpeculativeDeployment) -> Observed:
    """The cluster after the first plan of a resource."""
    nothing = an_empty_cluster()
    return after(planned(resource, nothing), nothing)


def keys(found: Plan) -> list[ObjectKey]:
    return [desired.key for desired in found.desired]


def body(found: Plan, key: ObjectKey) -> dict[str, Any]:
    (only,) = [
        desired.body
        for desired in found.desired
        if desired.key == key and desired.manager == RECONCILE_MANAGER
    ]
    return only


def reasons(found: Plan) -> list[str]:
    return [refusal.reason for refusal in found.refusals]
