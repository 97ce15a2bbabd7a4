"""Changes that roll pods: of a table that is read at start, and where no node takes a pod more."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.support import (
    Kube,
    engine_pods,
    identities,
    is_ready,
    pool_status,
    simulated,
    wait_for,
    wait_ready,
)

pytestmark = pytest.mark.timeout(300)

STAND_IN = Path(__file__).parent / "stand_in_sglang.py"
SHALLOW = [{"depth": 1}]
DEEPER = [{"maxRequests": 4, "depth": 4}, {"depth": 2}]


def rolled_fleet(namespace: str, image: str) -> list[dict[str, Any]]:
    """Two pods of what stands in for SGLang; its code comes as a ConfigMap."""
    files = {"__init__.py": "", "launch_server.py": STAND_IN.read_text(encoding="utf-8")}
    template = {
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
        "volumes": [{"name": "code", "configMap": {"name": "stand-in"}}],
        "volumeMounts": [{"name": "code", "mountPath": "/stand-in/sglang"}],
    }
    resource = {
        "apiVersion": "specfleet.dev/v1alpha1",
        "kind": "SpeculativeDeployment",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {
            "model": {"uri": "file:///models/none"},
            "engine": {
                "type": "sglang",
                "image": image,
                "env": [{"name": "PYTHONPATH", "value": "/stand-in"}],
            },
            "speculation": {
                "method": "eagle3",
                "proposer": {"uri": "file:///models/head"},
                "depth": {"initial": 1, "max": 5},
            },
            "tuning": {"mode": "Enforce", "schedule": SHALLOW},
            "pools": [{"name": "main", "replicas": 2, "template": template}],
        },
    }
    code = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "stand-in", "namespace": namespace},
        "data": files,
    }
    return [code, resource]


def rows_served(kube: Kube, namespace: str, pod: Mapping[str, Any]) -> list[dict[str, int]]:
    """Give the table that a pod was started with, as rows; the last key is for batches that never run."""
    path = kube.pod(namespace, pod["metadata"]["name"], "/table")
    table = kube.proxy.get(path).raise_for_status().json()
    starts = sorted(map(int, table))[:-1]
    ends = [{"maxRequests": start - 1} for start in starts[1:]] + [{}]
    return [
        {**end, "depth": table[str(start)]["candidate_steps"][0]}
        for start, end in zip(starts, ends, strict=True)
    ]


def test_a_pushed_table_replaces_one_pod_after_the_other_and_each_says_what_it_runs(
    kube: Kube, images: Mapping[str, str], namespace: str
) -> None:
    kube.apply(*rolled_fleet(namespace, images["simulated"]))
    wait_ready(kube, namespace, "chat")
    before = identities(engine_pods(kube, namespace, "chat"))
    fewest, seen = 2, []
    started = time.monotonic()

    kube.patch("specdep", namespace, "chat", {"spec": {"tuning": {"schedule": DEEPER}}})
    while time.monotonic() < started + 90:
        ready = [pod for pod in engine_pods(kube, namespace, "chat") if is_ready(pod)]
        fewest = min(fewest, len(ready))
        said = [json.loads(pod["metadata"]["annotations"]["specfleet.dev/table"]) for pod in ready]
        assert said == [rows_served(kube, namespace, pod) for pod in ready]
        seen.append(said.count(DEEPER))
        if said == [DEEPER, DEEPER]:
            break
        time.sleep(0.5)

    print(f"rolled within {time.monotonic() - started:.0f} s")
    assert fewest == 2
    assert (seen[0], 1 in seen, seen[-1]) == (0, True, 2)
    after = identities(engine_pods(kube, namespace, "chat"))
    assert not before.keys() & after.keys()
    wait_for(
        "status counts both pods",
        lambda: pool_status(kube, namespace, "chat")["schedule"].get("appliedReplicas") == 2,
        seconds=20,
    )


SLOTS = ("example.org/slot", "example.org/gpu")


@pytest.fixture
def one_slot(kube: Kube) -> Iterator[None]:
    """A node with one of each, as if it had one more device."""
    node = kube.list("nodes", "")[0]["metadata"]["name"]

    def offer(number: str | None) -> None:
        body = {"status": {"capacity": dict.fromkeys(SLOTS, number)}}
        flags = ("--subresource=status", "--type=merge", "-p", json.dumps(body))
        kube.run("patch", "node", node, *flags)

    offer("1")
    yield
    offer(None)


@pytest.mark.usefixtures("one_slot")
def test_one_pod_on_the_only_device_is_replaced_and_nothing_waits_for_ever(
    kube: Kube, namespace: str
) -> None:
    for slot in SLOTS:
        fleet = simulated(namespace, slot.rpartition("/")[2])
        fleet["spec"]["pools"][0]["template"]["resources"]["limits"] = {slot: "1"}
        kube.apply(fleet)
    names = [slot.rpartition("/")[2] for slot in SLOTS]
    before = {
        name: wait_ready(kube, namespace, name) and identities(engine_pods(kube, namespace, name))
        for name in names
    }
    started = time.monotonic()

    for name in names:
        kube.patch("specdep", namespace, name, {"spec": {"engine": {"maxNumSeqs": 9}}})

    for name in names:
        wait_ready(kube, namespace, name, seconds=120)
        print(f"{name}: replaced within {time.monotonic() - started:.0f} s")
        assert not before[name].keys() & identities(engine_pods(kube, namespace, name)).keys()
