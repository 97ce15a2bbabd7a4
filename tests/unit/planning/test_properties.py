"""What holds for every resource that the API accepts."""

import json
import re
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.planning.builders import NOON, a_configuration, after, an_empty_cluster

from specfleet.api.engine_versions import methods
from specfleet.api.resource import SpeculativeDeployment
from specfleet.api.speculation_spec import MODEL_METHODS
from specfleet.planning.plan import Plan, plan, wanted_keys
from specfleet.planning.status import status

DNS_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")  # RFC 1035: what a Service's name has to be

unhurried = settings(deadline=None)  # the machine may be busy

names = st.from_regex(r"\A[a-z]([-a-z0-9]{0,61}[a-z0-9])?\Z").filter(lambda name: len(name) <= 63)
pool_names = st.from_regex(r"\A[a-z]([-a-z0-9]{0,18}[a-z0-9])?\Z").filter(lambda name: len(name) <= 20)
gpus = st.sampled_from([{}, {"limits": {"nvidia.com/gpu": 1}}, {"limits": {"cpu": "2"}}])
templates = st.fixed_dictionaries(
    {
        "resources": gpus,
        "labels": st.dictionaries(st.sampled_from(["team", "tier"]), st.sampled_from(["a", "b"])),
        "nodeSelector": st.dictionaries(st.just("gpu"), st.sampled_from(["l4", "h100"])),
        "affinity": st.sampled_from([{}, {"nodeAffinity": {"any": [{"list": [1, 2]}]}}]),
        "serviceAccountName": st.sampled_from(["", "default", "not-allowed"]),
    }
)
pools = st.lists(
    st.fixed_dictionaries(
        {"name": pool_names, "template": templates}, optional={"replicas": st.integers(0, 20)}
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda pool: pool["name"],
)
engines = st.sampled_from(
    [
        ({"type": "builtin"}, {"uri": "pvc://weights/model"}),
        ({"type": "builtin", "image": "example.test/own:1"}, {"uri": "file:///model"}),
        ({"type": "simulated"}, {}),
        ({"type": "vllm", "version": "0.32.0", "maxNumSeqs": 6}, {"uri": "pvc://weights/model"}),
        ({"type": "sglang", "tensorParallelSize": 2}, {"uri": "file:///model"}),
    ]
)


def speculations(engine: str) -> st.SearchStrategy[dict[str, Any]]:
    known = methods(engine)
    without_weights = [{"method": method} for method in known if method not in MODEL_METHODS]
    with_weights = [
        {"method": method, "proposer": {"uri": uri}}
        for method in known
        if method in MODEL_METHODS
        for uri in ("pvc://weights/proposer", "pvc://heads", "file:///proposer")
    ]
    return st.sampled_from([*without_weights, *with_weights])


@st.composite
def resources(draw: st.DrawFn) -> SpeculativeDeployment:
    engine, model = draw(engines)
    return SpeculativeDeployment.model_validate(
        {
            "metadata": {"name": draw(names), "namespace": "llm", "uid": "uid", "generation": 1},
            "spec": {
                "model": model,
                "engine": engine,
                "speculation": draw(speculations(engine["type"])),
                "pools": draw(pools),
            },
        }
    )


def planned(resource: SpeculativeDeployment) -> Plan:
    return plan(resource, a_configuration(), an_empty_cluster(pod_monitors_served=True), NOON)


@unhurried
@given(resources())
def test_equal_inputs_give_equal_plans(resource: SpeculativeDeployment) -> None:
    again = SpeculativeDeployment.model_validate(resource.model_dump(by_alias=True, exclude_unset=True))

    assert planned(again) == planned(resource)


@unhurried
@given(resources())
def test_names_are_dns_labels_and_no_two_objects_share_one(resource: SpeculativeDeployment) -> None:
    keys = wanted_keys(resource, True)

    assert all(DNS_LABEL.fullmatch(name) and len(name) <= 63 for _, name in keys)
    assert len(set(keys)) == len(keys)


@unhurried
@given(resources())
def test_what_a_plan_hands_out_shares_no_state_with_the_resource(resource: SpeculativeDeployment) -> None:
    before = deepcopy(resource.model_dump(mode="json"))

    for desired in planned(resource).desired:
        _spoil(desired.body)

    assert resource.model_dump(mode="json") == before
    assert planned(resource) == planned(resource)
    assert "spoilt" not in json.dumps([desired.body for desired in planned(resource).desired])


@unhurried
@given(resources())
def test_a_plan_that_was_carried_out_leaves_nothing_to_do(resource: SpeculativeDeployment) -> None:
    nothing = an_empty_cluster(pod_monitors_served=True)

    there = after(plan(resource, a_configuration(), nothing, NOON), nothing)

    assert plan(resource, a_configuration(), there, NOON).desired == ()


@unhurried
@given(resources())
def test_a_held_pool_keeps_everything_it_has(resource: SpeculativeDeployment) -> None:
    found = planned(resource)

    for pool in found.pools:
        if pool.held:
            assert pool.deployment not in [name for _, name in (desired.key for desired in found.desired)]
    assert found.removals == ()


@unhurried
@given(resources())
def test_status_counts_each_pool_once_and_has_each_condition_once(resource: SpeculativeDeployment) -> None:
    nothing = an_empty_cluster()

    found = status(resource, nothing, plan(resource, a_configuration(), nothing, NOON), NOON)

    assert [pool["name"] for pool in found["pools"]] == [pool.name for pool in resource.spec.pools]
    assert sorted(entry["type"] for entry in found["conditions"]) == [
        "Degraded",
        "Progressing",
        "ProposerCompatible",
        "Ready",
    ]


def _spoil(body: Any) -> None:
    if isinstance(body, dict):
        for value in body.values():
            _spoil(value)
        body["spoilt"] = True
    elif isinstance(body, list):
        for value in body:
            _spoil(value)
        body.append("spoilt")
