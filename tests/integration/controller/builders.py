"""What tests of the controller put into a cluster: keyword builders with sane defaults."""

from typing import Any

from specfleet.api.configuration import Configuration
from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT, Object


def a_configuration(**changes: Any) -> Configuration:
    return Configuration.model_validate(
        {
            "images": {"builtin": "builtin:1", "simulated": "simulated:1"},
            "metricsSources": {"default": {"url": "http://prometheus.invalid"}},
            "healthPort": 0,
            **changes,
        }
    )


def a_resource(
    name: str = "chat", *, namespace: str = "llm", pools: tuple[str, ...] = ("main",), **spec: Any
) -> Object:
    replicas = spec.pop("replicas", 2)
    return {
        "apiVersion": SPECULATIVE_DEPLOYMENT.api_version,
        "kind": SPECULATIVE_DEPLOYMENT.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "engine": {"type": "simulated"},
            "speculation": {"method": "ngram", "depth": {"initial": 2, "max": 5}},
            "pools": [{"name": pool, "replicas": replicas} for pool in pools],
            **spec,
        },
    }
