"""Fleets: many deployments tuned at once, many reconciled from cold, and silence when nothing happens."""

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.e2e.support import (
    RELEASE,
    SYSTEM_NAMESPACE,
    Kube,
    Release,
    Users,
    engine_pods,
    identities,
    is_ready,
    simulated,
    wait_for,
    wait_ready,
)

pytestmark = [pytest.mark.timeout(900), pytest.mark.alone]

# Issue 3, "Done when".
TUNED = [f"chat-{number}" for number in range(10)]
PODS_EACH = 2
COLD = 100
COLD_SECONDS = 60.0

# Slow steps: the load has to be light for the machine, not for the tuner.
ENGINE = {"type": "simulated", "maxNumSeqs": 8, "simulated": {"stepTime": "50ms"}}
TUNED_SECONDS = 240.0
QUIET_SECONDS = 20.0
IDLE_SECONDS = 45.0
DISPATCHED = re.compile(r"^apiserver_flowcontrol_dispatched_requests_total\{(.*)\} (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def fleet(kube: Kube, release: Release) -> Iterator[str]:
    """Ten deployments with two running pods each; gives their namespace."""
    namespace = f"e2e-fleet-{uuid.uuid4().hex[:6]}"
    kube.run("create", "namespace", namespace)
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": [SYSTEM_NAMESPACE]}
    everything = {"apiGroups": ["*"], "resources": ["*"], "namespaces": [SYSTEM_NAMESPACE, namespace]}
    kube.apply(
        flow_schema(f"{namespace}-lease", 500, **leases),
        flow_schema(f"{namespace}-other", 600, **everything, clusterScope=True),
    )
    kube.apply(*(simulated(namespace, name, replicas=PODS_EACH, engine=ENGINE) for name in TUNED))
    for name in TUNED:
        wait_ready(kube, namespace, name, seconds=240)
    yield namespace
    kube.run("delete", "flowschema", f"{namespace}-lease", f"{namespace}-other")
    kube.run("delete", "specdep", "--all", "-n", namespace, "--wait=false")
    kube.run("delete", "namespace", namespace, "--wait=false")


def pushed(kube: Kube, namespace: str) -> set[str]:
    """Give the deployments whose schedule the tuner changed by a decision; probes do not count."""
    events = kube.list("events.events.k8s.io", namespace)
    return {event["regarding"]["name"] for event in events if event["reason"] == "SchedulePushed"}


def flow_schema(name: str, precedence: int, **rule: object) -> dict[str, Any]:
    """Let the API server count the operator's writes that fit a rule, also those that change nothing."""
    account = {"name": f"{RELEASE}-operator", "namespace": SYSTEM_NAMESPACE}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": "workload-low"},
            "rules": [
                {
                    "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
                    "resourceRules": [
                        {"verbs": ["create", "update", "patch", "delete", "deletecollection"], **rule}
                    ],
                }
            ],
        },
    }


def lease_writes(kube: Kube, namespace: str) -> int:
    return count(kube, f"{namespace}-lease")


def other_writes(kube: Kube, namespace: str) -> int:
    return count(kube, f"{namespace}-other")


def count(kube: Kube, flow: str) -> int:
    text = kube.run("get", "--raw", "/metrics").stdout
    return sum(int(float(value)) for labels, value in DISPATCHED.findall(text) if f'"{flow}"' in labels)


def wait_quiet(kube: Kube, namespace: str) -> None:
    """Wait until what was going on has ended: some scrapes long nothing was written."""
    seen, since = other_writes(kube, namespace), time.monotonic()

    def quiet() -> bool:
        nonlocal seen, since
        if (now := other_writes(kube, namespace)) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= QUIET_SECONDS

    wait_for("nothing is written any more", quiet, seconds=240, every=2)


def test_an_idle_operator_writes_nothing_but_its_lease(kube: Kube, fleet: str) -> None:
    wait_quiet(kube, fleet)
    renewed, others = lease_writes(kube, fleet), other_writes(kube, fleet)
    assert others > 0, "the API server does not count: it must have seen how the fleet was made"

    # The measurement itself: nothing is waited for, the time has to pass.
    time.sleep(IDLE_SECONDS)

    assert other_writes(kube, fleet) == others
    assert lease_writes(kube, fleet) > renewed, "the operator did not even renew its lease"


def test_ten_deployments_under_load_are_tuned_at_once(kube: Kube, fleet: str) -> None:
    before = {name: identities(engine_pods(kube, fleet, name)) for name in TUNED}
    started = time.monotonic()

    with Users(kube, [(fleet, name) for name in TUNED]) as users:
        wait_for(
            "every deployment had its depth moved by a decision",
            lambda: pushed(kube, fleet) == set(TUNED),
            seconds=TUNED_SECONDS,
            every=3,
        )

    print(f"tuned: {len(TUNED)} deployments in {time.monotonic() - started:.0f} s of load")
    assert users.failures == []
    assert {name: identities(engine_pods(kube, fleet, name)) for name in TUNED} == before
    assert sum(len(pods) for pods in before.values()) == len(TUNED) * PODS_EACH


def test_a_hundred_deployments_reconcile_from_cold(kube: Kube, release: Release, namespace: str) -> None:
    names = {f"cold-{number}" for number in range(COLD)}
    with release.without_operator():
        kube.apply(*(simulated(namespace, name, replicas=0) for name in sorted(names)))
    started = time.monotonic()

    def reconciled() -> bool:
        items = kube.list("specdep", namespace)
        return {item["metadata"]["name"] for item in items if settled(item)} == names

    # Twice the figure: a miss then says by how much.
    wait_for("all are reconciled", reconciled, seconds=2 * COLD_SECONDS, every=1)
    seconds = time.monotonic() - started

    print(f"cold: {COLD} deployments in {seconds:.1f} s from the start of the operator")
    assert seconds <= COLD_SECONDS
    deployments = kube.list("deployments", namespace)
    assert {one["metadata"]["labels"]["specfleet.dev/deployment"] for one in deployments} == names
    assert {one["spec"]["replicas"] for one in deployments} == {0}


def settled(item: Mapping[str, Any]) -> bool:
    """Say whether a resource is Ready, and was looked at as it is now."""
    return is_ready(item) and item["status"].get("observedGeneration") == item["metadata"]["generation"]
