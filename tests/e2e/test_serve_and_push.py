"""The main path: apply, serve, measure, push to running pods; and what a pushed file may not do."""

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
    engine_pods,
    identities,
    pool_status,
    schedule_version,
    simulated,
    wait_and_time,
    wait_for,
    wait_ready,
)

pytestmark = pytest.mark.timeout(600)

PUSHES = 20
# Issue 3: ConfigMap write to the version in force at the pods.
PUSH_P95_SECONDS = 5.0


def versions(kube: Kube, namespace: str, pods: list[dict[str, Any]]) -> list[int]:
    return [schedule_version(kube.metrics(namespace, pod["metadata"]["name"])) for pod in pods]


def rejected(kube: Kube, namespace: str, pod: str) -> float:
    """Give the schedule files that one pod has refused, of whatever reason."""
    metrics = kube.metrics(namespace, pod)
    return sum(
        value for name, value in metrics.items() if name.startswith("specfleet_schedule_rejected_total")
    )


def written(kube: Kube, namespace: str, name: str) -> Mapping[str, Any]:
    config_map = kube.get("configmap", namespace, f"{name}-main-active-schedule")
    assert config_map is not None
    return dict(json.loads(config_map["data"]["schedule.json"]))


def test_what_prometheus_measures_moves_the_depth_of_running_pods(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")
    before = identities(engine_pods(kube, namespace, "chat"))

    def deeper() -> dict[str, Any] | None:
        pool = pool_status(kube, namespace, "chat")
        depth = float(pool.get("measured", {}).get("meanDepth", 0))
        return pool if depth >= 3 and "gainPercent" in pool["measured"] else None

    with Users(kube, [(namespace, "chat")]) as users:
        pool = wait_for("repetitive text is drafted at depth 3 or more", deeper, seconds=180, every=2)

    assert users.failures == []
    assert float(pool["measured"]["gainPercent"]["value"]) > 0
    assert pool["lastDecision"]["reason"]
    assert identities(engine_pods(kube, namespace, "chat")) == before
    events = kube.list("events", namespace)
    assert any(
        event["reason"] == "SchedulePushed" and "chat" in event["involvedObject"]["name"] for event in events
    )


def wait_newer(kube: Kube, namespace: str, version: int) -> tuple[float, Mapping[str, Any]]:
    """Wait for a newer schedule; give the last moment before which it was not written, and the schedule."""

    def newer() -> Mapping[str, Any] | None:
        document = written(kube, namespace, "chat")
        return document if document["version"] > version else None

    return wait_and_time(f"a schedule after {version} is written", newer, seconds=60)


@pytest.mark.alone  # it measures
@pytest.mark.fault("vllm#46295")
def test_twenty_pushes_reach_three_pods_in_seconds_and_restart_none(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", replicas=3))
    wait_ready(kube, namespace, "chat")
    pods = engine_pods(kube, namespace, "chat")
    delays = []

    for number in range(PUSHES):
        depth = number % 5 + 1
        last = written(kube, namespace, "chat")
        kube.patch(
            "specdep",
            namespace,
            "chat",
            {"spec": {"tuning": {"mode": "Enforce", "schedule": [{"depth": depth}]}}},
        )
        started, document = wait_newer(kube, namespace, int(last["version"]))
        wait_for(
            f"version {document['version']} is in force",
            lambda want=document["version"]: set(versions(kube, namespace, pods)) == {want},
            seconds=60,
            every=0.05,
        )
        delays.append(time.monotonic() - started)

    p95 = sorted(delays)[int(0.95 * PUSHES) - 1]
    print(f"push: p50 {sorted(delays)[PUSHES // 2]:.2f} s, p95 {p95:.2f} s, max {max(delays):.2f} s")
    assert p95 <= PUSH_P95_SECONDS
    assert identities(engine_pods(kube, namespace, "chat")) == identities(pods)


def test_greedy_text_does_not_depend_on_the_depth(kube: Kube, namespace: str) -> None:
    texts = set()
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")
    pod = engine_pods(kube, namespace, "chat")

    for depth in (0, 5):
        kube.patch("specdep", namespace, "chat", {"spec": {"tuning": {"schedule": [{"depth": depth}]}}})
        wait_for(
            f"depth {depth} is in force",
            lambda want=depth: (
                (document := written(kube, namespace, "chat"))["table"] == [{"depth": want}]
                and versions(kube, namespace, pod) == [document["version"]]
            ),
            seconds=60,
        )
        texts.add(complete(kube, namespace, "chat"))

    assert len(texts) == 1


@pytest.mark.alone
def test_a_schedule_spoilt_by_hand_is_refused_by_the_engine_and_written_anew(
    kube: Kube, release: Release, namespace: str
) -> None:
    kube.apply(simulated(namespace, "chat"))
    wait_ready(kube, namespace, "chat")
    (pod,) = engine_pods(kube, namespace, "chat")
    name = pod["metadata"]["name"]
    good = written(kube, namespace, "chat")
    config_map = "chat-main-active-schedule"
    spoilt = {"data": {"schedule.json": "{not json"}}

    # The operator would mend it before the kubelet has brought it to the engine.
    with release.without_operator():
        kube.patch("configmap", namespace, config_map, spoilt)
        kube.run("annotate", "pod", name, "-n", namespace, "--overwrite", "specfleet.dev/schedule-version=-")
        wait_for("the engine refuses it", lambda: rejected(kube, namespace, name) == 1, seconds=90, every=0.2)
        assert versions(kube, namespace, [pod]) == [good["version"]]
        complete(kube, namespace, "chat")

    def healed() -> bool:
        try:
            return written(kube, namespace, "chat")["table"] == good["table"]
        except json.JSONDecodeError:
            return False

    wait_for("the operator writes a good schedule again", healed, seconds=90)
    complete(kube, namespace, "chat")
    assert identities(engine_pods(kube, namespace, "chat")) == identities([pod])


def test_recommend_publishes_a_table_and_pushes_nothing(
    kube: Kube, make_namespace: Callable[[], str], release: object
) -> None:
    namespace = make_namespace()
    kube.apply(simulated(namespace, "chat", tuning={"mode": "Recommend"}))
    wait_ready(kube, namespace, "chat")
    before = written(kube, namespace, "chat")

    def other_table() -> dict[str, Any] | None:
        advice: dict[str, Any] = pool_status(kube, namespace, "chat").get("recommendation", before)
        return advice if advice["table"] != before["table"] else None

    with Users(kube, [(namespace, "chat")]):
        advice = wait_for("another table is recommended", other_table, seconds=180)

    assert float(advice["expectedGainPercent"]) > 0
    assert advice["appliedBy"] == "live"
    assert written(kube, namespace, "chat") == before
