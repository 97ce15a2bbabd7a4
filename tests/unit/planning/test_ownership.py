"""Objects of a wanted name that somebody else created are never taken over."""

from tests.unit.planning.builders import (
    ACTIVE,
    a_pool,
    a_resource,
    an_empty_cluster,
    body,
    changed,
    keys,
    planned,
    reasons,
    running,
    with_object,
)

from specfleet.api.kinds import CONFIG_MAP, DEPLOYMENT, RECONCILE_MANAGER, SERVICE, TUNER_MANAGER


def test_a_foreign_object_of_a_pool_holds_that_pool_and_is_named() -> None:
    observed = with_object(an_empty_cluster(), *ACTIVE, managedFields=[{"manager": "helm"}])

    found = planned(a_resource(a_pool("interactive"), a_pool("batch")), observed)

    assert not [name for _, name in keys(found) if name.startswith("chat-interactive")]
    assert (DEPLOYMENT, "chat-batch-active") in keys(found)
    (refusal,) = found.refusals
    assert refusal.reason == "NameConflict"
    assert "Deployment chat-interactive-active" in refusal.message
    assert refusal.pool == "interactive"


def test_a_foreign_service_of_the_resources_name_holds_no_pool() -> None:
    observed = with_object(an_empty_cluster(), SERVICE, "chat")

    found = planned(a_resource(), observed)

    assert (SERVICE, "chat") not in keys(found)
    assert ACTIVE in keys(found)
    assert reasons(found) == ["NameConflict"]


def test_an_object_of_another_controller_is_foreign_even_with_our_labels() -> None:
    owner = {"kind": "Application", "name": "chat", "uid": "other", "controller": True}
    observed = with_object(
        an_empty_cluster(),
        *ACTIVE,
        labels={"specfleet.dev/deployment": "chat", "specfleet.dev/pool": "gone"},
        ownerReferences=[owner],
        managedFields=[{"manager": RECONCILE_MANAGER}],
    )

    found = planned(a_resource(), observed)

    assert reasons(found) == ["NameConflict"]
    assert found.removals == ()


def test_what_a_deleted_resource_of_the_same_name_left_is_waited_for() -> None:
    observed = running(a_resource(uid="uid-of-the-old-one"))

    found = planned(a_resource(uid="uid-of-the-new-one"), observed)

    assert found.desired == ()
    assert found.removals == ()
    assert set(reasons(found)) == {"WaitingForDeletion"}


def test_an_object_of_ours_that_lost_its_owner_is_taken_back() -> None:
    observed = changed(
        running(a_resource()), *ACTIVE, edit=lambda live: live["metadata"].pop("ownerReferences")
    )

    found = planned(a_resource(), observed)

    assert keys(found) == [ACTIVE]
    assert body(found, ACTIVE)["metadata"]["ownerReferences"][0]["uid"] == "uid-of-chat"


MEMORY = (CONFIG_MAP, "chat-interactive-tuning")


def test_a_foreign_object_in_place_of_the_tuners_memory_holds_the_pool_and_is_named() -> None:
    observed = with_object(an_empty_cluster(), *MEMORY, managedFields=[{"manager": "kubectl"}])

    found = planned(a_resource(), observed)

    assert ACTIVE not in keys(found)
    (refusal,) = found.refusals
    assert (refusal.reason, refusal.pool) == ("NameConflict", "interactive")
    assert "ConfigMap chat-interactive-tuning" in refusal.message


def test_the_tuners_memory_is_neither_applied_nor_deleted_whatever_its_labels_are() -> None:
    managers = [{"manager": TUNER_MANAGER}]
    labels = {"specfleet.dev/deployment": "chat", "specfleet.dev/pool": "edited"}
    observed = with_object(running(a_resource()), *MEMORY, labels=labels, managedFields=managers)

    found = planned(a_resource(), observed)

    assert (found.desired, found.removals, found.refusals) == ((), (), ())
