"""An accepted field has an effect: each one changes an object, or somebody else is named who reads it."""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import pytest
from pydantic import BaseModel
from tests.unit.planning.builders import NOON, a_configuration, an_empty_cluster
from tests.unit.planning.resources import RESOURCES

from specfleet.api.resource import Spec, SpeculativeDeployment
from specfleet.planning.plan import plan

# Read elsewhere: prefix of the path -> who reads it.
ELSEWHERE = {
    "objectives": "tuning",
    "pools.objectives": "tuning",
    "tuning.mode": "tuning",
    "tuning.paused": "tuning",
    "tuning.metricsSource": "tuning; an unknown one is told by planning",
    "tuning.maxPushesPerHour": "tuning",
    "pools.tuning.mode": "tuning",
    "pools.tuning.paused": "tuning",
    "pools.tuning.maxPushesPerHour": "tuning",
}

# Path -> another value, for the golden resource that has the field set.
OTHER_VALUES: dict[str, tuple[str, Any]] = {
    "model.uri": ("builtin-full", "pvc://weights/other"),
    "model.servedName": ("builtin-full", "other"),
    "model.revision": ("vllm-hub", "5f0b02c75b57c5855da9ae460ce51323ea669d8a"),
    "model.credentialsSecret": ("vllm-hub", "other"),
    "model.cacheClaim": ("vllm-hub", "other"),
    "engine.type": ("builtin-small", "simulated"),
    "engine.image": ("builtin-full", "example.test/other:1"),
    "engine.dtype": ("builtin-full", "bfloat16"),
    "engine.version": ("vllm-drafter", "0.33.0"),
    "engine.quantization": ("vllm-drafter", "awq"),
    "engine.tensorParallelSize": ("vllm-drafter", 1),
    "engine.maxModelLen": ("builtin-full", 1024),
    "engine.maxNumSeqs": ("builtin-full", 8),
    "engine.kvCacheMib": ("builtin-drafter", 512),
    "engine.extraArgs": ("builtin-full", ["--threads", "8"]),
    "engine.env.name": ("builtin-full", "OTHER"),
    "engine.env.value": ("builtin-full", "slow"),
    "engine.env.valueFrom.secretKeyRef.name": ("builtin-full", "other"),
    "engine.env.valueFrom.secretKeyRef.key": ("builtin-full", "other"),
    "engine.env.valueFrom.configMapKeyRef.name": ("builtin-full", "other"),
    "engine.env.valueFrom.configMapKeyRef.key": ("builtin-full", "other"),
    "engine.simulated.repetitiveAcceptancePercent": ("simulated", 70),
    "engine.simulated.freeAcceptancePercent": ("simulated", 10),
    "engine.simulated.stepTime": ("simulated", "13ms"),
    "engine.simulated.kneeTokens": ("simulated", 64),
    "engine.simulated.kvCacheTokens": ("simulated", 4096),
    "speculation.method": ("builtin-small", "none"),
    "speculation.proposer.uri": ("builtin-drafter", "pvc://heads/other"),
    "speculation.proposer.revision": ("vllm-hub", "7654321"),
    "speculation.proposer.credentialsSecret": ("vllm-hub", "other"),
    "speculation.depth.initial": ("builtin-full", 2),
    "speculation.depth.max": ("builtin-full", 9),
    "speculation.ngram.minMatch": ("builtin-full", 2),
    "speculation.ngram.maxMatch": ("builtin-full", 7),
    "tuning.schedule.maxRequests": ("simulated", 9),
    "tuning.schedule.depth": ("simulated", 3),
    "pools.name": ("builtin-full", "other"),
    "pools.replicas": ("builtin-full", 4),
    "pools.tuning.schedule.maxRequests": ("pinned", 9),
    "pools.tuning.schedule.depth": ("pinned", 3),
    "pools.template.resources.limits": ("builtin-full", {"nvidia.com/gpu": 2}),
    "pools.template.resources.requests": ("builtin-full", {"cpu": "5"}),
    "pools.template.nodeSelector": ("builtin-full", {"gpu": "h100"}),
    "pools.template.tolerations.key": ("builtin-full", "other"),
    "pools.template.tolerations.operator": ("builtin-full", "Equal"),
    "pools.template.tolerations.value": ("tolerant", "other"),
    "pools.template.tolerations.effect": ("builtin-full", "NoExecute"),
    "pools.template.tolerations.tolerationSeconds": ("tolerant", 61),
    "pools.template.affinity": ("builtin-full", {}),
    "pools.template.topologySpreadConstraints.topologyKey": ("builtin-full", "kubernetes.io/hostname"),
    "pools.template.topologySpreadConstraints.maxSkew": ("builtin-full", 3),
    "pools.template.topologySpreadConstraints.whenUnsatisfiable": ("builtin-full", "DoNotSchedule"),
    "pools.template.priorityClassName": ("builtin-full", "other"),
    "pools.template.imagePullSecrets": ("builtin-full", ["other"]),
    "pools.template.serviceAccountName": ("builtin-full", "default"),
    "pools.template.volumes.name": ("unmounted", "other"),
    "pools.template.volumes.emptyDir.medium": ("builtin-full", ""),
    "pools.template.volumes.emptyDir.sizeLimit": ("builtin-full", "2Gi"),
    "pools.template.volumes.configMap.name": ("builtin-full", "other"),
    "pools.template.volumes.secret.secretName": ("builtin-full", "other"),
    "pools.template.volumes.persistentVolumeClaim.claimName": ("builtin-full", "other"),
    "pools.template.volumes.persistentVolumeClaim.readOnly": ("builtin-full", False),
    "pools.template.volumeMounts.name": ("builtin-full", "keys"),
    "pools.template.volumeMounts.mountPath": ("builtin-full", "/elsewhere"),
    "pools.template.volumeMounts.readOnly": ("builtin-full", False),
    "pools.template.volumeMounts.subPath": ("builtin-full", "other"),
    "pools.template.labels": ("builtin-full", {"team": "other"}),
    "pools.template.annotations": ("builtin-full", {"example.test/owner": "other"}),
}


def paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Name every leaf field, as users write it."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        inner = next(_models(field.annotation), None)
        yield from [path] if inner is None else paths(inner, f"{path}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not None and get_origin(annotation) is not dict:
        for part in get_args(annotation):
            yield from _models(part)


def read_elsewhere(path: str) -> bool:
    return any(path == prefix or path.startswith(f"{prefix}.") for prefix in ELSEWHERE)


def rendered(resource: SpeculativeDeployment) -> list[Any]:
    configuration = a_configuration(allowedServiceAccounts=["inference"])
    found = plan(resource, configuration, an_empty_cluster(), NOON)
    assert found.refusals == ()
    return [desired.body for desired in found.desired]


def base(name: str) -> dict[str, Any]:
    """A resource as a user would write it, with the parts that the golden ones do not have."""
    golden = RESOURCES[name if name in RESOURCES else "builtin-full"]
    written = golden.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    pool = written["spec"]["pools"][0]
    if name == "pinned":
        pool["tuning"] = {"schedule": [{"maxRequests": 8, "depth": 4}, {"depth": 0}]}
    if name == "tolerant":
        pool["template"]["tolerations"] = [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60}
        ]
    if name == "unmounted":
        pool["template"]["volumeMounts"] = []
    return written


def put(written: Any, path: list[str], value: Any) -> bool:
    """Set the first place that has the path; say whether there was one."""
    if isinstance(written, list):
        return any(put(item, path, value) for item in written)
    if not isinstance(written, dict) or path[0] not in written:
        return False
    if len(path) == 1:
        written[path[0]] = value
        return True
    return put(written[path[0]], path[1:], value)


def test_every_field_is_covered_here_or_read_elsewhere() -> None:
    assert {path for path in paths(Spec) if not read_elsewhere(path)} == set(OTHER_VALUES)


@pytest.mark.parametrize("path", OTHER_VALUES)
def test_a_field_changes_what_is_rendered(path: str) -> None:
    name, value = OTHER_VALUES[path]
    before, written = base(name), base(name)
    assert put(written["spec"], path.split("."), value)
    if path == "engine.type":
        written["spec"]["model"] = {}

    changed = rendered(SpeculativeDeployment.model_validate(written))

    assert changed != rendered(SpeculativeDeployment.model_validate(before))
