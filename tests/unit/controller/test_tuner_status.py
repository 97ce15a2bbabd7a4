"""What status says of engines whose depth changes in different ways."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.planning.builders import a_pool, a_resource

from specfleet.api.schedule import Document, Row, flat
from specfleet.controller.fleet import PoolView
from specfleet.controller.tuner_status import PoolReport, status_body
from specfleet.engines.engine import Actuator
from specfleet.tuning.decide import Advice, Outcome
from specfleet.tuning.decision import Hold
from specfleet.tuning.memory import Memory

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEEPER = (Row(8, 4), Row(None, 1))
LIVE = {"metadata": {"name": "chat", "namespace": "llm", "uid": "uid", "generation": 1}}
SCHEDULE = {"data": {"schedule.json": Document(4, 1, 5, flat(5), NOON).to_json()}}


def pool_status(actuator: Actuator) -> dict[str, Any]:
    """Report a pool whose schedule says depth 5, and whose spec says depth 3 to begin with."""
    resource = a_resource(speculation={"method": "ngram", "depth": {"initial": 3, "max": 5}})
    view = PoolView(LIVE, resource, resource.spec.pools[0], SCHEDULE, None, {})
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


@pytest.mark.parametrize(
    ("pods", "status", "message"),
    [
        pytest.param({"a": 1, "b": 2, "c": 1}, "True", "every pool reports", id="in-all"),
        pytest.param(
            {"a": 1, "b": 0, "c": 0},
            "True",
            "every pool with ready pods reports; none is ready in b, c",
            id="in-some",
        ),
        pytest.param({"a": 0, "b": 0, "c": 0}, "Unknown", "no pod is ready", id="in-none"),
    ],
)
@pytest.mark.parametrize("hold", [Hold("Settled", "stays"), Hold("Paused", "tuning is paused")])
def test_of_pools_without_a_ready_pod_it_is_not_said_that_they_report(
    pods: dict[str, int], status: str, message: str, hold: Hold
) -> None:
    resource = a_resource(*map(a_pool, pods))
    views = [
        PoolView(
            LIVE, resource, pool, SCHEDULE, None, {("llm", str(pod)): {} for pod in range(pods[pool.name])}
        )
        for pool in resource.spec.pools
    ]
    outcome = Outcome(hold, Memory(), "Active")

    body = status_body([PoolReport(view, outcome, 0.0, 0, "live") for view in views], NOON.timestamp())

    (available,) = (one for one in body["status"]["conditions"] if one["type"] == "MetricsAvailable")
    assert (available["status"], available["message"]) == (status, message)
