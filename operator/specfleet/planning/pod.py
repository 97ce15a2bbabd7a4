"""The pod template of a slice. It depends on the resource alone: whatever else changed would roll pods.

User settings come first, the restricted security context and specfleet's own labels last.
Source: design/contracts.md, reference/kopf-and-kubernetes.md section 8.
"""

from typing import Any

from specfleet.api.owned import SCHEDULE_PATH, SCHEDULE_VOLUME, SCRATCH_PATH, SCRATCH_VOLUME
from specfleet.engines.flags import HTTP_PORT
from specfleet.planning import model_source, names
from specfleet.planning.manifest import written
from specfleet.planning.pool_design import PoolDesign

PORT_NAME = "http"

_CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def pod_template(design: PoolDesign) -> dict[str, Any]:
    """Render the template of one slice's pods."""
    template = design.pool.template
    labels = {
        **template.labels,
        **names.labels(design.resource.name, design.pool.name, names.ACTIVE),
        names.FINGERPRINT_LABEL: design.fingerprint,
    }
    metadata: dict[str, Any] = {"labels": labels}
    if template.annotations:
        metadata["annotations"] = written(template.annotations)
    return {
        "metadata": metadata,
        "spec": {
            **_placement(design),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": design.engine.timing.grace,
            "securityContext": written(_POD_SECURITY),
            "containers": [_container(design)],
            "volumes": [*written(template.volumes), *_own_volumes(design)],
        },
    }


def _placement(design: PoolDesign) -> dict[str, Any]:
    """Who runs the pod and where. What the user left out is left out here too."""
    template = design.pool.template
    counted = names.selector(design.resource.name, design.pool.name)
    fields = {
        "nodeSelector": written(template.node_selector),
        "tolerations": written(template.tolerations),
        "affinity": written(template.affinity),
        "topologySpreadConstraints": [
            {**written(spread), "labelSelector": {"matchLabels": counted}}
            for spread in template.topology_spread_constraints
        ],
        "priorityClassName": template.priority_class_name,
        "imagePullSecrets": [{"name": name} for name in template.image_pull_secrets],
        "serviceAccountName": template.service_account_name,
    }
    return {field: value for field, value in fields.items() if value}


def _container(design: PoolDesign) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": names.ENGINE_CONTAINER,
        "image": design.image,
        "command": ["python", "-m", design.engine.module],
        "args": list(design.arguments),
        "ports": [{"name": PORT_NAME, "containerPort": HTTP_PORT, "protocol": "TCP"}],
        **_probes(design),
        # The pod leaves its Services while this sleep runs; only then is the engine told to stop.
        "lifecycle": {"preStop": {"sleep": {"seconds": design.engine.timing.pre_stop}}},
        # An engine that cannot start says why in its last line; the condition Degraded quotes it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": written(_CONTAINER_SECURITY),
        "volumeMounts": [*written(design.pool.template.volume_mounts), *_own_mounts(design)],
    }
    if env := written(design.resource.spec.engine.env):
        container["env"] = env
    if resources := {
        field: value for field, value in written(design.pool.template.resources).items() if value
    }:
        container["resources"] = resources
    return container


def _probes(design: PoolDesign) -> dict[str, Any]:
    """Start-up has the engine's whole budget; liveness begins only after it (vllm-project/aibrix#772).

    Liveness gives up after a minute: one long step on a busy node must not kill a pod.
    """
    period = 5
    return {
        "startupProbe": {
            **_get("/health"),
            "periodSeconds": period,
            "timeoutSeconds": 5,
            "failureThreshold": design.engine.timing.startup // period,
        },
        "livenessProbe": {**_get("/health"), "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {**_get("/ready"), "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 2},
    }


def _get(path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": PORT_NAME}}


def _own_volumes(design: PoolDesign) -> list[dict[str, Any]]:
    return [
        {"name": SCHEDULE_VOLUME, "configMap": {"name": design.schedule}},
        {"name": SCRATCH_VOLUME, "emptyDir": {}},
        *(
            {"name": mount.volume, "persistentVolumeClaim": {"claimName": mount.claim, "readOnly": True}}
            for mount in model_source.claim_mounts(design.resource.spec)
        ),
    ]


def _own_mounts(design: PoolDesign) -> list[dict[str, Any]]:
    return [
        # A directory, never subPath: the kubelet does not refresh that.
        {"name": SCHEDULE_VOLUME, "mountPath": SCHEDULE_PATH, "readOnly": True},
        {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH},
        *(
            {"name": mount.volume, "mountPath": mount.path, "readOnly": True}
            for mount in model_source.claim_mounts(design.resource.spec)
        ),
    ]
