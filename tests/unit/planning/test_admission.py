"""What the operator's configuration or the engine forbids: nothing of such a pool is touched."""

from typing import Any

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    a_pool,
    a_resource,
    a_simulated_resource,
    an_empty_cluster,
    body,
    keys,
    planned,
    reasons,
    running,
    scaled_by,
)

from specfleet.api.kinds import DEPLOYMENT


def test_a_service_account_that_is_not_allowed_holds_only_its_pool() -> None:
    template = {"serviceAccountName": "admin"}
    resource = a_resource(a_pool("interactive", template=template), a_pool("batch"))

    found = planned(resource, an_empty_cluster(), allowedServiceAccounts=["inference"])

    assert not [name for _, name in keys(found) if name.startswith("chat-interactive")]
    assert (DEPLOYMENT, "chat-batch-active") in keys(found)
    (refusal,) = found.refusals
    assert refusal.reason == "ServiceAccountNotAllowed"
    assert "admin" in refusal.message
    assert "default, inference" in refusal.message


@pytest.mark.parametrize("account", ["", "default", "inference"])
def test_an_allowed_service_account_is_used(account: str) -> None:
    resource = a_resource(a_pool(template={"serviceAccountName": account}))

    found = planned(resource, an_empty_cluster(), allowedServiceAccounts=["inference"])

    assert found.refusals == ()
    assert body(found, ACTIVE)["spec"]["template"]["spec"].get("serviceAccountName", "") == account


@pytest.mark.fault("argoproj/argo-rollouts#2687")
def test_more_replicas_than_allowed_over_all_pools_change_nothing_at_all() -> None:
    resource = a_resource(a_pool("interactive", replicas=5), a_pool("batch", replicas=4))

    found = planned(resource, running(a_resource()), limits={"maxReplicas": 8})

    assert found.desired == ()
    assert reasons(found) == ["LimitExceeded"]
    assert "9 replicas" in found.refusals[0].message
    assert "8" in found.refusals[0].message


def test_as_many_replicas_and_gpus_as_allowed_are_fine() -> None:
    template = {"resources": {"limits": {"nvidia.com/gpu": 2}}}

    found = planned(
        a_resource(a_pool(replicas=4, template=template)),
        an_empty_cluster(),
        limits={"maxReplicas": 4, "maxGpus": 8},
    )

    assert found.refusals == ()


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({"limits": {"nvidia.com/gpu": "2"}}, id="whole-cards"),
        pytest.param({"limits": {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-2g.10gb": 1}}, id="parts"),
        pytest.param({"limits": {"amd.com/gpu": 2}, "requests": {"amd.com/gpu": 2}}, id="limit-and-request"),
        pytest.param({"requests": {"gpu.intel.com/i915": "2000m"}}, id="milli"),
    ],
)
def test_gpus_of_every_vendor_count_once(resources: dict[str, Any]) -> None:
    resource = a_resource(a_pool(replicas=4, template={"resources": resources}))

    found = planned(resource, an_empty_cluster(), limits={"maxGpus": 7})

    assert "8 GPUs" in found.refusals[0].message


def test_memory_of_gpus_and_cpus_are_no_gpus() -> None:
    resources = {"limits": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpumem": "24000"}}
    resource = a_resource(a_pool(template={"resources": resources}))

    assert planned(resource, an_empty_cluster(), limits={"maxGpus": 0}).refusals == ()


def test_what_an_autoscaler_has_set_counts_against_the_ceiling() -> None:
    resource = a_resource({"name": "interactive"})
    observed = scaled_by("keda-operator", running(resource), ACTIVE[1], 9)

    assert reasons(planned(resource, observed, limits={"maxReplicas": 8})) == ["LimitExceeded"]


def test_an_unknown_metrics_source_is_told_and_pods_serve_nevertheless() -> None:
    resource = a_resource(tuning={"metricsSource": "thanos"})

    found = planned(resource, an_empty_cluster())

    assert ACTIVE in keys(found)
    assert reasons(found) == ["UnknownMetricsSource"]
    assert "thanos" in found.refusals[0].message
    assert "default" in found.refusals[0].message


def test_a_refusal_of_the_engine_holds_every_pool() -> None:
    resource = a_simulated_resource(engine={"type": "simulated", "extraArgs": ["--max-num=4"]})

    found = planned(resource, an_empty_cluster())

    assert found.desired == ()
    assert reasons(found) == ["OwnedFlag"]
