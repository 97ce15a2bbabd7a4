"""Reconcile's part of status: numbers and conditions. Source: design/api.md, "Status"."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    EARLIER_TEXT,
    NOON,
    NOON_TEXT,
    a_configuration,
    a_pod,
    a_pool,
    a_resource,
    after,
    an_empty_cluster,
    changed,
    planned,
    rolled_out,
    running,
    scaled_by,
    with_object,
)

from specfleet.api.kinds import SERVICE
from specfleet.api.resource import SpeculativeDeployment, Status
from specfleet.planning.observed import Observed
from specfleet.planning.plan import plan
from specfleet.planning.status import status


def status_of(resource: SpeculativeDeployment, observed: Observed, **configuration: Any) -> dict[str, Any]:
    found = plan(resource, a_configuration(**configuration), observed, NOON)
    return status(resource, observed, found, NOON)


def condition(found: dict[str, Any], of_type: str) -> dict[str, Any]:
    (only,) = [entry for entry in found["conditions"] if entry["type"] == of_type]
    return dict(only)


def verdict(found: dict[str, Any], of_type: str) -> tuple[str, str]:
    entry = condition(found, of_type)
    return entry["status"], entry["reason"]


def test_everything_that_serves_at_the_current_revision_is_ready_and_at_rest() -> None:
    found = status_of(a_resource(generation=4), rolled_out(running(a_resource(generation=4))))

    assert found["observedGeneration"] == 4
    assert found["ready"] == "2/2"
    assert verdict(found, "Ready") == ("True", "AllPodsServe")
    assert verdict(found, "Progressing") == ("False", "Complete")
    assert verdict(found, "Degraded") == ("False", "NoProblem")
    assert {entry["observedGeneration"] for entry in found["conditions"]} == {4}


def test_the_numbers_of_each_pool_are_those_of_its_deployment() -> None:
    observed = rolled_out(running(a_resource()), replicas=3, readyReplicas=2, updatedReplicas=1)

    (pool,) = status_of(a_resource(), observed)["pools"]

    assert pool == {
        "name": "interactive",
        "replicas": 3,
        "readyReplicas": 2,
        "updatedReplicas": 1,
        "slices": [{"name": "active", "replicas": 3, "ready": 2, "updated": 1}],
    }


def test_the_status_is_one_that_the_api_reads_back() -> None:
    found = status_of(a_resource(), rolled_out(running(a_resource())))

    read = Status.model_validate(found)

    assert read.pools[0].ready_replicas == 2
    assert len(read.conditions) == 4


def test_pods_are_summed_over_pools() -> None:
    resource = a_resource(a_pool("interactive", replicas=3), a_pool("batch", replicas=2))

    assert status_of(resource, rolled_out(running(resource), readyReplicas=2))["ready"] == "4/5"


def test_the_fingerprint_is_what_the_pods_carry() -> None:
    observed = running(a_resource())

    labels = observed.objects[ACTIVE]["spec"]["template"]["metadata"]["labels"]

    assert status_of(a_resource(), observed)["fingerprint"] == labels["specfleet.dev/fingerprint"]


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param({"readyReplicas": 1}, id="a-pod-is-not-ready"),
        pytest.param({"updatedReplicas": 1}, id="an-old-pod-satisfies-the-count"),
        pytest.param({"replicas": 3}, id="an-old-pod-is-left"),
    ],
)
def test_it_is_not_ready_while_a_pod_of_the_current_revision_is_missing(counts: dict[str, int]) -> None:
    found = status_of(a_resource(), rolled_out(running(a_resource()), **counts))

    assert verdict(found, "Ready") == ("False", "PodsNotReady")
    assert verdict(found, "Progressing") == ("True", "PodsChange")


def test_pods_that_fetch_their_model_are_told_while_they_do() -> None:
    def fetching(name: str, container: str, state: str) -> dict[str, Any]:
        pod = a_pod(name, phase="Pending")
        pod["status"]["initContainerStatuses"] = [{"name": container, "state": {state: {}}}]
        return pod

    pods = (
        fetching("a", "download-model", "running"),
        fetching("b", "download-model", "running"),
        fetching("c", "download-proposer", "running"),
        fetching("d", "download-model", "terminated"),
        fetching("e", "preflight", "running"),
    )

    found = status_of(a_resource(), replace(running(a_resource()), pods=pods))

    message = condition(found, "Progressing")["message"]
    assert message.endswith("; 2 pods fetch the model, 1 pod fetches the proposer")


def test_a_deployment_that_its_controller_has_not_seen_is_not_ready() -> None:
    observed = rolled_out(running(a_resource()), observedGeneration=0)

    assert verdict(status_of(a_resource(), observed), "Ready") == ("False", "NotApplied")


@pytest.mark.fault("ai-dynamo/dynamo#3567")
def test_a_new_spec_is_not_ready_while_old_pods_still_satisfy_every_count() -> None:
    observed = rolled_out(running(a_resource()))
    newer = a_resource(engine={"type": "builtin", "maxNumSeqs": 32}, generation=2)

    before_apply = status_of(newer, observed)
    after_apply = status_of(newer, after(planned(newer, observed), observed))

    assert verdict(before_apply, "Ready") == ("False", "NotApplied")
    assert verdict(after_apply, "Ready") == ("False", "NotApplied")


def test_a_new_number_of_replicas_is_not_there_before_the_pods_are() -> None:
    observed = rolled_out(running(a_resource()))

    found = status_of(a_resource(a_pool(replicas=3)), observed)

    assert found["ready"] == "2/3"
    assert verdict(found, "Ready") == ("False", "PodsNotReady")


def test_no_pods_wanted_is_ready_and_says_so() -> None:
    resource = a_resource(a_pool(replicas=0))

    found = status_of(resource, rolled_out(running(resource)))

    assert found["ready"] == "0/0"
    assert verdict(found, "Ready") == ("True", "ScaledToZero")


def test_an_autoscaler_that_owns_replicas_is_named_and_is_no_fault() -> None:
    observed = rolled_out(scaled_by("kube-controller-manager", running(a_resource()), ACTIVE[1], 5))

    found = status_of(a_resource(), observed)

    assert verdict(found, "Ready") == ("True", "AllPodsServe")
    assert "replicas set by kube-controller-manager" in condition(found, "Ready")["message"]
    assert verdict(found, "Degraded") == ("False", "NoProblem")


def test_a_name_conflict_degrades_and_names_the_object() -> None:
    found = status_of(a_resource(), with_object(rolled_out(running(a_resource())), SERVICE, "chat"))

    assert verdict(found, "Degraded") == ("True", "NameConflict")
    assert "Service chat" in condition(found, "Degraded")["message"]
    assert verdict(found, "Ready") == ("False", "Blocked")


def test_pods_of_a_refused_change_keep_their_counts() -> None:
    observed = rolled_out(running(a_resource()))
    template = {"serviceAccountName": "admin"}

    found = status_of(a_resource(a_pool(template=template)), observed)

    assert found["ready"] == "2/2"
    assert verdict(found, "Degraded") == ("True", "ServiceAccountNotAllowed")
    assert verdict(found, "Ready") == ("False", "Blocked")
    assert verdict(found, "Progressing") == ("False", "Blocked")


def test_foreign_pods_are_not_counted_as_ours() -> None:
    observed = with_object(an_empty_cluster(), *ACTIVE)
    observed = changed(
        observed, *ACTIVE, edit=lambda live: live.update(status={"replicas": 9, "readyReplicas": 9})
    )

    assert status_of(a_resource(), observed)["ready"] == "0/2"


def test_waiting_for_a_deletion_is_progress_and_no_fault() -> None:
    found = status_of(a_resource(uid="new"), running(a_resource(uid="old")))

    assert verdict(found, "Progressing") == ("True", "WaitingForDeletion")
    assert verdict(found, "Degraded") == ("False", "NoProblem")
    assert verdict(found, "Ready") == ("False", "Blocked")


def test_several_problems_are_all_told_and_the_worst_gives_the_reason() -> None:
    template = {"serviceAccountName": "admin"}
    resource = a_resource(a_pool(template=template), tuning={"metricsSource": "thanos"})

    found = condition(status_of(resource, an_empty_cluster()), "Degraded")

    assert found["reason"] == "ServiceAccountNotAllowed"
    assert "thanos" in found["message"]


@pytest.mark.parametrize("reason", ["ScheduleNotApplied", "ScheduleNotEffective"])
def test_a_fault_that_the_tuner_found_degrades(reason: str) -> None:
    fault = {"reason": reason, "message": "1 of 2 pods reports version 12"}
    resource = a_resource(status={"pools": [{"name": "interactive", "fault": fault}]})

    found = condition(status_of(resource, rolled_out(running(resource))), "Degraded")

    assert (found["status"], found["reason"]) == ("True", reason)
    assert found["message"] == "pool interactive: 1 of 2 pods reports version 12"


def test_a_fault_of_a_pool_that_is_gone_is_forgotten() -> None:
    fault = {"reason": "ScheduleNotApplied", "message": "no pod reports version 12"}
    resource = a_resource(status={"pools": [{"name": "gone", "fault": fault}]})

    assert verdict(status_of(resource, rolled_out(running(resource))), "Degraded") == ("False", "NoProblem")


def with_condition(**fields: str) -> Observed:
    def report(live: dict[str, Any]) -> None:
        live["status"]["conditions"] = [fields]

    return changed(rolled_out(running(a_resource()), readyReplicas=0), *ACTIVE, edit=report)


def test_pods_that_the_api_server_refuses_degrade_with_its_words() -> None:
    observed = with_condition(type="ReplicaFailure", status="True", message="exceeded quota:\n gpus")

    found = condition(status_of(a_resource(), observed), "Degraded")

    assert found["reason"] == "PodsNotCreated"
    assert found["message"] == "pool interactive: exceeded quota: gpus"


def test_a_rollout_past_its_deadline_is_no_progress() -> None:
    observed = with_condition(type="Progressing", status="False", reason="ProgressDeadlineExceeded")

    found = status_of(a_resource(), observed)

    assert verdict(found, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert verdict(found, "Degraded") == ("True", "RolloutStuck")


def test_a_condition_that_stays_keeps_the_time_of_its_last_change() -> None:
    def since(of_type: str, value: str) -> dict[str, str]:
        return {"type": of_type, "status": value, "reason": "Any", "lastTransitionTime": EARLIER_TEXT}

    resource = a_resource(status={"conditions": [since("Ready", "True"), since("Degraded", "True")]})

    found = status_of(resource, rolled_out(running(resource)))

    assert condition(found, "Ready")["lastTransitionTime"] == EARLIER_TEXT
    assert condition(found, "Degraded")["lastTransitionTime"] == NOON_TEXT
    assert condition(found, "Progressing")["lastTransitionTime"] == NOON_TEXT


@pytest.mark.parametrize(
    ("method", "reason"),
    [("ngram", "NoProposerModel"), ("none", "NoProposer")],
)
def test_methods_without_a_proposer_model_are_always_compatible(method: str, reason: str) -> None:
    resource = a_resource(speculation={"method": method})

    assert verdict(status_of(resource, an_empty_cluster()), "ProposerCompatible") == ("True", reason)
