"""A fleet over its life: scaled, changed, broken, deleted, with and without an operator that lives."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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
    is_ready,
    schedule_version,
    simulated,
    wait_for,
    wait_ready,
)

pytestmark = pytest.mark.timeout(600)

CHILDREN = "deployments,services,configmaps,poddisruptionbudgets,replicasets,pods"


def change(kube: Kube, namespace: str, name: str, **spec: Any) -> None:
    kube.patch("specdep", namespace, name, {"spec": spec})


def pool(name: str = "main", replicas: int | None = 1) -> dict[str, Any]:
    requests = {"cpu": "50m", "memory": "48Mi"}
    written = {"name": name, "template": {"resources": {"requests": requests}}}
    return written if replicas is None else {**written, "replicas": replicas}


def scale(kube: Kube, namespace: str, name: str, replicas: int) -> None:
    change(kube, namespace, name, pools=[pool(replicas=replicas)])


def children(kube: Kube, namespace: str, selector: str) -> list[str]:
    return [f"{one['kind']}/{one['metadata']['name']}" for one in kube.list(CHILDREN, namespace, selector)]


def all_gone(kube: Kube, namespace: str, name: str) -> bool:
    return not children(kube, namespace, f"specfleet.dev/deployment={name}")


def pods_serve(kube: Kube, namespace: str, name: str, count: int) -> list[dict[str, Any]]:
    """Wait until the resource is Ready with exactly that many pods; give them."""
    wait_ready(kube, namespace, name)

    def serving() -> list[dict[str, Any]] | None:
        pods = engine_pods(kube, namespace, name)
        return pods if len(pods) == count and all(map(is_ready, pods)) else None

    return wait_for(f"{count} pods of {namespace}/{name} serve", serving, seconds=60)


def arguments(pod: Mapping[str, Any]) -> list[str]:
    return list(pod["spec"]["containers"][0]["args"])


def in_force(kube: Kube, namespace: str, pod: Mapping[str, Any], depth: int) -> bool:
    """Say whether a pod decodes at that depth: it is asked for a completion, then for its steps."""
    metrics = kube.metrics(namespace, pod["metadata"]["name"])
    before = metrics.get(f'specfleet_steps_total{{depth="{depth}"}}', 0)
    complete(kube, namespace, pod["metadata"]["labels"]["specfleet.dev/deployment"])
    after = kube.metrics(namespace, pod["metadata"]["name"])
    return after.get(f'specfleet_steps_total{{depth="{depth}"}}', 0) > before


def streamed(kube: Kube, namespace: str, name: str, tokens: int) -> list[str]:
    """Ask for a long stream; give its events."""
    body = {"model": name, "prompt": "Tell me a story.", "max_tokens": tokens, "ignore_eos": True}
    path = kube.service(namespace, name, "/v1/completions")
    with kube.proxy.stream("POST", path, json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        return [line for line in answer.iter_lines() if line]


def test_scaling_adds_and_removes_pods_and_leaves_the_others(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat"))
    first = identities(pods_serve(kube, namespace, "chat", 1))

    scale(kube, namespace, "chat", 3)
    three = identities(pods_serve(kube, namespace, "chat", 3))
    scale(kube, namespace, "chat", 1)
    one = identities(pods_serve(kube, namespace, "chat", 1))
    scale(kube, namespace, "chat", 0)
    none = wait_ready(kube, namespace, "chat")

    assert first.items() <= three.items()
    assert one.items() <= three.items()
    assert condition(none, "Ready")["reason"] == "ScaledToZero"
    wait_for("the last pod is gone", lambda: not engine_pods(kube, namespace, "chat"), seconds=60)


def test_a_changed_engine_rolls_the_pods_and_no_request_notices(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", replicas=2))
    before = pods_serve(kube, namespace, "chat", 2)
    fewest = 2

    def rolled() -> bool:
        nonlocal fewest
        live = kube.get("deployment", namespace, "chat-main-active") or {}
        fewest = min(fewest, live["status"].get("readyReplicas", 0))
        pods = engine_pods(kube, namespace, "chat")
        return len(pods) == 2 and all("--max-num-seqs 6" in " ".join(arguments(pod)) for pod in pods)

    with Users(kube, [(namespace, "chat")], users_each=3) as users, ThreadPoolExecutor() as beside:
        stream = beside.submit(streamed, kube, namespace, "chat", tokens=800)
        change(kube, namespace, "chat", engine={"maxNumSeqs": 6})
        wait_for("both pods have the new arguments", rolled, seconds=180, every=0.3)
        after = pods_serve(kube, namespace, "chat", 2)
        asked = users.completed
        wait_for("the new pods answered", lambda: users.completed > asked + 6, seconds=60)

    assert users.failures == []
    assert stream.result()[-1] == "data: [DONE]"
    assert fewest == 2
    assert not identities(before).keys() & identities(after).keys()


def test_goals_pace_and_a_pin_change_without_a_new_pod(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat"))
    pods = pods_serve(kube, namespace, "chat", 1)

    change(kube, namespace, "chat", objectives={"timePerOutputToken": "40ms", "kvHeadroomPercent": 20})
    change(kube, namespace, "chat", tuning={"maxPushesPerHour": 2, "mode": "Recommend"})
    change(kube, namespace, "chat", tuning={"schedule": [{"depth": 4}]})
    wait_ready(kube, namespace, "chat")
    wait_for("the pin is in force", lambda: in_force(kube, namespace, pods[0], 4), seconds=60)

    assert identities(engine_pods(kube, namespace, "chat")) == identities(pods)


def test_a_pool_that_is_taken_out_takes_its_objects_along(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", pools=[pool("main"), pool("batch")]))
    main = [pod for pod in pods_serve(kube, namespace, "chat", 2) if "-main-" in pod["metadata"]["name"]]

    change(kube, namespace, "chat", pools=[pool("main")])
    wait_for(
        "nothing of pool batch is left",
        lambda: not children(kube, namespace, "specfleet.dev/pool=batch"),
        seconds=90,
    )

    found = wait_ready(kube, namespace, "chat")
    assert [one["name"] for one in found["status"]["pools"]] == ["main"]
    assert identities(pods_serve(kube, namespace, "chat", 1)) == identities(main)


def test_a_killed_pod_is_replaced_by_one_with_the_schedule_in_force(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", tuning={"schedule": [{"depth": 5}]}))
    (pod,) = pods_serve(kube, namespace, "chat", 1)
    wait_for("the pin is in force", lambda: in_force(kube, namespace, pod, 5), seconds=60)
    version = schedule_version(kube.metrics(namespace, pod["metadata"]["name"]))

    kube.run("delete", "pod", pod["metadata"]["name"], "-n", namespace, "--grace-period=0", "--force")
    wait_for(
        "the status tells of the missing pod or another pod is there",
        lambda: not identities(engine_pods(kube, namespace, "chat")).keys() & identities([pod]).keys(),
        seconds=60,
    )
    (other,) = pods_serve(kube, namespace, "chat", 1)

    assert schedule_version(kube.metrics(namespace, other["metadata"]["name"])) == version
    assert in_force(kube, namespace, other, 5)


def test_an_autoscaler_keeps_the_replicas_that_it_sets(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", pools=[pool(replicas=None)]))
    pods_serve(kube, namespace, "chat", 1)

    body = """{"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "chat-main-active"}, "spec": {"replicas": 2}}"""
    kube.run("apply", "--server-side", "--field-manager=autoscaler", "-n", namespace, "-f", "-", stdin=body)
    pods_serve(kube, namespace, "chat", 2)
    # A change that applies the Deployment anew is where a number of our own would win.
    change(kube, namespace, "chat", engine={"maxNumSeqs": 6})
    pods_serve(kube, namespace, "chat", 2)

    found = kube.get("specdep", namespace, "chat") or {}
    assert "replicas set by autoscaler" in condition(found, "Ready")["message"]
    assert found["status"]["ready"] == "2/2"


def test_deletion_takes_every_child_along_and_waits_for_nobody(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat", pools=[pool("main"), pool("batch")]))
    pods_serve(kube, namespace, "chat", 2)

    kube.run("delete", "specdep", "chat", "-n", namespace, "--wait=false")

    assert kube.get("specdep", namespace, "chat") is None
    wait_for("every child is gone", lambda: all_gone(kube, namespace, "chat"), seconds=90)


def test_a_fleet_that_is_made_anew_at_once_waits_for_the_remains_of_the_old_one(
    kube: Kube, namespace: str
) -> None:
    kube.apply(simulated(namespace, "chat"))
    old = pods_serve(kube, namespace, "chat", 1)

    kube.run("delete", "specdep", "chat", "-n", namespace, "--wait=false")
    kube.apply(simulated(namespace, "chat"))
    new = pods_serve(kube, namespace, "chat", 1)

    assert not identities(old).keys() & identities(new).keys()
    uid = wait_ready(kube, namespace, "chat")["metadata"]["uid"]
    owned = kube.list("deployments,services,configmaps", namespace, "specfleet.dev/deployment=chat")
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in owned} == {uid}
    complete(kube, namespace, "chat")


def test_children_deleted_and_edited_by_hand_are_put_back(kube: Kube, namespace: str) -> None:
    kube.apply(simulated(namespace, "chat"))
    pods = pods_serve(kube, namespace, "chat", 1)

    for kind, name in (("service", "chat-main"), ("configmap", "chat-main-active-schedule")):
        kube.run("delete", kind, name, "-n", namespace)
        wait_for(
            f"{kind} {name} is back", lambda one=(kind, name): kube.get(one[0], namespace, one[1]), seconds=30
        )
    kube.run("scale", "deployment/chat-main-active", "-n", namespace, "--replicas=3")
    wait_for(
        "the number of the spec is back",
        lambda: (kube.get("deployment", namespace, "chat-main-active") or {})["spec"]["replicas"] == 1,
        seconds=30,
    )

    assert identities(pods_serve(kube, namespace, "chat", 1)) == identities(pods)


@pytest.mark.alone
@pytest.mark.parametrize("asked_of_a_dead_one", [False, True], ids=["while-it-works", "while-it-is-dead"])
def test_an_operator_killed_in_the_middle_finishes_what_was_asked(
    kube: Kube, release: Release, namespace: str, asked_of_a_dead_one: bool
) -> None:
    """One kill in the middle of an apply, a push, a scaling, a change and a deletion, of a fleet each."""
    names = ("pushed", "scaled", "changed", "deleted")
    kube.apply(*(simulated(namespace, name) for name in names))
    before = {name: identities(pods_serve(kube, namespace, name, 1)) for name in names}

    if asked_of_a_dead_one:
        release.kill_operator()
    with ThreadPoolExecutor() as together:
        asked = [
            together.submit(kube.apply, simulated(namespace, "applied")),
            together.submit(change, kube, namespace, "pushed", tuning={"schedule": [{"depth": 5}]}),
            together.submit(scale, kube, namespace, "scaled", 2),
            together.submit(change, kube, namespace, "changed", engine={"maxNumSeqs": 6}),
            together.submit(kube.run, "delete", "specdep", "deleted", "-n", namespace, "--wait=false"),
        ]
        if not asked_of_a_dead_one:
            asked.append(together.submit(release.kill_operator))
        for one in asked:
            one.result()

    wait_for("all children are gone", lambda: all_gone(kube, namespace, "deleted"), seconds=120)
    wait_for("an operator leads again", release.leads, seconds=120)
    applied = pods_serve(kube, namespace, "applied", 1)
    scaled = pods_serve(kube, namespace, "scaled", 2)
    (changed,) = pods_serve(kube, namespace, "changed", 1)
    (pushed,) = pods_serve(kube, namespace, "pushed", 1)
    wait_for("the pin is in force", lambda: in_force(kube, namespace, pushed, 5), seconds=60)

    assert set(identities(applied).values()) == {0}
    assert identities([pushed]) == before["pushed"]
    assert before["scaled"].items() <= identities(scaled).items()
    assert "--max-num-seqs 6" in " ".join(arguments(changed))
