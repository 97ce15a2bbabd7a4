"""What status says of engines whose depth changes in different ways."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.planning.builders import a_resource

from specfleet.api.schedule import Document, Row, flat
from specfleet.controller.fleet import PoolView
from specfleet.controller.tuner_status import PoolReport, status_body
from specfleet.engines.engine import Actuator
from specfleet.tuning.decide import Advice, Outcome
from specfleet.tuning.decision import Hold
from specfleet.tuning.memory import Memory

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEEPER = (Row(8, 4), Row(None, 1))


def pool_status(actuator: Actuator) -> dict[str, Any]:
    """Report a pool whose schedule says depth 5, and whose spec says depth 3 to begin with."""
    resource = a_resource(speculation={"method": "ngram", "depth": {"initial": 3, "max": 5}})
    schedule = {"data": {"schedule.json": Document(4, 1, 5, flat(5), NOON).to_json()}}
    live = {"metadata": {"name": "chat", "namespace": "llm", "uid": "uid", "generation": 1}}
    view = PoolView(live, resource, resource.spec.pools[0], schedule, None, {})
    outcome = Outcome(Hold("ModeRecommend", "shows"), Memory(), "Active", advice=Advice(DEEPER, 0.08))
    body = status_body([PoolReport(view, outcome, 0.0, 1, actuator)], NOON.timestamp())
    (pool,) = body["status"]["pools"]
    return dict(pool)


@pytest.mark.fault("vllm#4565")
@pytest.mark.parametrize("actuator", ["live", "rollout", "fixed"])
def test_a_recommendation_says_what_pushing_it_would_do(actuator: Actuator) -> None:
    recommendation = pool_status(actuator)["recommendation"]

    assert recommendation["appliedBy"] == actuator
    assert recommendation["table"] == [{"maxRequests": 8, "depth": 4}, {"depth": 1}]


@pytest.mark.parametrize(("actuator", "depth"), [("live", 5), ("rollout", 5), ("fixed", 3)])
def test_the_schedule_in_force_is_the_one_that_the_engine_runs_by(actuator: Actuator, depth: int) -> None:
    assert pool_status(actuator)["schedule"]["table"] == [{"depth": depth}]
