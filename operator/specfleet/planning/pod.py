"""The pod template of a slice. It depends on the resource alone: whatever else changed would roll pods.

The one exception is meant: an engine that reads its table of depths at start is rolled for another table.

User settings come first, the restricted security context and specfleet's own labels last.
Source: design/contracts.md, reference/kopf-and-kubernetes.md section 8.
"""

from collections.abc import Iterator
from typing import Any

from specfleet.api.owned import SCHEDULE_VOLUME, SCRATCH_VOLUME, SHARED_MEMORY_VOLUME
from specfleet.engines.engine import Plugin
from specfleet.planning import model_source, names
from specfleet.planning.container import CONTAINER_SECURITY, engine_container, has_own_shared_memory
from specfleet.planning.download import download_containers
from specfleet.planning.manifest import written
from specfleet.planning.pool_design import PoolDesign
from specfleet.planning.preflight import preflight_container
from specfleet.planning.start_table import table_annotation

GROUP_ID = 65532
_SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}
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
    if annotations := written(template.annotations) | table_annotation(design.table):
        metadata["annotations"] = annotations
    return {
        "metadata": metadata,
        "spec": {
            **_placement(design),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": design.engine.timing.grace,
            "securityContext": _security(design),
            **({"initContainers": found} if (found := list(_init_containers(design))) else {}),
            "containers": [engine_container(design)],
            "volumes": [*written(template.volumes), *_own_volumes(design)],
        },
    }


def _security(design: PoolDesign) -> dict[str, Any]:
    security: dict[str, Any] = written(_POD_SECURITY)
    if (user := design.runtime.run_as_user) is not None:
        security["runAsUser"] = user
    if design.downloads and design.resource.spec.model.cache_claim is not None:
        # A fresh claim belongs to root. Only its top is looked at: it may hold terabytes.
        security |= {"fsGroup": GROUP_ID, "fsGroupChangePolicy": "OnRootMismatch"}
    return security


def _init_containers(design: PoolDesign) -> Iterator[dict[str, Any]]:
    """What must have run before the engine starts, in this order."""
    yield from download_containers(design)
    if model_source.is_checked(design.resource.spec):
        yield preflight_container(design)
    if (plugin := design.runtime.plugin) is not None:
        yield _plugin_container(plugin, design.images[plugin.container])


def _plugin_container(plugin: Plugin, image: str) -> dict[str, Any]:
    return {
        "name": plugin.container,
        "image": image,
        # The image's own entry point copies what it holds into that folder.
        "args": [plugin.path],
        "resources": written(_SMALL),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": written(CONTAINER_SECURITY),
        "volumeMounts": [{"name": plugin.volume, "mountPath": plugin.path}],
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


def _own_volumes(design: PoolDesign) -> list[dict[str, Any]]:
    runtime = design.runtime
    return [
        {"name": SCHEDULE_VOLUME, "configMap": {"name": design.schedule}},
        {"name": SCRATCH_VOLUME, "emptyDir": {}},
        *(
            {"name": mount.volume, **written(mount.source)}
            for mount in model_source.source_mounts(design.resource.spec)
        ),
        *([] if runtime.plugin is None else [{"name": runtime.plugin.volume, "emptyDir": {}}]),
        *(
            []
            if runtime.shared_memory_mib is None or has_own_shared_memory(design.pool.template)
            else [_in_memory(SHARED_MEMORY_VOLUME, runtime.shared_memory_mib)]
        ),
    ]


def _in_memory(name: str, mib: int) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": f"{mib}Mi"}}
