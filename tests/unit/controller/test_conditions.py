"""Which conditions are news, and what stays of a status when nothing new can be planned."""

from datetime import UTC, datetime

from specfleet.api.kinds import Object
from specfleet.controller.conditions import contains, invalid_status, news, own_status, without_times

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_condition(
    kind: str, status: str, reason: str = "Reason", since: str = "2025-01-01T00:00:00Z"
) -> Object:
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}


def a_live(*conditions: Object, pools: list[Object] | None = None) -> Object:
    return {"metadata": {"generation": 4}, "status": {"conditions": list(conditions), "pools": pools or []}}


def test_a_condition_that_turned_or_has_another_reason_is_news() -> None:
    live = a_live(a_condition("Ready", "False", "Waiting"), a_condition("Progressing", "True", "Rolling"))
    status = {
        "conditions": [a_condition("Ready", "True", "Serving"), a_condition("Progressing", "True", "Rolling")]
    }

    assert [condition["type"] for condition in news(live, status)] == ["Ready"]


def test_of_the_first_conditions_only_faults_are_news() -> None:
    status = {
        "conditions": [
            a_condition("Ready", "False"),
            a_condition("Degraded", "True"),
            a_condition("ProposerCompatible", "True"),
        ]
    }

    assert [condition["type"] for condition in news(a_live(), status)] == ["Degraded"]


def test_reconciles_own_part_leaves_out_what_the_tuner_writes() -> None:
    live = a_live(
        a_condition("Ready", "True"),
        a_condition("MetricsAvailable", "True"),
        pools=[{"name": "main", "replicas": 2, "state": "Active"}],
    )

    own = own_status(live)

    assert [condition["type"] for condition in own["conditions"]] == ["Ready"]
    assert own["pools"] == [{"name": "main", "replicas": 2}]


def test_of_an_invalid_resource_nothing_is_said_to_be_in_force_and_the_counts_stay() -> None:
    live = a_live(
        a_condition("Ready", "True", "AllPodsServe"),
        a_condition("Progressing", "False", "Complete", since="2025-06-01T00:00:00Z"),
        a_condition("ProposerCompatible", "True"),
        pools=[{"name": "main", "replicas": 2}],
    )

    status = invalid_status(live, ("one", "two"), NOON)

    told = {
        one["type"]: (one["status"], one["reason"], one["lastTransitionTime"]) for one in status["conditions"]
    }
    assert told == {
        "ProposerCompatible": ("True", "Reason", "2025-01-01T00:00:00Z"),
        "Ready": ("False", "Blocked", "2026-01-01T12:00:00Z"),
        "Progressing": ("False", "Blocked", "2025-06-01T00:00:00Z"),
        "Degraded": ("True", "ResourceInvalid", "2026-01-01T12:00:00Z"),
    }
    degraded = status["conditions"][-1]
    assert (degraded["message"], degraded["observedGeneration"]) == ("one; two", 4)
    assert (status["observedGeneration"], status["pools"]) == (4, [{"name": "main", "replicas": 2}])


def test_a_new_time_alone_is_no_other_status() -> None:
    one = {"ready": "1/1", "conditions": [a_condition("Ready", "True", since="2025-01-01T00:00:00Z")]}
    two = {"ready": "1/1", "conditions": [a_condition("Ready", "True", since="2026-01-01T00:00:00Z")]}

    assert without_times(one) == without_times(two)


def test_a_live_status_contains_ours_beside_the_tuners() -> None:
    live = {"ready": "1/1", "pools": [{"name": "main", "replicas": 1, "state": "Active"}], "summary": {}}

    assert contains(live, {"ready": "1/1", "pools": [{"name": "main", "replicas": 1}]})
    assert not contains(live, {"pools": [{"name": "main", "replicas": 2}]})
    assert not contains(live, {"pools": [{"name": "batch", "replicas": 1}]})
