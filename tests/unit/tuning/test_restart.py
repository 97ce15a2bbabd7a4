"""What a restart of a pool's pods costs its users, and when few of them meet it."""

import math
from dataclasses import replace

import pytest
from tests.unit.tuning.bench import some_settings

from specfleet.tuning.cost import StepCost
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.memory import Memory
from specfleet.tuning.profile import Block
from specfleet.tuning.restart import is_calm, repaid_in_queue, restart_share, soon_caught_up
from specfleet.tuning.windows import Window

HOUR = 3600.0
SOME = some_settings()
IN_PLACE = replace(SOME, restart_seconds=240.0)


def a_block(until: float, *, running: float = 10.0, waiting: float = 0.0, completions: float = 3.0) -> Block:
    return Block(until, 600.0, 10.0, running, waiting, completions, 100.0 * completions)


def estimates() -> Estimates:
    return Estimates(Memory().survival, StepCost((Window(0.0, 0, 10.0, 10.0, 0.05, 100.0),), 1.0))


def restarting(pods: int, *profile: Block) -> float:
    memory = Memory(profile=profile, replicas=pods)
    return restart_share(IN_PLACE, memory, estimates(), 10 * HOUR)


def test_a_restart_of_the_only_pod_costs_what_waits_meanwhile_and_until_it_has_caught_up() -> None:
    peak = a_block(600.0, running=200.0, waiting=300.0, completions=6.0)
    half = a_block(1200.0, running=100.0, completions=3.0)

    # 3 a second wait 120 s on average, 720 of them; the backlog goes down by 3 a second for as long again.
    cost = 2 * (720 * 120 + 720 * 120)
    assert restarting(1, peak, half) == pytest.approx(cost / (300 * 10 * HOUR))


def test_where_the_other_pods_can_take_the_load_a_restart_costs_nothing() -> None:
    peak = a_block(600.0, running=200.0, waiting=300.0, completions=6.0)

    assert restarting(2, peak, a_block(1200.0, completions=2.9)) == 0.0
    assert restarting(1, peak, a_block(1200.0, completions=5.9)) == math.inf


def test_pods_that_a_new_one_replaces_cost_nothing_and_need_no_calm() -> None:
    memory = Memory(profile=(a_block(600.0),), replicas=1, queue_since=1.0, good_passes=3)

    assert restart_share(SOME, memory, estimates(), HOUR) == 0.0
    assert is_calm(SOME, memory)
    assert not is_calm(IN_PLACE, memory)


DAY = tuple(a_block(600.0 * i, completions=c) for i, c in enumerate((1.0, 1.0, 4.0, 6.0, 4.0, 2.0)))


def calm_after(*profile: Block, **known: float | None) -> bool:
    memory = Memory(profile=(*DAY, *profile), good_passes=3, seen_at=(*DAY, *profile)[-1].until)
    return is_calm(IN_PLACE, replace(memory, **known))  # type: ignore[arg-type]


def test_calm_is_a_load_that_is_among_the_lowest_of_the_day() -> None:
    assert not calm_after()
    assert calm_after(a_block(3600.0, completions=1.1))


def test_a_moment_in_which_no_request_ends_is_not_a_low_load() -> None:
    moment = replace(a_block(3615.0, completions=0.0), seconds=15.0)

    assert not calm_after(a_block(3600.0, completions=6.0), moment)


def test_a_load_that_is_gone_is_none() -> None:
    peak = a_block(3600.0, completions=6.0)

    assert not calm_after(peak, seen_at=4200.0)
    assert calm_after(peak, seen_at=4201.0)


def test_without_data_nobody_knows_and_without_pods_nobody_is_met() -> None:
    quiet = a_block(3600.0, completions=1.0)

    assert not calm_after(quiet, good_passes=0)
    assert is_calm(IN_PLACE, Memory(), serving=False)


@pytest.mark.parametrize(
    ("pods", "completions", "expected"),
    [
        # One pod completes 6 a second: 3 that wait for as long as it is missing are served in as long again.
        pytest.param(1, 3.0, True, id="half"),
        pytest.param(1, 3.1, False, id="more-than-half"),
        # Two complete 6, one 3: of 4.5 a second 1.5 wait, and 1.5 more than arrive are served afterwards.
        pytest.param(2, 4.5, True, id="two-pods"),
        pytest.param(2, 4.6, False, id="two-pods-more"),
    ],
)
def test_a_load_is_low_if_a_pod_catches_up_in_the_time_that_it_was_missing(
    pods: int, completions: float, expected: bool
) -> None:
    peak = a_block(600.0, running=200.0, waiting=300.0, completions=6.0)
    memory = Memory(profile=(peak, a_block(1200.0, completions=completions)), replicas=pods, good_passes=3)

    assert soon_caught_up(IN_PLACE, memory, estimates()) is expected


def test_no_pod_is_missing_in_a_queue_or_without_data() -> None:
    peak = a_block(600.0, running=200.0, waiting=300.0, completions=6.0)
    low = Memory(profile=(peak, a_block(1200.0, completions=1.0)), replicas=1, good_passes=3)

    assert soon_caught_up(IN_PLACE, low, estimates())
    assert not soon_caught_up(IN_PLACE, replace(low, queue_since=1190.0), estimates())
    assert not soon_caught_up(IN_PLACE, replace(low, good_passes=0), estimates())
    assert soon_caught_up(SOME, replace(low, queue_since=1190.0, good_passes=0), estimates())


def test_a_restart_is_repaid_in_a_queue_that_has_stood_for_twenty_times_as_long() -> None:
    # 240 s of all pods at 5 % more: 4800 s.
    memory = Memory(queue_since=1000.0, seen_at=5800.0, good_passes=3)

    assert repaid_in_queue(IN_PLACE, memory)
    assert not repaid_in_queue(IN_PLACE, replace(memory, seen_at=5799.0))
    assert not repaid_in_queue(IN_PLACE, replace(memory, queue_since=None))
    assert not repaid_in_queue(IN_PLACE, replace(memory, good_passes=0))
