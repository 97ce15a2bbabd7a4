"""Condition ProposerCompatible: what pods tell of the weights that draft. Source: design/api.md, "Status"."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.planning.builders import (
    NOON,
    a_configuration,
    a_pod,
    a_resource,
    an_empty_cluster,
    planned,
    running,
)

from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.plan import plan
from specfleet.planning.status import status

HEAD = a_resource(speculation={"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle3"}})
(POOL,) = planned(HEAD, an_empty_cluster()).pools


def a_pod_of_the_head(name: str, fingerprint: str = POOL.fingerprint, **container: Any) -> dict[str, Any]:
    pod = a_pod(name, container=container)
    pod["metadata"]["labels"]["specfleet.dev/fingerprint"] = fingerprint
    return pod


def loaded(name: str = "b", **fields: Any) -> dict[str, Any]:
    return a_pod_of_the_head(name, ready=True, state={"running": {}}, **fields)


def refusing(name: str = "a", words: str = "proposer: vocabulary of 32000, not 49152", **fields: Any) -> Any:
    ended = {"terminated": {"exitCode": 1, "message": f"specfleet_engine: {words}\n"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    return a_pod_of_the_head(name, ready=False, state=waiting, lastState=ended, **fields)


def conditions(*pods: dict[str, Any], resource: SpeculativeDeployment = HEAD) -> dict[str, dict[str, Any]]:
    observed = replace(running(resource), pods=pods)
    found = status(resource, observed, plan(resource, a_configuration(), observed, NOON), NOON)
    return {entry["type"]: entry for entry in found["conditions"]}


def verdict(*pods: dict[str, Any]) -> tuple[str, str]:
    entry = conditions(*pods)["ProposerCompatible"]
    return entry["status"], entry["reason"]


def test_before_a_pod_has_loaded_it_nobody_knows_whether_the_proposer_fits() -> None:
    starting = a_pod_of_the_head("a", ready=False, state={"running": {}})

    assert verdict() == ("Unknown", "NotLoadedYet")
    assert verdict(starting) == ("Unknown", "NotLoadedYet")


def test_a_pod_that_serves_has_loaded_a_proposer_that_fits() -> None:
    assert verdict(loaded()) == ("True", "ProposerLoaded")


def test_a_proposer_that_a_pod_refuses_is_told_by_name_with_the_engines_reason() -> None:
    found = conditions(refusing())

    assert found["ProposerCompatible"]["status"] == "False"
    assert found["ProposerCompatible"]["reason"] == "ProposerRefused"
    assert found["ProposerCompatible"]["message"] == "pvc://heads/eagle3: vocabulary of 32000, not 49152"
    assert "vocabulary of 32000, not 49152" in found["Degraded"]["message"]


def test_one_refusal_outweighs_pods_that_loaded_the_files_as_they_were() -> None:
    assert verdict(loaded("a"), refusing("b")) == ("False", "ProposerRefused")


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(
            refusing(words="the model path /models/x is not a directory"), id="the-model-is-at-fault"
        ),
        pytest.param(refusing(fingerprint="of-an-older-spec"), id="another-revision"),
        pytest.param(loaded(fingerprint="of-an-older-spec"), id="another-revision-that-serves"),
    ],
)
def test_what_says_nothing_about_this_proposer_does_not_count(pod: dict[str, Any]) -> None:
    assert verdict(pod) == ("Unknown", "NotLoadedYet")


def test_a_pod_that_goes_away_does_not_count() -> None:
    leaving = refusing()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"

    assert verdict(leaving, loaded()) == ("True", "ProposerLoaded")


def a_pod_before_its_engine(name: str = "a", **preflight: Any) -> dict[str, Any]:
    pod = a_pod_of_the_head(name, ready=False, state={"waiting": {"reason": "PodInitializing"}})
    pod["status"]["initContainerStatuses"] = [{"name": "preflight", **preflight}]
    return pod


def ended(code: int, words: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": f"specfleet_preflight: {words}\n"}}


def test_a_pair_that_the_check_refuses_is_told_with_what_to_change_and_never_serves() -> None:
    refused = a_pod_before_its_engine(
        ready=False,
        state={"waiting": {"reason": "CrashLoopBackOff"}},
        lastState=ended(
            1, "proposer: its hidden size is 64, the model's 128: name a proposer for this model"
        ),
    )

    found = conditions(refused)

    assert found["ProposerCompatible"]["status"] == "False"
    assert found["ProposerCompatible"]["message"].startswith("pvc://heads/eagle3: its hidden size is 64")
    assert found["Degraded"]["reason"] == "PreflightFailed"
    assert "model and proposer do not fit: proposer: its hidden size is 64" in found["Degraded"]["message"]


def test_a_pair_that_passed_the_check_is_compatible_before_its_engine_is_ready() -> None:
    passed = a_pod_before_its_engine(ready=True, state=ended(0, "fits: weights 16 MiB and 1 MiB"))

    entry = conditions(passed)["ProposerCompatible"]

    assert (entry["status"], entry["reason"]) == ("True", "PreflightPassed")
    assert entry["message"] == "pvc://heads/eagle3 fits: weights 16 MiB and 1 MiB"
    assert conditions(passed)["Degraded"]["status"] == "False"


def test_a_model_that_cannot_be_served_says_nothing_against_its_proposer() -> None:
    refused = a_pod_before_its_engine(
        ready=False, state=ended(1, "model: engine.maxModelLen 9000 is more than the model's 8192 positions")
    )

    assert conditions(refused)["ProposerCompatible"]["status"] == "Unknown"
    assert "engine.maxModelLen 9000" in conditions(refused)["Degraded"]["message"]


def test_layers_of_the_model_itself_are_known_to_draft_when_a_pod_has_loaded_them() -> None:
    mtp = a_resource(
        engine={"type": "vllm"}, model={"uri": "pvc://weights/mimo"}, speculation={"method": "mtp"}
    )
    (pool,) = planned(mtp, an_empty_cluster()).pools

    before = conditions(resource=mtp)["ProposerCompatible"]
    after = conditions(loaded(fingerprint=pool.fingerprint), resource=mtp)["ProposerCompatible"]

    assert (before["status"], before["reason"]) == ("Unknown", "NotLoadedYet")
    assert (after["status"], after["reason"]) == ("True", "ProposerLoaded")
    assert after["message"] == "method mtp drafts with layers of the model itself"
