"""Who owns the number of replicas (defilantech/LLMKube#484: two writers, 41 scale events in 14 minutes)."""

from dataclasses import replace

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    a_pool,
    a_resource,
    an_empty_cluster,
    body,
    planned,
    running,
    scaled_by,
)


def test_without_a_number_in_the_spec_none_is_applied() -> None:
    found = planned(a_resource({"name": "interactive"}), an_empty_cluster())

    assert "replicas" not in body(found, ACTIVE)["spec"]


@pytest.mark.fault("defilantech/LLMKube#484")
def test_a_number_that_an_autoscaler_owns_is_left_alone() -> None:
    resource = a_resource(a_pool(replicas=2))
    observed = scaled_by("kube-controller-manager", running(resource), ACTIVE[1], 5)

    assert planned(resource, observed).desired == ()
    assert "replicas" not in body(planned(resource, replace(observed, full=True)), ACTIVE)["spec"]


def test_handing_replicas_over_keeps_the_pods_until_the_autoscaler_has_taken_the_field() -> None:
    observed = running(a_resource(a_pool(replicas=4)))

    found = planned(a_resource({"name": "interactive"}), replace(observed, full=True))

    assert body(found, ACTIVE)["spec"]["replicas"] == 4


def test_kubectl_scale_hands_the_number_back_when_the_autoscaler_is_gone() -> None:
    resource = a_resource(a_pool(replicas=2))
    observed = scaled_by("kube-controller-manager", running(resource), ACTIVE[1], 5)

    observed = scaled_by("kubectl", observed, ACTIVE[1], 1)

    assert body(planned(resource, observed), ACTIVE)["spec"]["replicas"] == 2


def test_pods_that_an_autoscaler_added_count_as_wanted() -> None:
    resource = a_resource(a_pool(replicas=2))
    observed = scaled_by("kube-controller-manager", running(resource), ACTIVE[1], 5)

    (pool,) = planned(resource, observed).pools

    assert pool.replicas == 5
    assert pool.replicas_owner == "kube-controller-manager"
