"""What a plan creates for a resource, and in which order."""

import json
from dataclasses import replace

from tests.unit.planning.builders import (
    ACTIVE,
    NOON,
    SCHEDULE,
    a_pool,
    a_resource,
    an_empty_cluster,
    body,
    changed,
    keys,
    planned,
    running,
)

from specfleet.api.kinds import (
    CONFIG_MAP,
    DISRUPTION_BUDGET,
    POD_MONITOR,
    RECONCILE_MANAGER,
    SERVICE,
    TUNER_MANAGER,
)
from specfleet.api.resource import SpeculativeDeployment
from specfleet.api.schedule import Document, Row, flat
from specfleet.planning.plan import wanted_keys


def test_a_new_resource_gets_everything_and_pods_come_after_what_they_mount() -> None:
    found = planned(a_resource(), an_empty_cluster(pod_monitors_served=True))

    assert keys(found) == [
        SCHEDULE,
        SCHEDULE,
        (SERVICE, "chat-interactive"),
        (DISRUPTION_BUDGET, "chat-interactive"),
        ACTIVE,
        (SERVICE, "chat"),
        (POD_MONITOR, "chat"),
    ]


def test_where_nobody_serves_pod_monitors_none_is_applied() -> None:
    found = planned(a_resource(), an_empty_cluster(pod_monitors_served=False))

    assert not [key for key in keys(found) if key[0] == POD_MONITOR]


def test_all_names_that_a_plan_uses_are_announced() -> None:
    resource = a_resource(a_pool("interactive"), a_pool("batch"))

    found = planned(resource, an_empty_cluster(pod_monitors_served=True))

    memories = {(CONFIG_MAP, f"chat-{pool}-tuning") for pool in ("interactive", "batch")}  # the tuner's
    assert set(wanted_keys(resource, True)) == set(keys(found)) | memories


def test_every_child_carries_the_labels_and_is_owned_without_blocking_deletion() -> None:
    found = planned(a_resource(), an_empty_cluster())

    for desired in found.desired:
        if desired.manager == RECONCILE_MANAGER:
            metadata = desired.body["metadata"]
            assert metadata["namespace"] == "llm"
            assert (
                metadata["labels"].items()
                >= {
                    "app.kubernetes.io/name": "specfleet",
                    "app.kubernetes.io/instance": "chat",
                    "app.kubernetes.io/managed-by": "specfleet",
                    "specfleet.dev/deployment": "chat",
                }.items()
            )
            assert metadata["ownerReferences"] == [
                {
                    "apiVersion": "specfleet.dev/v1alpha1",
                    "kind": "SpeculativeDeployment",
                    "name": "chat",
                    "uid": "uid-of-chat",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ]


def test_a_long_name_is_cut_and_two_long_names_stay_apart() -> None:
    long, longer = "a" * 60, "a" * 61

    names = {name for each in (long, longer) for kind, name in wanted_keys(a_resource(name=each), False)}

    assert all(len(name) <= 63 for name in names)
    assert len(names) == 2 * 5  # the pool's Service and its budget share a name


def first_document(resource: SpeculativeDeployment) -> Document:
    found = planned(resource, an_empty_cluster())
    (data,) = [desired.body["data"] for desired in found.desired if desired.manager == TUNER_MANAGER]
    return Document.from_json(data["schedule.json"])


def test_the_first_schedule_is_flat_at_the_initial_depth() -> None:
    resource = a_resource(speculation={"method": "ngram", "depth": {"initial": 3, "max": 8}})

    assert first_document(resource) == Document(
        version=1, fence=7, max_depth=8, table=flat(3), issued_at=NOON
    )


def test_the_first_schedule_is_the_pin_and_a_pools_own_pin_comes_first() -> None:
    pin, own = [{"maxRequests": 4, "depth": 5}, {"depth": 0}], [{"depth": 1}]

    assert first_document(a_resource(tuning={"schedule": pin})).table == (Row(4, 5), Row(None, 0))
    assert first_document(
        a_resource(a_pool(tuning={"schedule": own}), tuning={"schedule": pin})
    ).table == flat(1)


def test_without_a_proposer_the_first_schedule_drafts_nothing() -> None:
    assert first_document(a_resource(speculation={"method": "none"})).table == flat(0)


def test_a_schedule_that_is_there_is_never_written_again() -> None:
    resource = a_resource(tuning={"schedule": [{"depth": 1}]})
    pushed = json.dumps({"whatever": "the tuner wrote"})
    observed = changed(
        running(resource), *SCHEDULE, edit=lambda live: live.update(data={"schedule.json": pushed})
    )

    found = planned(resource, replace(observed, full=True))

    assert "data" not in body(found, SCHEDULE)
    assert TUNER_MANAGER not in [desired.manager for desired in found.desired]
