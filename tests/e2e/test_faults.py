"""What breaks around a fleet that serves: the metrics are away, a name is taken."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.support import (
    RELEASE,
    SYSTEM_NAMESPACE,
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
        kube.run(
            "rollout",
            "status",
            f"deployment/{RELEASE}-prometheus",
            "-n",
            SYSTEM_NAMESPACE,
            "--timeout=120s",
        )
        wait_for(
            "figures are measured again", metrics_available(kube, namespace, "chat", "True"), seconds=120
        )

    assert version == kept["version"]
    assert fault["reason"] and fault["message"]
    assert "http" not in fault["message"]
    assert users.failures == []
    assert identities(engine_pods(kube, namespace, "chat")) == identities(pods)


@pytest.mark.parametrize(
    ("kind", "name", "spec"),
    [
        pytest.param("Service", "chat-main", {"ports": [{"port": 80}]}, id="Service of a pool"),
        pytest.param("Service", "chat", {"ports": [{"port": 80}]}, id="Service of all pools"),
        pytest.param(
            "Deployment",
            "chat-main-active",
            {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "theirs"}},
                "template": {
                    "metadata": {"labels": {"app": "theirs"}},
                    "spec": {"containers": [{"name": "theirs", "image": "theirs"}]},
                },
            },
            id="Deployment",
        ),
    ],
)
def test_a_name_that_is_taken_is_told_and_left_alone_until_it_is_free(
    kube: Kube, namespace: str, kind: str, name: str, spec: dict[str, Any]
) -> None:
    version = "apps/v1" if kind == "Deployment" else "v1"
    metadata = {"name": name, "namespace": namespace}
    kube.apply({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    theirs = kube.get(kind, namespace, name)
    kube.apply(simulated(namespace, "chat"))

    def conflict() -> Any:
        found = condition(kube.get("specdep", namespace, "chat") or {}, "Degraded")
        return found if found.get("reason") == "NameConflict" else None

    told = wait_for("the conflict is told", conflict, seconds=60)
    untouched = kube.get(kind, namespace, name)
    kube.run("delete", kind, name, "-n", namespace)
    healed = wait_ready(kube, namespace, "chat")

    assert f"{kind} {name} belongs to somebody else" in told["message"]
    assert theirs is not None and untouched is not None
    assert untouched["spec"] == theirs["spec"]
    assert untouched["metadata"] == theirs["metadata"]
    assert condition(healed, "Degraded")["status"] == "False"
    complete(kube, namespace, "chat")
