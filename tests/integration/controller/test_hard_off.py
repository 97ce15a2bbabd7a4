"""Hard-off from the tuner through status to the pods, and back."""

from dataclasses import replace

import pytest
from tests.integration.controller.test_tuning_pass import START, Fleet
from tests.unit.tuning.test_hard_off import TAXED, USELESS

from specfleet.api.kinds import SPECULATIVE_DEPLOYMENT
from specfleet.tuning.memory import from_json
from specfleet.tuning.unloaded import Judged

PASSES = 8  # enough to know what a step takes


async def judged(mode: str = "Enforce") -> Fleet:
    """A pool whose proposer was found wanting 40 minutes ago, by a judgement that still stands."""
    fleet = await Fleet(tuning={"mode": mode}).start()
    fleet.prometheus.traffic = USELESS
    for bench in fleet.prometheus._benches.values():
        bench.cost = TAXED
    await fleet.passes(PASSES)
    memory = fleet.tuning._pools["llm", "chat", "main"].memory
    since = fleet.now - 2400.0
    found = Judged(fleet.now, since, 0.15, 0.11, 0.2, 3.0, 11.5, 1, 0.047, 0.040, since)
    hours = tuple(replace(one, seconds=3 * 3600.0) for one in memory.profile)
    fleet.tuning._pools["llm", "chat", "main"].memory = replace(memory, judged=found, profile=hours)
    return fleet


async def test_enforce_restarts_the_pods_without_their_proposer_and_says_why() -> None:
    fleet = await judged()
    assert "ngram" in (await fleet.reconcile())["args"]

    await fleet.passes(1)

    said = fleet.pool["hardOff"]
    assert said["phase"] == "InForce"
    assert "takes +15% less without" in said["reason"]
    assert "40.0 ms against 47.0 at depth 1" in said["reason"]
    container = await fleet.reconcile()
    assert container["args"][container["args"].index("--method") + 1] == "none"
    assert fleet.pool["state"] == "HardOff"
    assert len(fleet.events("ProposerUnloaded")) == 1
    memory = from_json(fleet.memory["data"]["memory.json"])
    assert memory is not None and memory.unloaded is not None


async def test_the_schedule_goes_to_depth_zero_and_the_next_leader_goes_on() -> None:
    fleet = await judged()
    await fleet.passes(2)
    assert [row.depth for row in fleet.document.table] == [0]

    fleet.tuning = fleet.a_leader(fence=4)
    await fleet.passes(4)

    assert fleet.pool["hardOff"]["phase"] == "InForce"
    assert fleet.pool["state"] == "HardOff"


async def test_recommend_only_says_what_to_write() -> None:
    fleet = await judged("Recommend")

    await fleet.passes(2)

    said = fleet.pool["hardOff"]
    assert said["phase"] == "Advised"
    assert "speculation.method none" in said["reason"]
    assert "ngram" in (await fleet.reconcile())["args"]
    assert len(fleet.events("HardOffAdvised")) == 1


async def test_observe_says_nothing() -> None:
    fleet = await judged("Observe")

    await fleet.passes(2)

    assert "hardOff" not in fleet.pool


@pytest.mark.parametrize("tuning", [{"mode": "Recommend"}, {"mode": "Enforce", "schedule": [{"depth": 2}]}])
async def test_another_order_of_the_user_brings_the_proposer_back(tuning: dict[str, object]) -> None:
    fleet = await judged()
    await fleet.passes(2)
    await fleet.reconcile()

    live = fleet.resource
    live["spec"]["tuning"] = tuning
    fleet.store.replace(SPECULATIVE_DEPLOYMENT, live)
    await fleet.passes(1)

    assert fleet.pool.get("hardOff", {}).get("phase") != "InForce"
    assert "ngram" in (await fleet.reconcile())["args"]


async def test_a_proposer_is_tried_again_when_its_pause_is_over() -> None:
    fleet = await judged()
    await fleet.passes(2)
    own = fleet.tuning._pools["llm", "chat", "main"]
    assert own.memory.unloaded is not None
    own.memory = replace(
        own.memory, unloaded=replace(own.memory.unloaded, since=START - 86400.0, trial=False)
    )

    await fleet.passes(1)

    assert "hardOff" not in fleet.pool
    assert len(fleet.events("ProposerLoaded")) == 1
    assert "ngram" in (await fleet.reconcile())["args"]
