"""Pods of a pool under hard-off: planned without their proposer, until that proposer is another one."""

from typing import Any

import pytest
from tests.unit.planning.builders import (
    ACTIVE,
    EARLIER_TEXT,
    NOON,
    a_pool,
    a_resource,
    an_empty_cluster,
    planned,
    rolled_out,
    running,
)

from specfleet.api.resource import SpeculativeDeployment
from specfleet.planning.plan import Plan
from specfleet.planning.served import as_served, proposer_key
from specfleet.planning.status import status

DRAFT = {"method": "draftModel", "proposer": {"uri": "file:///models/draft"}}


def said(resource: SpeculativeDeployment, phase: str = "InForce", **fields: Any) -> dict[str, Any]:
    """Give the status that the tuner writes."""
    found = {"phase": phase, "since": EARLIER_TEXT, "proposer": proposer_key(resource), "reason": "slower"}
    return {"pools": [{"name": "interactive", "hardOff": {**found, **fields}}]}


def off(*pools: dict[str, Any], phase: str = "InForce", **spec: Any) -> SpeculativeDeployment:
    return a_resource(*pools, status=said(a_resource(*pools, **spec), phase), **spec)


def arguments(plan: Plan, name: str = ACTIVE[1]) -> list[str]:
    (body,) = (one.body for one in plan.desired if one.key == (ACTIVE[0], name))
    return list(body["spec"]["template"]["spec"]["containers"][0]["args"])


def test_pods_are_planned_as_with_method_none() -> None:
    without = planned(a_resource(speculation={"method": "none"}), an_empty_cluster())
    found = planned(off(speculation=DRAFT), an_empty_cluster())

    assert arguments(found) == arguments(without)
    assert "--proposer" not in arguments(found)
    assert found.pools[0].fingerprint == without.pools[0].fingerprint


def test_the_deployment_is_rolled_and_nothing_else_changes() -> None:
    resource = off(speculation=DRAFT)
    before = running(a_resource(speculation=DRAFT))

    assert [one.key for one in planned(resource, before).desired] == [ACTIVE]


def test_an_advice_changes_no_pod() -> None:
    before = running(a_resource())

    assert planned(off(phase="Advised"), before).desired == ()


@pytest.mark.parametrize(
    "other",
    [
        {"speculation": {"method": "draftModel", "proposer": {"uri": "file:///models/better"}}},
        {"speculation": DRAFT, "model": {"uri": "file:///models/other"}},
        {"speculation": DRAFT, "engine": {"type": "builtin", "image": "example.test/faster:1"}},
    ],
    ids=["proposer", "model", "engine"],
)
def test_it_does_not_hold_for_another_proposer_model_or_engine(other: dict[str, Any]) -> None:
    resource = a_resource(status=said(a_resource(speculation=DRAFT)), **other)

    assert as_served(resource, "interactive") is resource


def test_it_holds_for_its_own_pool_only() -> None:
    pools = (a_pool(), a_pool("batch"))
    plan = planned(off(*pools, speculation=DRAFT), an_empty_cluster())

    assert "--proposer" not in arguments(plan)
    assert "--proposer" in arguments(plan, "chat-batch-active")


def test_objectives_tuning_and_replicas_leave_it_in_force() -> None:
    changed = a_resource(
        a_pool(replicas=5), tuning={"mode": "Enforce"}, status=said(a_resource()), objectives={}
    )

    assert as_served(changed, "interactive").spec.speculation.method == "none"


def test_a_pod_without_the_proposer_says_nothing_about_whether_it_fits() -> None:
    resource = off(speculation=DRAFT)
    observed = rolled_out(running(resource))

    found = status(resource, observed, planned(resource, observed), NOON)

    (compatible,) = (one for one in found["conditions"] if one["type"] == "ProposerCompatible")
    assert (compatible["status"], compatible["reason"]) == ("Unknown", "HardOff")


UPGRADED = {"images": {"builtin": "example.test/engine:2", "simulated": "example.test/simulated:2"}}


def test_an_upgrade_of_the_operator_brings_no_other_image_with_hard_off_nor_with_its_end() -> None:
    loaded, unloaded = a_resource(speculation=DRAFT), off(speculation=DRAFT)

    assert image(planned(unloaded, running(loaded), **UPGRADED)) == "example.test/engine:1"
    assert image(planned(loaded, running(unloaded), **UPGRADED)) == "example.test/engine:1"


def test_a_proposer_that_comes_back_is_fetched_from_the_hub_of_the_configuration() -> None:
    hub = {"modelHub": {"endpoint": "https://hub.example"}}
    head = {"method": "eagle3", "proposer": {"uri": "hf://heads/eagle3"}}
    fields = {"engine": {"type": "vllm"}, "model": {"uri": "file:///models/m"}}
    loaded, unloaded = a_resource(speculation=head, **fields), off(speculation=head, **fields)

    found = pod(planned(loaded, running(unloaded), **hub))

    environment = [one for init in found["initContainers"] for one in init.get("env", ())]
    assert {"name": "HF_ENDPOINT", "value": "https://hub.example"} in environment


def image(plan: Plan) -> str:
    return str(pod(plan)["containers"][0]["image"])


def pod(plan: Plan) -> dict[str, Any]:
    (body,) = (one.body for one in plan.desired if one.key == ACTIVE)
    return dict(body["spec"]["template"]["spec"])
