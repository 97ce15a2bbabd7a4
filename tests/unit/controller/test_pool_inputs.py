"""What the tuner is told of pools of different engines."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.planning.builders import a_configuration, a_pool, a_resource
from tests.unit.telemetry.pages import POD, names

from specfleet.api.resource import Status
from specfleet.api.schedule import Document, Row, Table, flat
from specfleet.controller.fleet import PoolView
from specfleet.controller.pool_inputs import evidence_of, metrics_of, settings_of
from specfleet.engines.metrics_sglang import SGLANG
from specfleet.engines.metrics_vllm import BUILTIN, VLLM
from specfleet.planning.served import proposer_key
from specfleet.planning.start_table import table_annotation
from specfleet.telemetry.samples import Readings
from specfleet.tuning.decide import decide
from specfleet.tuning.evidence import Evidence, Usable, data_fault
from specfleet.tuning.interval import Counts, PodInterval
from specfleet.tuning.memory import Memory

LIVE = {"method": "ngram", "depth": {"initial": 3, "max": 5}}
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_view(engine: dict[str, Any], speculation: dict[str, Any]) -> PoolView:
    """One ready pod whose schedule was written with depth 5."""
    resource = a_resource(engine=engine, speculation=speculation, model={"uri": "file:///models/m"})
    document = Document(version=3, fence=1, max_depth=5, table=flat(5), issued_at=NOW)
    schedule = {"data": {"schedule.json": document.to_json()}}
    return PoolView({}, resource, resource.spec.pools[0], schedule, None, {POD: {"metadata": {}}})


def told(view: PoolView, shown: frozenset[str]) -> Evidence:
    readings = Readings(reporting=frozenset({POD}), names={POD: shown})
    return evidence_of(view, readings, None, a_configuration(), NOW.timestamp())


@pytest.mark.parametrize(
    ("engine", "dictionary"),
    [("builtin", BUILTIN), ("vllm", VLLM), ("sglang", SGLANG)],
)
def test_each_engine_is_read_by_its_own_dictionary(engine: str, dictionary: object) -> None:
    assert metrics_of(a_view({"type": engine}, LIVE)) is dictionary


def test_a_missing_metric_is_named_with_the_engine_and_its_version() -> None:
    view = a_view({"type": "vllm", "version": "0.33.0"}, LIVE)

    evidence = told(view, names("vllm-0.32.0-draft-idle") - {"vllm:kv_cache_usage_perc"})

    fault = data_fault(evidence, Usable(), ())
    assert fault is not None
    assert fault.kind == "MetricsMissing"
    assert fault.reason.startswith(
        "vLLM 0.33.0: 1 of 1 ready pods (chat-0) do not show vllm:kv_cache_usage_perc: "
    )


def test_p11_a_pool_without_a_proposer_need_not_show_drafts() -> None:
    plain = names("vllm-0.32.0-no-speculation")

    assert data_fault(told(a_view({"type": "vllm"}, {"method": "none"}), plain), Usable(), ()) is None
    assert data_fault(told(a_view({"type": "vllm"}, LIVE), plain), Usable(), ()) is not None


def test_an_engine_of_one_depth_has_a_table_of_that_depth_and_reports_no_version() -> None:
    live, fixed = (told(a_view({"type": engine}, LIVE), frozenset()) for engine in ("vllm", "sglang"))

    assert live.document is not None and fixed.document is not None
    assert (live.document.table, live.follows_schedule) == (flat(5), True)
    assert (fixed.document.table, fixed.follows_schedule) == (flat(3), False)
    assert (live.variable_drafts, fixed.variable_drafts) == (True, True)


def test_an_engine_that_reads_no_schedule_is_not_blamed_for_not_applying_it() -> None:
    view = a_view({"type": "sglang"}, LIVE)
    evidence = told(view, names("sglang-0.5.23-ended"))

    outcome = decide(settings_of(view, a_configuration()), evidence, Memory(), NOW.timestamp() + 600.0)

    assert outcome.memory.fault is None


HEAD = {"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle3"}}


NEW, OLD = flat(5), (Row(8, 2), Row(None, 0))


def a_pod(table: Table | None, *, restarts: int = 0) -> dict[str, Any]:
    return {
        "metadata": {"annotations": table_annotation(table)},
        "status": {"containerStatuses": [{"name": "engine", "restartCount": restarts}]},
    }


def a_rolled_view(**pods: dict[str, Any]) -> PoolView:
    view = a_view({"type": "sglang"}, HEAD)
    return replace(view, ready={("llm", name): pod for name, pod in pods.items()}, live={"status": {}})


A, B, C = ("llm", "a"), ("llm", "b"), ("llm", "c")


def test_a_pod_that_was_rolled_for_the_table_in_force_has_its_version() -> None:
    view = a_rolled_view(a=a_pod(NEW), b=a_pod(OLD))
    readings = Readings(tuple(PodInterval(pod, 0.0, 15.0, Counts()) for pod in (A, B)), frozenset({A, B}))

    found = evidence_of(view, readings, None, a_configuration(), NOW.timestamp())

    assert found.versions == {A: (1, 3)}
    assert [(one.version_at_start, one.version) for one in found.intervals] == [
        ((1, 3), (1, 3)),
        (None, None),
    ]
    # The table that the tuner wrote is the one in force: pods follow it, if not at once.
    assert found.document is not None
    assert (found.document.table, found.follows_schedule) == (flat(5), True)


def test_while_pods_are_rolled_each_has_the_table_that_it_was_started_with() -> None:
    view = a_rolled_view(a=a_pod(NEW), b=a_pod(OLD), c=a_pod(None))

    found = evidence_of(view, Readings(), None, a_configuration(), NOW.timestamp())

    assert found.tables == {A: NEW, B: OLD}


def test_a_container_that_started_again_has_read_the_newest_table_whatever_its_pod_says() -> None:
    view = a_rolled_view(a=a_pod(NEW, restarts=1), b=a_pod(OLD, restarts=1))

    found = evidence_of(view, Readings(), None, a_configuration(), NOW.timestamp())

    assert found.tables == {A: NEW}


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"maxRequests": 4}]', "3"])
def test_an_annotation_that_somebody_broke_says_nothing(text: str) -> None:
    view = a_rolled_view(a={"metadata": {"annotations": {"specfleet.dev/table": text}}})

    found = evidence_of(view, Readings(), None, a_configuration(), NOW.timestamp())

    assert (found.tables, found.versions) == ({}, {})


def test_pods_of_one_depth_that_are_rolled_to_another_keep_theirs() -> None:
    view = a_view({"type": "sglang"}, LIVE)
    view = replace(view, ready={A: a_pod(flat(3)), B: a_pod(flat(2))})

    assert told(view, frozenset()).tables == {A: flat(3), B: flat(2)}


def test_a_rollout_has_time_for_every_pod_to_stop_and_start() -> None:
    rolled, live = (
        settings_of(a_view({"type": engine}, HEAD), a_configuration()) for engine in ("sglang", "vllm")
    )

    assert (live.actuator, live.rollout_seconds) == ("live", 0.0)
    assert rolled.actuator == "rollout"
    # One pod: 15 minutes and 80 GiB at 100 MiB/s to start, 15 s to leave, 120 s to drain, 25 s to end.
    assert rolled.rollout_seconds == 1740 + 15 + 120 + 25


def without_proposer(view: PoolView) -> PoolView:
    """The same once the tuner has said in status that the pool serves without its proposer."""
    said = {"phase": "InForce", "since": "2026-01-01T09:00:00Z", "reason": "slower"}
    status = {
        "pools": [{"name": view.pool.name, "hardOff": {**said, "proposer": proposer_key(view.resource)}}]
    }
    resource = view.resource.model_copy(update={"status": Status.model_validate(status)})
    return replace(view, resource=resource)


def test_under_hard_off_pods_are_read_as_without_a_proposer_and_judged_by_what_the_user_wrote() -> None:
    loaded = a_view({"type": "vllm"}, LIVE)
    view = without_proposer(loaded)

    evidence = told(view, names("vllm-0.32.0-draft-idle") - {"vllm:spec_decode_num_drafts_total"})
    assert not evidence.missing[POD]
    settings, before = settings_of(view, a_configuration()), settings_of(loaded, a_configuration())
    assert (settings.max_depth, settings.proposer) == (5, before.proposer)


@pytest.mark.parametrize(("limits", "seconds"), [({"nvidia.com/gpu": 1}, 300.0), ({}, 0.0)])
def test_a_restart_costs_capacity_where_the_old_pod_goes_first(
    limits: dict[str, Any], seconds: float
) -> None:
    view = a_view({"type": "builtin"}, LIVE)
    pool = a_resource(a_pool(template={"resources": {"limits": limits}})).spec.pools[0]

    assert settings_of(replace(view, pool=pool), a_configuration()).restart_seconds == seconds


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ({"type": "Ready", "status": "False", "reason": "Blocked"}, True),
        ({"type": "Degraded", "status": "True", "reason": "ApplyRefused"}, True),
        ({"type": "Ready", "status": "False", "reason": "PodsNotReady"}, False),
    ],
)
def test_the_tuner_is_told_that_reconcile_refuses_the_resource(condition: dict[str, Any], held: bool) -> None:
    view = a_view({"type": "builtin"}, LIVE)
    status = {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T09:00:00Z"}]}
    resource = view.resource.model_copy(update={"status": Status.model_validate(status)})

    assert settings_of(replace(view, resource=resource), a_configuration()).held == held
