"""Whole resources, one of each kind, whose rendering is kept as golden files."""

from typing import Any

from tests.unit.planning.builders import a_pool, a_resource, a_simulated_resource

from specfleet.api.resource import SpeculativeDeployment

# Every field of every model, so that a field which is dropped is seen.
FULL_TEMPLATE: dict[str, Any] = {
    "resources": {
        "limits": {"nvidia.com/gpu": 1, "memory": "24Gi"},
        "requests": {"cpu": "4", "memory": "16Gi"},
    },
    "nodeSelector": {"gpu": "l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "priorityClassName": "serving",
    "imagePullSecrets": ["registry"],
    "serviceAccountName": "inference",
    "volumes": [
        {"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        {"name": "templates", "configMap": {"name": "chat-templates"}},
        {"name": "keys", "secret": {"secretName": "engine-keys"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
    ],
    "volumeMounts": [
        {"name": "cache", "mountPath": "/cache"},
        {"name": "templates", "mountPath": "/templates", "readOnly": True},
        {"name": "data", "mountPath": "/data", "subPath": "chat"},
    ],
    "labels": {"team": "search"},
    "annotations": {"example.test/owner": "search"},
}


def builtin_full() -> SpeculativeDeployment:
    return a_resource(
        a_pool("interactive", replicas=3, template=FULL_TEMPLATE),
        model={"uri": "pvc://weights/smollm2", "servedName": "smollm2"},
        engine={
            "type": "builtin",
            "image": "example.test/engine:pinned",
            "dtype": "float32",
            "maxModelLen": 4096,
            "maxNumSeqs": 32,
            "extraArgs": ["--threads", "4"],
            "env": [
                {"name": "MODE", "value": "fast"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                {"name": "TUNE", "valueFrom": {"configMapKeyRef": {"name": "tune", "key": "level"}}},
            ],
        },
        speculation={
            "method": "ngram",
            "depth": {"initial": 1, "max": 8},
            "ngram": {"minMatch": 3, "maxMatch": 6},
        },
    )


def simulated_full() -> SpeculativeDeployment:
    return a_simulated_resource(
        a_pool("interactive", replicas=2),
        {"name": "batch"},
        engine={
            "type": "simulated",
            "simulated": {
                "repetitiveAcceptancePercent": 90,
                "freeAcceptancePercent": 20,
                "stepTime": "12ms",
                "kneeTokens": 48,
                "kvCacheTokens": 8192,
            },
        },
        tuning={"schedule": [{"maxRequests": 8, "depth": 4}, {"depth": 0}]},
    )


def builtin_drafter() -> SpeculativeDeployment:
    return a_resource(
        a_pool("interactive", template={"resources": {"limits": {"memory": "8Gi"}}}),
        model={"uri": "pvc://weights/llama"},
        engine={"type": "builtin", "kvCacheMib": 2048},
        speculation={"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle3"}},
    )


def vllm_drafter() -> SpeculativeDeployment:
    return a_resource(
        a_pool("interactive", template={"resources": {"limits": {"nvidia.com/gpu": 2}}}),
        model={"uri": "pvc://weights/llama"},
        engine={
            "type": "vllm",
            "version": "0.32.0",
            "quantization": "fp8",
            "tensorParallelSize": 2,
            "kvCacheMib": 8192,
        },
        speculation={"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle3"}},
    )


def vllm_hub() -> SpeculativeDeployment:
    return a_resource(
        a_pool("interactive", template={"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}),
        model={
            "uri": "hf://meta-llama/Llama-3.1-8B-Instruct",
            "revision": "0e9e39f249a16976918f6564b8830bc894c89659",
            "credentialsSecret": "hf-token",
            "cacheClaim": "models",
        },
        engine={"type": "vllm"},
        speculation={
            "method": "eagle3",
            "proposer": {"uri": "hf://org/head", "revision": "1e2a3b4", "credentialsSecret": "head-token"},
        },
    )


def sglang_drafter() -> SpeculativeDeployment:
    return a_resource(
        a_pool("interactive", template={"resources": {"limits": {"nvidia.com/gpu": 1}}}),
        model={"uri": "pvc://weights/llama"},
        engine={"type": "sglang"},
        speculation={"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle3"}},
        tuning={"schedule": [{"maxRequests": 8, "depth": 4}, {"depth": 0}]},
    )


RESOURCES = {
    "builtin-drafter": builtin_drafter(),
    "builtin-full": builtin_full(),
    "builtin-small": a_resource(),
    "simulated": simulated_full(),
    "sglang-drafter": sglang_drafter(),
    "vllm-drafter": vllm_drafter(),
    "vllm-hub": vllm_hub(),
}
