"""What holds for one pool: defaults, then the resource, then the pool."""

from typing import Any

from tests.unit.api.cases import Case

from specfleet.api.objectives import (
    EffectiveObjectives,
    EffectiveTuning,
    effective_objectives,
    effective_tuning,
)
from specfleet.api.schedule import Row
from specfleet.api.validation import validate


def _objectives(**edits: Any) -> EffectiveObjectives:
    spec = validate(Case("", _paths(edits)).resource).spec
    return effective_objectives(spec, spec.pools[0])


def _tuning(**edits: Any) -> EffectiveTuning:
    spec = validate(Case("", _paths(edits)).resource).spec
    return effective_tuning(spec, spec.pools[0])


def _paths(edits: dict[str, Any]) -> dict[str, Any]:
    where = {
        "objectives": "spec",
        "tuning": "spec",
        "pool_objectives": "spec.pools.0",
        "pool_tuning": "spec.pools.0",
    }
    return {f"{where[name]}.{name.removeprefix('pool_')}": value for name, value in edits.items()}


def test_without_objectives_only_the_headroom_is_limited() -> None:
    assert _objectives() == EffectiveObjectives(None, None, None, kv_headroom_share=0.1)


def test_a_pool_overrides_field_by_field() -> None:
    objectives = _objectives(
        objectives={"timePerOutputToken": "40ms", "kvHeadroomPercent": 20},
        pool_objectives={"timePerOutputToken": "1.5s"},
    )

    assert (objectives.time_per_output_token_seconds, objectives.kv_headroom_share) == (1.5, 0.2)


def test_a_headroom_of_zero_is_a_choice_and_no_missing_value() -> None:
    objectives = _objectives(objectives={"kvHeadroomPercent": 20}, pool_objectives={"kvHeadroomPercent": 0})

    assert objectives.kv_headroom_share == 0.0


def test_the_queue_may_take_half_of_the_time_to_the_first_token() -> None:
    assert _objectives(objectives={"timeToFirstToken": "800ms"}).queue_delay_seconds == 0.4


def test_a_queue_delay_of_its_own_wins_over_the_half() -> None:
    objectives = _objectives(
        objectives={"queueDelay": "250ms"}, pool_objectives={"timeToFirstToken": "800ms"}
    )

    assert objectives.queue_delay_seconds == 0.25


def test_without_tuning_the_defaults_of_the_design_hold() -> None:
    assert _tuning() == EffectiveTuning("Recommend", False, "default", 6, None)


def test_a_pool_can_leave_the_pause_of_its_resource() -> None:
    tuning = _tuning(tuning={"paused": True, "mode": "Enforce"}, pool_tuning={"paused": False})

    assert (tuning.mode, tuning.paused) == ("Enforce", False)


def test_the_pin_of_a_pool_wins() -> None:
    pinned = [{"maxRequests": 4, "depth": 3}, {"depth": 0}]

    tuning = _tuning(tuning={"schedule": [{"depth": 5}]}, pool_tuning={"schedule": pinned})

    assert tuning.schedule == (Row(4, 3), Row(None, 0))
