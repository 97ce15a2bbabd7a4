"""Which conditions are news, and what stays of a status when nothing new can be planned."""

from datetime import UTC, datetime

from specfleet.api.kinds import Object
from specfleet.controller.conditions import contains, news, own_status, with_degraded, without_times

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


def test_degraded_keeps_the_time_at_which_it_turned() -> None:
    live = a_live(a_condition("Degraded", "True", "Other", since="2025-06-01T00:00:00Z"))

    (degraded,) = with_degraded({}, live, reason="ResourceInvalid", messages=("one", "two"), now=NOON)[
        "conditions"
    ]

    assert degraded["lastTransitionTime"] == "2025-06-01T00:00:00Z"
    assert (degraded["reason"], degraded["message"], degraded["observedGeneration"]) == (
        "ResourceInvalid",
        "one; two",
        4,
    )


def test_degraded_that_turns_now_says_so() -> None:
    live = a_live(a_condition("Degraded", "False"))

    (degraded,) = with_degraded({}, live, reason="ResourceInvalid", messages=("one",), now=NOON)["conditions"]

    assert degraded["lastTransitionTime"] == "2026-01-01T12:00:00Z"


def test_a_new_time_alone_is_no_other_status() -> None:
    one = {"ready": "1/1", "conditions": [a_condition("Ready", "True", since="2025-01-01T00:00:00Z")]}
    two = {"ready": "1/1", "conditions": [a_condition("Ready", "True", since="2026-01-01T00:00:00Z")]}

    assert without_times(one) == without_times(two)


def test_a_live_status_contains_ours_beside_the_tuners() -> None:
    live = {"ready": "1/1", "pools": [{"name": "main", "replicas": 1, "state": "Active"}], "summary": {}}

    assert contains(live, {"ready": "1/1", "pools": [{"name": "main", "replicas": 1}]})
    assert not contains(live, {"pools": [{"name": "main", "replicas": 2}]})
    assert not contains(live, {"pools": [{"name": "batch", "replicas": 1}]})
