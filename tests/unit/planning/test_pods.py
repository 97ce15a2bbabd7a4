"""What every pod must have, whatever the user wrote. Source: design/contracts.md; reference section 8."""

from typing import Any

import pytest
from tests.unit.planning.builders import (
    NOON,
    a_configuration,
    a_pool,
    a_resource,
    a_simulated_resource,
    an_empty_cluster,
)

from specfleet.api.kinds import DEPLOYMENT
from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.plan import plan


def deployment_of(resource: SpeculativeDeployment) -> dict[str, Any]:
    planned = plan(resource, a_configuration(), an_empty_cluster(), NOON)
    (body,) = [desired.body for desired in planned.desired if desired.kind == DEPLOYMENT]
    return body


def pod_of(resource: SpeculativeDeployment) -> dict[str, Any]:
    spec: dict[str, Any] = deployment_of(resource)["spec"]["template"]["spec"]
    return spec


def container_of(resource: SpeculativeDeployment) -> dict[str, Any]:
    (container,) = pod_of(resource)["containers"]
    return dict(container)


def value_of(flag: str, container: dict[str, Any]) -> str:
    arguments: list[str] = container["args"]
    return arguments[arguments.index(flag) + 1]


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    pod, container = pod_of(a_resource()), container_of(a_resource())

    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False


def test_a_read_only_root_comes_with_a_place_for_temporary_files() -> None:
    assert {"name": "tmp", "emptyDir": {}} in pod_of(a_resource())["volumes"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container_of(a_resource())["volumeMounts"]


def test_the_schedule_is_mounted_as_a_directory_so_that_the_kubelet_refreshes_it() -> None:
    container = container_of(a_resource())

    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "schedule"]

    assert mount == {"name": "schedule", "mountPath": "/etc/specfleet/schedule", "readOnly": True}
    assert "/etc/specfleet/schedule/schedule.json" in container["args"]


def test_a_claim_with_the_model_is_mounted_read_only_and_named_to_the_engine() -> None:
    resource = a_resource(model={"uri": "pvc://weights/smollm2/v1"})

    container = container_of(resource)

    assert {"name": "model", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}} in pod_of(
        resource
    )["volumes"]
    assert {"name": "model", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]
    assert container["args"][:2] == ["--model", "/models/smollm2/v1"]


def test_a_claim_with_the_proposer_is_mounted_beside_the_model_and_named_to_the_engine() -> None:
    resource = a_resource(
        model={"uri": "pvc://weights/llama"},
        speculation={"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle3/v1"}},
    )

    container = container_of(resource)

    assert pod_of(resource)["volumes"][-2:] == [
        {"name": "model", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}},
        {"name": "proposer", "persistentVolumeClaim": {"claimName": "heads", "readOnly": True}},
    ]
    assert {"name": "proposer", "mountPath": "/proposer", "readOnly": True} in container["volumeMounts"]
    assert value_of("--model", container) == "/models/llama"
    assert value_of("--proposer", container) == "/proposer/eagle3/v1"


def test_a_claim_with_both_model_and_proposer_is_mounted_once() -> None:
    resource = a_resource(
        model={"uri": "pvc://weights/llama"},
        speculation={"method": "draftModel", "proposer": {"uri": "pvc://weights/llama-small"}},
    )

    assert [volume["name"] for volume in pod_of(resource)["volumes"]] == ["schedule", "tmp", "model"]
    assert value_of("--proposer", container_of(resource)) == "/models/llama-small"


@pytest.mark.parametrize("model", ["file:///models/llama", "pvc://weights/llama"])
def test_a_proposer_of_the_image_needs_no_volume(model: str) -> None:
    resource = a_resource(
        model={"uri": model},
        speculation={"method": "medusa", "proposer": {"uri": "file:///models/medusa"}},
    )

    assert "proposer" not in [volume["name"] for volume in pod_of(resource)["volumes"]]
    assert value_of("--proposer", container_of(resource)) == "/models/medusa"


def test_a_model_of_the_image_needs_no_volume() -> None:
    assert [volume["name"] for volume in pod_of(a_resource())["volumes"]] == ["schedule", "tmp"]


def test_the_users_volumes_stand_beside_ours() -> None:
    template = {
        "volumes": [{"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }
    resource = a_resource(a_pool(template=template))

    assert [volume["name"] for volume in pod_of(resource)["volumes"]] == ["cache", "schedule", "tmp"]
    assert container_of(resource)["volumeMounts"][0]["mountPath"] == "/cache"


def test_liveness_waits_for_the_start_up_probe_which_has_the_whole_budget() -> None:
    container = container_of(a_resource())

    startup = container["startupProbe"]

    # Five minutes, and 80 GiB at 125 MiB/s.
    assert startup["periodSeconds"] * startup["failureThreshold"] == 960
    assert startup["httpGet"] == {"path": "/health", "port": "http"}
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert "initialDelaySeconds" not in container["livenessProbe"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"


@pytest.mark.parametrize("resource", [a_resource(), a_simulated_resource()], ids=["builtin", "simulated"])
def test_a_pod_leaves_its_services_before_it_drains_and_is_killed_only_after_both(
    resource: SpeculativeDeployment,
) -> None:
    container = container_of(resource)
    drain = int(container["args"][container["args"].index("--drain-seconds") + 1])
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert sleep > 0
    assert pod_of(resource)["terminationGracePeriodSeconds"] > sleep + drain


@pytest.mark.fault("defilantech/LLMKube#192")
@pytest.mark.parametrize("replicas", [1, 4])
def test_with_gpus_the_old_pod_goes_first_since_it_holds_the_card(replicas: int) -> None:
    template = {"resources": {"limits": {"nvidia.com/gpu": 1}}}

    body = deployment_of(a_resource(a_pool(replicas=replicas, template=template)))

    assert body["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize("replicas", [1, 4])
def test_without_gpus_no_pod_is_missing_during_an_update(replicas: int) -> None:
    body = deployment_of(a_resource(a_pool(replicas=replicas)))

    assert body["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_rollout_is_called_stuck_only_after_the_start_up_budget() -> None:
    assert deployment_of(a_resource())["spec"]["progressDeadlineSeconds"] > 960


def test_a_spread_counts_the_pods_of_its_own_pool() -> None:
    spread = {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    resource = a_resource(a_pool(template={"topologySpreadConstraints": [spread]}))

    (written,) = pod_of(resource)["topologySpreadConstraints"]

    assert written == {
        **spread,
        "maxSkew": 1,
        "labelSelector": {
            "matchLabels": {"specfleet.dev/deployment": "chat", "specfleet.dev/pool": "interactive"}
        },
    }


def test_secrets_reach_the_engine_by_reference() -> None:
    env = [
        {"name": "MODE", "value": "fast"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
    ]

    assert container_of(a_resource(engine={"type": "builtin", "env": env}))["env"] == env


def test_extra_arguments_come_last() -> None:
    resource = a_resource(engine={"type": "builtin", "extraArgs": ["--threads", "2"]})

    assert container_of(resource)["args"][-2:] == ["--threads", "2"]
