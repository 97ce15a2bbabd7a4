"""What the demo sends, and the settings that it shares with the operator."""

import pytest
import yaml
from dev.demo.installation import REPOSITORY
from dev.demo.plan import PLANS, Plan
from dev.demo.prompts import prompts_for

from specfleet.api.configuration import TuningPace
from specfleet_simulated.script import repeated_share


@pytest.fixture(params=sorted(PLANS))
def plan(request: pytest.FixtureRequest) -> Plan:
    return PLANS[request.param]


def test_repetitive_prompts_repeat_and_free_ones_do_not() -> None:
    # Runs of three words, which is what an n-gram proposer with minMatch 2 looks for.
    assert all(repeated_share(prompt.text, 3) > 0.3 for prompt in prompts_for("repetitive"))
    assert all(repeated_share(prompt.text, 3) == 0.0 for prompt in prompts_for("free"))


def test_a_name_stands_for_one_prompt() -> None:
    prompts = [prompt for text in ("repetitive", "free", "mixed") for prompt in prompts_for(text)]

    assert len({prompt.name for prompt in prompts}) == len(prompts)


def test_the_plan_matches_the_example_that_it_applies(plan: Plan) -> None:
    example = yaml.safe_load((REPOSITORY / plan.example).read_text())

    assert example["metadata"]["name"] == plan.resource
    assert example["spec"]["engine"]["type"] == plan.engine
    assert example["spec"]["tuning"]["mode"] == "Enforce"
    assert plan.pool in [pool["name"] for pool in example["spec"]["pools"]]
    assert max(plan.depths) == example["spec"]["speculation"]["depth"]["max"]


def test_the_crowd_is_larger_than_the_pool_can_run(plan: Plan) -> None:
    spec = yaml.safe_load((REPOSITORY / plan.example).read_text())["spec"]
    room = spec["engine"]["maxNumSeqs"] * sum(pool["replicas"] for pool in spec["pools"])

    assert max(phase.users for phase in plan.phases) > room


def test_the_pace_uses_the_charts_names(plan: Plan) -> None:
    TuningPace.model_validate(dict(plan.tuning))


def test_the_first_and_the_last_phase_send_the_same(plan: Plan) -> None:
    first, *_, last = plan.phases

    assert (first.text, first.users, first.max_tokens) == (last.text, last.users, last.max_tokens)
