"""What starts a new baseline and what does not. Source: design/tuning.md, section 12."""

from typing import Any

import pytest
from tests.unit.planning.builders import a_pool, a_resource, a_simulated_resource, an_empty_cluster, planned

from specfleet.api.resource import SpeculativeDeployment


def fingerprint(resource: SpeculativeDeployment) -> str:
    (pool,) = planned(resource, an_empty_cluster(), allowedServiceAccounts=["inference"]).pools
    return pool.fingerprint


def with_template(**template: Any) -> SpeculativeDeployment:
    return a_resource(a_pool(template=template))


HEAD = {"method": "eagle", "proposer": {"uri": "pvc://heads/eagle"}}
NODES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param(a_resource(model={"uri": "file:///models/other"}), id="model"),
        pytest.param(a_resource(engine={"type": "builtin", "image": "example.test/own:1"}), id="image"),
        pytest.param(a_resource(engine={"type": "builtin", "dtype": "float32"}), id="dtype"),
        pytest.param(a_resource(engine={"type": "builtin", "maxNumSeqs": 8}), id="max-num-seqs"),
        pytest.param(a_resource(engine={"type": "builtin", "kvCacheMib": 1024}), id="kv-cache"),
        pytest.param(a_resource(engine={"type": "builtin", "extraArgs": ["--threads=2"]}), id="extra-args"),
        pytest.param(
            a_resource(engine={"type": "builtin", "env": [{"name": "A", "value": "1"}]}), id="environment"
        ),
        pytest.param(a_resource(speculation={"method": "none"}), id="method"),
        pytest.param(a_resource(speculation=HEAD), id="proposer"),
        pytest.param(a_resource(speculation={"method": "ngram", "ngram": {"minMatch": 3}}), id="ngram"),
        pytest.param(a_resource(speculation={"method": "ngram", "depth": {"max": 6}}), id="max-depth"),
        pytest.param(with_template(resources={"limits": {"nvidia.com/gpu": 1}}), id="gpus"),
        pytest.param(with_template(nodeSelector={"gpu": "l4"}), id="node-selector"),
        pytest.param(with_template(affinity={"nodeAffinity": NODES}), id="node-affinity"),
    ],
)
def test_what_changes_the_speed_of_a_step_starts_a_new_baseline(resource: SpeculativeDeployment) -> None:
    assert fingerprint(resource) != fingerprint(a_resource())


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param(a_resource(a_pool(replicas=9)), id="replicas"),
        pytest.param(a_resource(tuning={"schedule": [{"depth": 0}]}), id="schedule"),
        pytest.param(a_resource(tuning={"mode": "Enforce", "maxPushesPerHour": 1}), id="tuning"),
        pytest.param(a_resource(objectives={"timePerOutputToken": "40ms"}), id="objectives"),
        pytest.param(a_resource(a_pool(objectives={"kvHeadroomPercent": 20})), id="pool-objectives"),
        pytest.param(with_template(labels={"team": "search"}), id="labels"),
        pytest.param(with_template(tolerations=[{"operator": "Exists"}]), id="tolerations"),
        pytest.param(with_template(serviceAccountName="inference"), id="service-account"),
    ],
)
def test_what_leaves_measurements_comparable_keeps_the_baseline(resource: SpeculativeDeployment) -> None:
    assert fingerprint(resource) == fingerprint(a_resource())


@pytest.mark.fault("vllm#42508", "vllm#16035")
def test_another_engine_starts_a_new_baseline_since_acceptance_means_what_its_engine_counts() -> None:
    image = "example.test/same:1"
    simulated = a_simulated_resource(engine={"type": "simulated", "image": image})

    assert fingerprint(simulated) != fingerprint(a_resource(engine={"type": "builtin", "image": image}))


def test_a_default_that_is_written_out_is_the_same_baseline() -> None:
    written = a_resource(
        engine={"type": "builtin", "dtype": "bfloat16", "maxModelLen": 2048, "maxNumSeqs": 16},
        speculation={
            "method": "ngram",
            "depth": {"initial": 2, "max": 5},
            "ngram": {"minMatch": 2, "maxMatch": 5},
        },
    )

    assert fingerprint(written) == fingerprint(a_resource())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"method": "eagle", "proposer": {"uri": "pvc://other/eagle"}}, id="claim"),
        pytest.param({"method": "eagle", "proposer": {"uri": "pvc://heads/other"}}, id="folder"),
        pytest.param({"method": "eagle3", "proposer": {"uri": "pvc://heads/eagle"}}, id="method"),
    ],
)
def test_another_proposer_starts_a_new_baseline(other: dict[str, Any]) -> None:
    assert fingerprint(a_resource(speculation=other)) != fingerprint(a_resource(speculation=HEAD))


def test_pools_on_different_hardware_have_different_baselines() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}

    first, second, third = planned(
        a_resource(a_pool("a"), a_pool("b", template=gpu), a_pool("c")), an_empty_cluster()
    ).pools

    assert first.fingerprint == third.fingerprint != second.fingerprint
