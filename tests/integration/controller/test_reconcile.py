"""One reconcile after another against the store, without a watch."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.controller.builders import a_configuration, a_resource
from tests.integration.fake_api import DirectClient, Store

from specfleet.api.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NODE,
    POD_MONITOR,
    SERVICE,
    SPECULATIVE_DEPLOYMENT,
    Object,
)
from specfleet.cluster.errors import ClusterError, Forbidden, Invalid, Unavailable
from specfleet.cluster.events import EVENT, EventRecorder
from specfleet.controller.figures import Figures
from specfleet.controller.key import Key
from specfleet.controller.reconcile import Reconciler

CHAT = Key("llm", "chat")
OWNED = (DEPLOYMENT, SERVICE, CONFIG_MAP, DISRUPTION_BUDGET)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def client(store: Store) -> DirectClient:
    return DirectClient(store, unserved=frozenset({POD_MONITOR}))


def a_reconciler(client: DirectClient) -> Reconciler:
    return Reconciler(client, a_configuration(), EventRecorder(client, instance="test"), Figures(), fence=3)


@pytest.fixture
def reconciler(client: DirectClient) -> Reconciler:
    return a_reconciler(client)


def make_ready(store: Store, name: str = "chat-main-active", replicas: int = 2) -> None:
    live = store.get(DEPLOYMENT, "llm", name)
    store.set_status(
        DEPLOYMENT,
        "llm",
        name,
        {
            "observedGeneration": live["metadata"]["generation"],
            **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), replicas),
        },
    )


async def bring_up(store: Store, reconciler: Reconciler) -> None:
    """A new resource whose pods are ready, and reconcile has seen it."""
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)
    make_ready(store)
    await reconciler.reconcile(CHAT)


def condition(store: Store, kind: str, name: str = "chat") -> Object:
    status = store.get(SPECULATIVE_DEPLOYMENT, "llm", name)["status"]
    return next(entry for entry in status["conditions"] if entry["type"] == kind)


async def test_a_new_resource_gets_its_children_with_itself_as_owner(
    store: Store, reconciler: Reconciler
) -> None:
    created = store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    await reconciler.reconcile(CHAT)

    names = {kind.kind: [item["metadata"]["name"] for item in store.list(kind, "llm")] for kind in OWNED}
    assert names["Deployment"] == ["chat-main-active"]
    assert names["Service"] == ["chat", "chat-main"]
    assert "chat-main-active-schedule" in names["ConfigMap"]
    owners = [item["metadata"]["ownerReferences"] for kind in OWNED for item in store.list(kind, "llm")]
    assert {reference["uid"] for references in owners for reference in references} == {
        created["metadata"]["uid"]
    }


async def test_a_second_look_writes_nothing(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    await bring_up(store, reconciler)
    await reconciler.reconcile(CHAT)
    before = client.writes

    await reconciler.reconcile(CHAT)

    assert client.writes == before


async def test_an_operator_that_restarts_changes_no_object(store: Store, client: DirectClient) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await a_reconciler(client).reconcile(CHAT)
    make_ready(store)
    await a_reconciler(client).reconcile(CHAT)
    before = store.version

    await a_reconciler(client).reconcile(CHAT)

    assert store.version == before


async def test_ready_follows_the_pods(store: Store, reconciler: Reconciler) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    await reconciler.reconcile(CHAT)
    assert condition(store, "Ready")["status"] == "False"

    make_ready(store)
    await reconciler.reconcile(CHAT)
    assert condition(store, "Ready")["status"] == "True"


async def test_a_ready_resource_is_looked_at_again_at_the_resync_and_an_unready_one_soon(
    store: Store, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    soon = await reconciler.reconcile(CHAT)
    make_ready(store)
    later = await reconciler.reconcile(CHAT)

    assert soon is not None
    assert later is not None
    assert soon <= 15 * 1.2
    assert 600 * 0.8 <= later <= 600 * 1.2


async def test_what_does_not_become_ready_is_looked_at_ever_less_often_however_many_events_come(
    store: Store, client: DirectClient
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    figures, events = Figures(), EventRecorder(client, instance="test")
    reconciler = Reconciler(client, a_configuration(), events, figures, fence=3, now=lambda: now)
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    for _ in range(20):
        soon = await reconciler.reconcile(CHAT)
    now += timedelta(seconds=60)
    later = await reconciler.reconcile(CHAT)
    now += timedelta(hours=1)
    latest = await reconciler.reconcile(CHAT)

    assert soon is not None and later is not None and latest is not None
    assert 15 * 0.8 <= soon <= 15 * 1.2
    assert 60 * 0.8 <= later <= 60 * 1.2
    assert 120 * 0.8 <= latest <= 120 * 1.2


async def test_an_invalid_resource_becomes_a_condition_and_its_children_stay(
    store: Store, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)
    deployment = store.get(DEPLOYMENT, "llm", "chat-main-active")
    store.merge_patch(
        SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"speculation": {"depth": {"initial": 9}}}}
    )

    await reconciler.reconcile(CHAT)

    degraded = condition(store, "Degraded")
    assert (degraded["status"], degraded["reason"], degraded["observedGeneration"]) == (
        "True",
        "ResourceInvalid",
        2,
    )
    assert "depth.initial" in degraded["message"]
    ready = condition(store, "Ready")
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("False", "Blocked", 2)
    assert store.get(DEPLOYMENT, "llm", "chat-main-active") == deployment
    assert store.get(SPECULATIVE_DEPLOYMENT, "llm", "chat")["status"]["pools"][0]["name"] == "main"


async def test_a_repaired_resource_is_no_longer_degraded(store: Store, reconciler: Reconciler) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    store.merge_patch(SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"unknown": 1}})
    await reconciler.reconcile(CHAT)
    store.merge_patch(SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"unknown": None}})

    await reconciler.reconcile(CHAT)

    assert condition(store, "Degraded")["status"] == "False"


async def test_an_edit_by_hand_is_undone_at_the_next_look(store: Store, reconciler: Reconciler) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)
    wanted = store.get(DEPLOYMENT, "llm", "chat-main-active")["spec"]
    store.merge_patch(
        DEPLOYMENT, "llm", "chat-main-active", {"spec": {"minReadySeconds": 99, "selector": None}}
    )

    await reconciler.reconcile(CHAT)

    assert store.get(DEPLOYMENT, "llm", "chat-main-active")["spec"]["selector"] == wanted["selector"]


@pytest.mark.parametrize("kind", OWNED, ids=lambda kind: kind.kind)
async def test_a_deleted_child_comes_back(store: Store, reconciler: Reconciler, kind: object) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)
    names = [item["metadata"]["name"] for item in store.list(kind, "llm")]
    for name in names:
        store.delete(kind, "llm", name)

    await reconciler.reconcile(CHAT)

    assert [item["metadata"]["name"] for item in store.list(kind, "llm")] == names


async def test_the_objects_of_a_removed_pool_are_deleted(store: Store, reconciler: Reconciler) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource(pools=("main", "batch")))
    await reconciler.reconcile(CHAT)
    live = store.get(SPECULATIVE_DEPLOYMENT, "llm", "chat")
    live["spec"]["pools"] = live["spec"]["pools"][:1]
    store.replace(SPECULATIVE_DEPLOYMENT, live)

    await reconciler.reconcile(CHAT)

    left = [item["metadata"]["name"] for kind in OWNED for item in store.list(kind, "llm")]
    assert left
    assert not [name for name in left if "batch" in name]
    assert [pool["name"] for pool in store.get(SPECULATIVE_DEPLOYMENT, "llm", "chat")["status"]["pools"]] == [
        "main"
    ]


async def test_a_child_with_a_wrong_pool_label_is_repaired_and_not_replaced(
    store: Store, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)
    uid = store.get(DEPLOYMENT, "llm", "chat-main-active")["metadata"]["uid"]
    store.merge_patch(
        DEPLOYMENT, "llm", "chat-main-active", {"metadata": {"labels": {"specfleet.dev/pool": "other"}}}
    )

    await reconciler.reconcile(CHAT)

    metadata = store.get(DEPLOYMENT, "llm", "chat-main-active")["metadata"]
    assert (metadata["uid"], metadata["labels"]["specfleet.dev/pool"]) == (uid, "main")


async def test_an_object_of_somebody_else_is_not_taken_over(store: Store, reconciler: Reconciler) -> None:
    foreign = store.create(
        SERVICE,
        {"metadata": {"name": "chat-main", "namespace": "llm"}, "spec": {"selector": {"app": "theirs"}}},
    )
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    await reconciler.reconcile(CHAT)

    assert store.get(SERVICE, "llm", "chat-main") == foreign
    degraded = condition(store, "Degraded")
    assert degraded["status"] == "True"
    assert "chat-main" in degraded["message"]


async def test_a_deleted_resource_takes_its_children_along_and_is_forgotten(
    store: Store, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)

    store.delete(SPECULATIVE_DEPLOYMENT, "llm", "chat")

    assert await reconciler.reconcile(CHAT) is None
    assert [item for kind in OWNED for item in store.list(kind, "llm")] == []


async def test_a_resource_made_again_under_the_same_name_gets_its_own_children(
    store: Store, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    await reconciler.reconcile(CHAT)
    store.delete(SPECULATIVE_DEPLOYMENT, "llm", "chat")
    again = store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    await reconciler.reconcile(CHAT)

    owner = store.get(DEPLOYMENT, "llm", "chat-main-active")["metadata"]["ownerReferences"][0]
    assert owner["uid"] == again["metadata"]["uid"]


@pytest.mark.parametrize("plural", ["services", "configmaps", "deployments"])
@pytest.mark.parametrize(("status", "error"), [(400, Invalid), (403, Forbidden)])
async def test_a_refusal_of_the_api_server_is_shown_and_tried_again(
    store: Store,
    client: DirectClient,
    reconciler: Reconciler,
    plural: str,
    status: int,
    error: type[ClusterError],
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    client.faults.add(status, verb="apply", path=plural)

    with pytest.raises(error):
        await reconciler.reconcile(CHAT)

    degraded = condition(store, "Degraded")
    assert degraded["reason"] == "ApplyRefused"
    assert degraded["message"] == f"apply {plural}: {status}"
    await reconciler.reconcile(CHAT)
    assert condition(store, "Degraded")["status"] == "False"


async def test_an_edit_that_a_quota_forbids_is_degraded_at_its_generation(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    await bring_up(store, reconciler)
    store.merge_patch(
        SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"pools": [{"name": "main", "replicas": 3}]}}
    )
    client.faults.add(403, verb="apply", path="deployments")

    with pytest.raises(Forbidden):
        await reconciler.reconcile(CHAT)

    told = {
        kind: (found["status"], found["reason"], found["observedGeneration"])
        for kind in ("Ready", "Progressing", "Degraded")
        for found in (condition(store, kind),)
    }
    assert told == {
        "Ready": ("False", "Blocked", 2),
        "Progressing": ("False", "Blocked", 2),
        "Degraded": ("True", "ApplyRefused", 2),
    }


async def test_a_pool_of_which_something_is_refused_does_not_keep_the_others_from_their_edit(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource(pools=("main", "batch")))
    await reconciler.reconcile(CHAT)
    pools = [
        {"name": "main", "replicas": 2, "template": {"nodeSelector": {"gpu": "h100"}}},
        {"name": "batch", "replicas": 3},
    ]
    store.merge_patch(SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"pools": pools}})
    client.faults.add(403, verb="apply", path="deployments")

    with pytest.raises(Forbidden):
        await reconciler.reconcile(CHAT)

    main, batch = (store.get(DEPLOYMENT, "llm", f"chat-{pool}-active")["spec"] for pool in ("main", "batch"))
    assert "nodeSelector" not in main["template"]["spec"]
    assert batch["replicas"] == 3
    ready = condition(store, "Ready")
    assert (ready["status"], ready["reason"], ready["observedGeneration"]) == ("False", "Blocked", 2)


@pytest.mark.parametrize("plural", ["services", "configmaps", "poddisruptionbudgets"])
async def test_pods_do_not_start_without_what_is_refused_before_them(
    store: Store, client: DirectClient, reconciler: Reconciler, plural: str
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource(pools=("main", "batch")))
    client.faults.add(403, verb="apply", path=plural)

    with pytest.raises(Forbidden):
        await reconciler.reconcile(CHAT)

    assert [item["metadata"]["name"] for item in store.list(DEPLOYMENT, "llm")] == ["chat-batch-active"]
    assert store.get(SERVICE, "llm", "chat")["metadata"]["name"] == "chat"


async def test_a_renamed_pool_serves_on_while_the_new_one_is_refused(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    await bring_up(store, reconciler)
    pools = [{"name": "new", "replicas": 2}]
    store.merge_patch(SPECULATIVE_DEPLOYMENT, "llm", "chat", {"spec": {"pools": pools}})
    client.faults.add(403, verb="apply", path="deployments")

    with pytest.raises(Forbidden):
        await reconciler.reconcile(CHAT)
    assert [item["metadata"]["name"] for item in store.list(DEPLOYMENT, "llm")] == ["chat-main-active"]

    await reconciler.reconcile(CHAT)
    assert [item["metadata"]["name"] for item in store.list(DEPLOYMENT, "llm")] == ["chat-new-active"]


async def test_a_repair_that_is_refused_is_tried_again_in_full(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    await bring_up(store, reconciler)
    wanted = store.get(DEPLOYMENT, "llm", "chat-main-active")["spec"]["template"]
    patch = {"spec": {"template": {"spec": {"containers": []}}}}
    store.merge_patch(DEPLOYMENT, "llm", "chat-main-active", patch)
    client.faults.add(403, verb="apply", path="deployments")

    with pytest.raises(Forbidden):
        await reconciler.reconcile(CHAT)
    await reconciler.reconcile(CHAT)

    assert store.get(DEPLOYMENT, "llm", "chat-main-active")["spec"]["template"] == wanted


async def test_a_refusal_that_may_not_be_shown_is_what_the_log_gets(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    client.faults.add(403, verb="apply", path="deployments")
    client.faults.add(403, verb="apply_status")

    with pytest.raises(Forbidden, match="apply deployments"):
        await reconciler.reconcile(CHAT)

    assert client.faults.waiting == []


async def test_an_answer_that_is_lost_leaves_nothing_that_the_next_look_cannot_finish(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())
    client.faults.add("lost answer", verb="apply", path="services")

    with pytest.raises(Unavailable):
        await reconciler.reconcile(CHAT)
    await reconciler.reconcile(CHAT)

    assert [item["metadata"]["name"] for item in store.list(SERVICE, "llm")] == ["chat", "chat-main"]


async def test_each_turn_of_a_condition_is_one_event(store: Store, reconciler: Reconciler) -> None:
    await bring_up(store, reconciler)
    await reconciler.reconcile(CHAT)

    notes = [event["note"] for event in store.list(EVENT, "llm") if event["note"].startswith("Ready is True")]
    assert len(notes) == 1


async def test_a_pod_monitor_is_made_where_the_kind_is_served(store: Store) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    await a_reconciler(DirectClient(store)).reconcile(CHAT)

    assert len(store.list(POD_MONITOR, "llm")) >= 1


IMAGE_MODEL = {"engine": {"type": "builtin"}, "model": {"uri": "image://registry.invalid/llama:v1"}}


def add_node(store: Store, runtime: str) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "namespace": ""}}
    store.create(NODE, node)
    store.set_status(NODE, "", "node", {"nodeInfo": {"containerRuntimeVersion": runtime}})


async def test_a_model_in_an_image_is_refused_where_the_nodes_cannot_mount_it(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    add_node(store, "containerd://1.6.20")
    store.create(SPECULATIVE_DEPLOYMENT, a_resource(**IMAGE_MODEL))

    await reconciler.reconcile(CHAT)

    assert condition(store, "Degraded")["reason"] == "ImageVolumesUnsupported"
    assert store.list(DEPLOYMENT, "llm") == []


async def test_without_the_right_to_look_at_nodes_a_model_in_an_image_is_planned(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    add_node(store, "containerd://1.6.20")
    client.faults.add(403, verb="list", path="nodes")
    store.create(SPECULATIVE_DEPLOYMENT, a_resource(**IMAGE_MODEL))

    await reconciler.reconcile(CHAT)

    assert len(store.list(DEPLOYMENT, "llm")) == 1


async def test_nodes_are_read_for_images_only(
    store: Store, client: DirectClient, reconciler: Reconciler
) -> None:
    store.create(SPECULATIVE_DEPLOYMENT, a_resource())

    await reconciler.reconcile(CHAT)

    assert client.calls["list", "Node"] == 0
