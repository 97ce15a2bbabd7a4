"""Where a cluster has no room for a pod more, an update goes on all the same, and not for nothing."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.planning.builders import ACTIVE, a_pool, a_resource, an_empty_cluster, body, planned

FULL = "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1 nodes are available."
ELSEWHERE = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
REQUESTS = {"cpu": "1", "memory": "4Gi"}


def a_pod(
    revision: str, requests: dict[str, str], *, pool: str = "interactive", **fields: Any
) -> dict[str, Any]:
    labels = {"specfleet.dev/deployment": "chat", "specfleet.dev/pool": pool, "pod-template-hash": revision}
    container = {"name": "engine", "resources": {"requests": requests}}
    return {
        "metadata": {"name": f"chat-{revision}", "labels": labels},
        "spec": {"containers": [container], "nodeName": "node-1", **fields},
        "status": {"phase": "Running"},
    }


def a_waiting_pod(requests: dict[str, str], message: str = FULL, **fields: Any) -> dict[str, Any]:
    pod = a_pod("new", requests, nodeName=None, **fields)
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {**pod, "status": {"phase": "Pending", "conditions": [refused]}}


def strategy_with(*pods: dict[str, Any]) -> dict[str, int]:
    found = planned(a_resource(a_pool()), replace(an_empty_cluster(), pods=pods))
    strategy: dict[str, int] = body(found, ACTIVE)["spec"]["strategy"]["rollingUpdate"]
    return strategy


ONE_MORE, ONE_FEWER = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.fault("defilantech/LLMKube#192")
def test_where_no_node_takes_a_pod_more_an_old_one_goes_first() -> None:
    assert strategy_with(a_pod("old", REQUESTS), a_waiting_pod(REQUESTS)) == ONE_FEWER
    assert strategy_with(a_pod("old", REQUESTS), a_waiting_pod({"cpu": "500m", "memory": "4Gi"})) == ONE_FEWER


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(a_waiting_pod({"cpu": "1", "memory": "5Gi"}), id="asks for more than the old one has"),
        pytest.param(a_waiting_pod({**REQUESTS, "nvidia.com/gpu": "1"}), id="asks for what it has not"),
        pytest.param(a_waiting_pod(REQUESTS, ELSEWHERE), id="waits for another node"),
        pytest.param(
            a_waiting_pod(REQUESTS, nodeSelector={"zone": "b"}), id="may not go where the old one is"
        ),
        pytest.param(a_waiting_pod(REQUESTS, pool="batch"), id="is of another pool"),
    ],
)
def test_no_pod_goes_for_one_that_would_not_fit_in_its_place(waiting: dict[str, Any]) -> None:
    assert strategy_with(a_pod("old", REQUESTS), waiting) == ONE_MORE


def test_a_pool_that_cannot_grow_loses_nothing() -> None:
    assert strategy_with(a_pod("new", REQUESTS), a_waiting_pod(REQUESTS)) == ONE_MORE


def test_once_there_is_room_the_next_pod_comes_before_another_one_goes() -> None:
    assert strategy_with(a_pod("old", REQUESTS), a_pod("new", REQUESTS)) == ONE_MORE
