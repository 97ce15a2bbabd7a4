"""Drafts that are hardly ever accepted: the proposer goes at the first low load, without day and trial."""

from copy import deepcopy
from dataclasses import replace

import pytest
from tests.unit.tuning.bench import Bench, Cost, Traffic, some_settings

from specfleet.tuning.cost import StepCost
from specfleet.tuning.decision import HardOff, LoadProposer
from specfleet.tuning.estimates import Estimates
from specfleet.tuning.memory import Memory
from specfleet.tuning.profile import Block
from specfleet.tuning.rejection import is_rejected, off_if_rejected
from specfleet.tuning.survival import Survival
from specfleet.tuning.unloaded import LastPause
from specfleet.tuning.windows import Window

MINUTE, HOUR = 60.0, 3600.0
SOME = some_settings()
MISFIT = Traffic(users=12, chance=0.05)
TAXED = Cost(knee=40, tax=0.08, draft=0.004, per_depth=0.001)


def a_memory(
    accepted: float, drafts: float, *, share: float = 1.0, seconds: float = 300.0, loaded: bool = True
) -> Memory:
    """A pool of one pod that completes 3 requests a second."""
    usual = Survival({1: drafts / share}, {1: drafts}, {1: accepted * drafts})
    block = Block(seconds, seconds, 10.0, 10.0, 0.0, 3.0, 300.0, loaded)
    return Memory(usual=usual, profile=(block,), replicas=1, good_passes=3, seen_at=seconds)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        pytest.param(a_memory(0.05, 2000), True, id="one-in-twenty"),
        pytest.param(a_memory(0.05, 1999), False, id="too-few-drafts"),
        pytest.param(a_memory(0.05, 2000, seconds=179.0), False, id="too-few-minutes"),
        pytest.param(a_memory(0.05, 2000, loaded=False), False, id="minutes-without-the-proposer"),
        # Two standard deviations, with a design effect of 2: 2 (2 x .09 x .91 / 2000)^.5 = .018.
        pytest.param(a_memory(0.09, 2000), False, id="may-be-one-in-ten"),
        # The same of ten times as many: .0057.
        pytest.param(a_memory(0.09, 20_000), True, id="surely-fewer-than-one-in-ten"),
        # .33 in a first hour and .083 in the 20 min of a collapse: .27 of the day.
        pytest.param(a_memory(0.27, 20_000), False, id="collapse-of-a-weak-draft"),
        pytest.param(a_memory(0.05, 20_000, share=0.8), False, id="looked-up-in-the-text"),
    ],
)
def test_a_proposer_is_rejected_by_enough_first_drafts_of_a_model(memory: Memory, expected: bool) -> None:
    assert is_rejected(memory) is expected


def estimates() -> Estimates:
    return Estimates(Survival(), StepCost((Window(0.0, 0, 10.0, 10.0, 0.05, 100.0),), 1.0))


def test_it_is_out_for_a_day_at_least_and_twice_as_long_as_before() -> None:
    memory = a_memory(0.05, 4000)
    again = replace(memory, last_pause=LastPause(SOME.proposer, 24 * HOUR))

    first, second = (off_if_rejected(SOME, one, estimates()) for one in (memory, again))

    assert first is not None
    assert second is not None
    assert (first.trial, first.pause, second.pause) == (False, 24 * HOUR, 48 * HOUR)
    assert "5.0% of 4000 first drafts were accepted, surely less than 10%" in first.reason


def test_pods_that_would_be_missing_wait_for_a_load_with_which_they_catch_up() -> None:
    in_place = replace(SOME, restart_seconds=240.0)
    memory = a_memory(0.05, 4000, seconds=600.0)
    peak = replace(memory.profile[0], waiting=300.0, completions=5.9)

    busy = replace(memory, profile=(peak, *memory.profile))

    # The pod completes 5.9 a second at most. Of 3 a second that wait, it serves 2.9 beside those that arrive.
    assert off_if_rejected(in_place, busy, estimates()) is None
    assert off_if_rejected(SOME, busy, estimates()) is not None
    # 80 min of queue are twenty restarts: pods without the tax of 5 % catch up in as long again.
    queued = replace(busy, queue_since=busy.profile[-1].until - 4800.0)
    assert off_if_rejected(in_place, queued, estimates()) is not None
    assert off_if_rejected(in_place, replace(queued, usual=Survival()), estimates()) is None


@pytest.fixture(scope="module")
def misfit() -> Bench:
    return Bench(MISFIT, cost=TAXED).run(5 * MINUTE)


def test_a_proposer_that_does_not_fit_is_unloaded_within_five_minutes(misfit: Bench) -> None:
    ((at, off),) = misfit.decisions(HardOff)

    assert at - 1_000_000.0 >= 3 * MINUTE
    assert isinstance(off, HardOff)
    assert not off.trial
    assert misfit.outcomes[-1][1].state == "HardOff"


def test_it_is_tried_again_after_a_day_and_out_again_within_five_minutes(misfit: Bench) -> None:
    bench = deepcopy(misfit)
    held = bench.memory.unloaded
    assert held is not None
    bench.memory = replace(bench.memory, unloaded=replace(held, since=bench.now - held.pause))

    assert isinstance(bench.step().decision, LoadProposer)
    bench.run(6 * MINUTE)

    held = bench.memory.unloaded
    assert held is not None
    assert held.pause == 48 * HOUR


def test_a_collapse_of_minutes_costs_no_pool_its_proposer() -> None:
    bench = Bench(replace(MISFIT, chance=0.6), cost=TAXED).run(30 * MINUTE)
    bench.traffic = MISFIT

    bench.run(20 * MINUTE)

    assert not bench.decisions(HardOff)


@pytest.mark.parametrize("mode", ["Observe", "Recommend"])
def test_recommend_says_it_and_restarts_nothing(mode: str) -> None:
    bench = Bench(MISFIT, cost=TAXED, settings=some_settings(mode=mode)).run(5 * MINUTE)

    assert not bench.decisions(HardOff)
    said = bench.outcomes[-1][1].hard_off
    assert (said is not None and "no depth pays at any load" in said) == (mode == "Recommend")
