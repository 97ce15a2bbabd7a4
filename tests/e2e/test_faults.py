"""What breaks around a fleet that serves: the metrics are away, a name is taken."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.e2e.support import (
    Kube,
    Release,
    Users,
    complete,
    condition,
    engine_pods,
    identities,
    pool_status,
    schedule_version,
    simulated,
    wait_for,
    wait_ready,
)

pytestmark = pytest.mark.timeout(600)

OUTAGE_SECONDS = 60.0  # issue 3: Prometheus cut off for a minute under load


def document(kube: Kube, namespace: str, name: str) -> dict[str, Any]:
    config_map = kube.get("configmap", namespace, f"{name}-main-active-schedule")
    assert config_map is not None
    return dict(json.loads(config_map["data"]["schedule.json"]))


def metrics_available(kube: Kube, namespace: str, name: str, status: str) -> Callable[[], Any]:
    def read() -> Any:
        found = condition(kube.get("specdep", namespace, name) or {}, "MetricsAvailable")
        return found if found.get("status") == status else None

    return read


@pytest.mark.alone
def test_without_prometheus_schedule_and_pods_stay_and_the_status_says_why(
    kube: Kube, release: Release, namespace: str
) -> None:
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")
    pods = engine_pods(kube, namespace, "chat")

    with Users(kube, [(namespace, "chat")]) as users:
        wait_for("figures are measured", metrics_available(kube, namespace, "chat", "True"), seconds=90)
        started = time.monotonic()
        release.scale("prometheus", 0)
        try:
            fault = wait_for(
                "the status says that metrics are away",
                metrics_available(kube, namespace, "chat", "False"),
                seconds=60,
            )
            # A probe that ran when the metrics went ends by itself; after that nothing may move.
            wait_for("no probe runs", lambda: "probe" not in pool_status(kube, namespace, "chat"), seconds=60)
            kept = document(kube, namespace, "chat")
            completed = users.completed
            while time.monotonic() < started + OUTAGE_SECONDS:
                assert document(kube, namespace, "chat") == kept
                time.sleep(3)
            assert users.completed > completed
        finally:
            release.scale("prometheus", 1)
        version = schedule_version(kube.metrics(namespace, pods[0]["metadata"]["name"]))
        release.rolled_out("prometheus")
        wait_for(
            "figures are measured again", metrics_available(kube, namespace, "chat", "True"), seconds=120
        )

    assert version == kept["version"]
    assert fault["reason"] and fault["message"]
    assert "http" not in fault["message"]
    assert users.failures == []
    assert identities(engine_pods(kube, namespace, "chat")) == identities(pods)


# By the fleet whose child has that name.
TAKEN: Mapping[str, Mapping[str, Any]] = {
    "shared": {"kind": "Service", "metadata": {"name": "shared"}, "spec": {"ports": [{"port": 80}]}},
    "own": {"kind": "Service", "metadata": {"name": "own-main"}, "spec": {"ports": [{"port": 80}]}},
    "pods": {
        "kind": "Deployment",
        "metadata": {"name": "pods-main-active"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "theirs", "image": "theirs"}]},
            },
        },
    },
}


def test_a_name_that_is_taken_is_told_and_left_alone_until_it_is_free(kube: Kube, namespace: str) -> None:
    def theirs() -> list[dict[str, Any] | None]:
        return [kube.get(one["kind"], namespace, one["metadata"]["name"]) for one in TAKEN.values()]

    def conflict(fleet: str) -> Any:
        found = condition(kube.get("specdep", namespace, fleet) or {}, "Degraded")
        return found if found.get("reason") == "NameConflict" else None

    for one in TAKEN.values():
        version = "apps/v1" if one["kind"] == "Deployment" else "v1"
        metadata = {**one["metadata"], "namespace": namespace}
        kube.apply({**one, "apiVersion": version, "metadata": metadata})
    before = theirs()
    kube.apply(*(simulated(namespace, fleet) for fleet in TAKEN))

    for fleet, one in TAKEN.items():
        told = wait_for(f"{fleet} tells the conflict", lambda fleet=fleet: conflict(fleet), seconds=60)
        name = f"{one['kind']} {one['metadata']['name']}"
        assert f"{name} belongs to somebody else" in told["message"]
    assert theirs() == before

    for one in TAKEN.values():
        kube.run("delete", one["kind"], one["metadata"]["name"], "-n", namespace)
    for fleet in TAKEN:
        healed = wait_ready(kube, namespace, fleet)
        assert condition(healed, "Degraded")["status"] == "False"
        health = kube.service(namespace, fleet, "/health")
        wait_for(
            f"the new Service {fleet} has found its pod",
            lambda path=health: kube.proxy.get(path).status_code == 200,
            seconds=30,
        )
        complete(kube, namespace, fleet)
