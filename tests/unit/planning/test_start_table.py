"""Another table of depths is another pod where the engine reads it at start. Source: design/tuning.md, 9."""

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    NOON,
    SCHEDULE,
    a_pool,
    a_resource,
    after,
    an_empty_cluster,
    body,
    changed,
    keys,
    planned,
)

from specfleet.api.kinds import CONFIG_MAP
from specfleet.api.resource import SpeculativeDeployment
from specfleet.api.schedule import Document, Row, Table, flat
from specfleet.planning.observed import Observed
from specfleet.planning.plan import Plan

KEY = "sglang-adaptive.json"
DEEPER: Table = (Row(8, 4), Row(None, 1))


def on_sglang(method: str = "eagle3", **fields: Any) -> SpeculativeDeployment:
    speculation: dict[str, Any] = {"method": method}
    if method == "eagle3":
        speculation["proposer"] = {"uri": "pvc://heads/eagle3"}
    return a_resource(
        a_pool(**fields.pop("pool", {})),
        model={"uri": "pvc://weights/llama"},
        engine={"type": "sglang"},
        speculation=speculation,
        **fields,
    )


def with_schedule(observed: Observed, text: str) -> Observed:
    """The tuner, or somebody else, wrote the schedule."""

    def write(live: dict[str, Any]) -> None:
        live["data"] = {**(live.get("data") or {}), "schedule.json": text}

    return changed(observed, CONFIG_MAP, SCHEDULE[1], write)


def document(table: Table, version: int = 2) -> str:
    return Document(version, 7, 5, table, NOON + timedelta(minutes=version)).to_json()


def running(resource: SpeculativeDeployment) -> Observed:
    """The cluster once everything was applied, both parts of the schedule's ConfigMap."""
    nothing = an_empty_cluster()
    first = planned(resource, nothing)
    cluster = after(first, nothing)
    return with_schedule(cluster, document(flat(2), version=1))


def table_of(found: Plan) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(body(found, SCHEDULE)["data"][KEY])
    return written


def annotation_of(found: Plan) -> str:
    metadata = body(found, ACTIVE)["spec"]["template"]["metadata"]
    return str(metadata["annotations"]["specfleet.dev/table"])


def test_the_first_table_lies_beside_the_first_schedule_where_the_engine_is_told_to_look() -> None:
    found = planned(on_sglang(), an_empty_cluster())
    (container,) = body(found, ACTIVE)["spec"]["template"]["spec"]["containers"]
    path = container["args"][container["args"].index("--speculative-adaptive-config") + 1]

    assert table_of(found)["1"] == {"candidate_steps": [2]}
    assert path.rpartition("/")[2] == KEY
    assert {"name": "schedule", "mountPath": path.rpartition("/")[0], "readOnly": True} in container[
        "volumeMounts"
    ]


def test_a_pinned_schedule_is_the_first_table() -> None:
    pinned = [{"maxRequests": 4, "depth": 3}, {"depth": 0}]

    found = planned(on_sglang(tuning={"schedule": pinned}), an_empty_cluster())

    assert [table_of(found)[start]["candidate_steps"] for start in ("1", "5")] == [[3], [0]]


def test_another_table_rolls_the_pods_and_nothing_else_of_them_changes() -> None:
    resource = on_sglang()
    cluster = running(resource)
    before = planned(resource, an_empty_cluster())

    pushed = planned(resource, with_schedule(cluster, document(DEEPER)))

    assert table_of(pushed)["1"] == {"candidate_steps": [4]}
    assert table_of(pushed)["9"] == {"candidate_steps": [1]}
    assert annotation_of(pushed) != annotation_of(before)
    first, second = (body(found, ACTIVE)["spec"]["template"] for found in (before, pushed))
    assert first["spec"] == second["spec"]
    # The measurements of both tables are compared: they belong to one baseline.
    assert first["metadata"]["labels"] == second["metadata"]["labels"]


def test_another_version_of_the_same_table_rolls_nothing() -> None:
    resource = on_sglang()

    again = planned(resource, with_schedule(running(resource), document(flat(2), version=9)))

    assert keys(again) == []


def test_a_schedule_that_somebody_broke_rolls_nothing() -> None:
    resource = on_sglang()

    again = planned(resource, with_schedule(running(resource), "{not a schedule"))

    assert keys(again) == []


@pytest.mark.fault("defilantech/LLMKube#192")
@pytest.mark.parametrize(
    ("limits", "strategy"),
    [
        ({"nvidia.com/gpu": 1}, {"maxSurge": 0, "maxUnavailable": 1}),
        ({}, {"maxSurge": 1, "maxUnavailable": 0}),
    ],
)
def test_pods_are_rolled_one_by_one_and_never_wait_for_each_others_card(
    limits: dict[str, Any], strategy: dict[str, int]
) -> None:
    resource = on_sglang(pool={"template": {"resources": {"limits": limits}}})

    found = planned(resource, an_empty_cluster())

    assert body(found, ACTIVE)["spec"]["strategy"]["rollingUpdate"] == strategy


def test_pods_say_what_they_were_started_with_as_far_as_their_load_can_tell() -> None:
    resource = on_sglang()
    # No pod runs more than 16 requests, the default: what comes above makes no other pod.
    tables = ((Row(8, 4), Row(None, 1)), (Row(4, 4), Row(8, 4), Row(300, 1), Row(None, 0)))

    said = {
        annotation_of(planned(resource, with_schedule(running(resource), document(table))))
        for table in tables
    }

    assert said == {'[{"maxRequests": 8, "depth": 4}, {"depth": 1}]'}


def test_a_schedule_that_is_broken_after_a_push_keeps_the_pushed_table() -> None:
    resource = on_sglang()
    cluster = running(resource)
    pushed = after(planned(resource, with_schedule(cluster, document(DEEPER))), cluster)

    again = planned(resource, with_schedule(pushed, "{not a schedule"))

    assert keys(again) == []


@pytest.mark.parametrize(("method", "said"), [("ngram", '[{"depth": 2}]'), ("none", '[{"depth": 0}]')])
def test_an_engine_of_one_depth_reads_no_table_and_its_pods_name_that_depth(method: str, said: str) -> None:
    found = planned(on_sglang(method), an_empty_cluster())

    assert "data" not in body(found, SCHEDULE)
    assert annotation_of(found) == said


def test_an_engine_that_follows_its_schedule_is_started_with_no_table() -> None:
    found = planned(a_resource(), an_empty_cluster())

    assert "data" not in body(found, SCHEDULE)
    assert "annotations" not in body(found, ACTIVE)["spec"]["template"]["metadata"]
