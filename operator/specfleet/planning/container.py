"""The engine's container: what its adapter asks for, the user's settings, and what every container must have.

Source: design/contracts.md, reference/kopf-and-kubernetes.md section 8.
"""

import math
from dataclasses import replace
from typing import Any

from specfleet.api.owned import (
    SCHEDULE_PATH,
    SCHEDULE_VOLUME,
    SCRATCH_PATH,
    SCRATCH_VOLUME,
    SHARED_MEMORY_PATH,
    SHARED_MEMORY_VOLUME,
)
from specfleet.api.resource import PodSettings
from specfleet.engines.engine import Probe
from specfleet.planning import model_source, names
from specfleet.planning.manifest import written
from specfleet.planning.pool_design import PoolDesign

CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def engine_container(design: PoolDesign) -> dict[str, Any]:
    """Render the container that serves."""
    runtime = design.runtime
    probes = runtime.probes
    container: dict[str, Any] = {
        "name": names.ENGINE_CONTAINER,
        "image": design.image,
        "command": list(runtime.command),
        "args": list(design.arguments),
        "ports": [
            {"name": port.name, "containerPort": port.number, "protocol": "TCP"} for port in runtime.ports
        ],
        "startupProbe": _probe(_patient(probes.startup, design.start_seconds), runtime.ports[0].name),
        "livenessProbe": _probe(probes.liveness, runtime.ports[0].name),
        "readinessProbe": _probe(probes.readiness, runtime.ports[0].name),
        # The pod leaves its Services while this sleep runs; only then is the engine told to stop.
        "lifecycle": {"preStop": {"sleep": {"seconds": design.engine.timing.pre_stop}}},
        # An engine that cannot start says why in its last line; the condition Degraded quotes it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": written(CONTAINER_SECURITY),
        "volumeMounts": [*written(design.pool.template.volume_mounts), *_own_mounts(design)],
    }
    if env := _environment(design):
        container["env"] = env
    if resources := {
        field: value for field, value in written(design.pool.template.resources).items() if value
    }:
        container["resources"] = resources
    return container


def _patient(probe: Probe, seconds: int) -> Probe:
    """Let a probe fail for so long."""
    return replace(probe, failures=math.ceil(seconds / probe.period))


def _probe(probe: Probe, port: str) -> dict[str, Any]:
    action = (
        {"exec": {"command": list(probe.command)}}
        if probe.command
        else {"httpGet": {"path": probe.path, "port": port}}
    )
    return {
        **action,
        "periodSeconds": probe.period,
        "timeoutSeconds": probe.timeout,
        "failureThreshold": probe.failures,
    }


def _environment(design: PoolDesign) -> list[dict[str, Any]]:
    """The user's variables, after ours that they do not set: a name may be there once only."""
    given = written(design.resource.spec.engine.env)
    set_by_user = {entry["name"] for entry in given}
    # What is fetched is fetched before: an engine that asks the hub again would find newer files, or wait.
    offline = (("HF_HUB_OFFLINE", "1"),) if design.downloads else ()
    own = [
        {"name": name, "value": value}
        for name, value in (*design.runtime.environment, *offline)
        if name not in set_by_user
    ]
    return [*own, *given]


def has_own_shared_memory(template: PodSettings) -> bool:
    """Say whether the user mounts something at /dev/shm: then that is it."""
    return any(mount.mount_path == SHARED_MEMORY_PATH for mount in template.volume_mounts)


def _own_mounts(design: PoolDesign) -> list[dict[str, Any]]:
    runtime = design.runtime
    mounts: list[dict[str, Any]] = [
        # A directory, never subPath: the kubelet does not refresh that.
        {"name": SCHEDULE_VOLUME, "mountPath": SCHEDULE_PATH, "readOnly": True},
        {"name": SCRATCH_VOLUME, "mountPath": SCRATCH_PATH},
        *(
            {"name": mount.volume, "mountPath": mount.path, "readOnly": True}
            for mount in model_source.source_mounts(design.resource.spec)
        ),
    ]
    if runtime.plugin is not None:
        mounts.append({"name": runtime.plugin.volume, "mountPath": runtime.plugin.path, "readOnly": True})
    if runtime.shared_memory_mib is not None and not has_own_shared_memory(design.pool.template):
        mounts.append({"name": SHARED_MEMORY_VOLUME, "mountPath": SHARED_MEMORY_PATH})
    return mounts
