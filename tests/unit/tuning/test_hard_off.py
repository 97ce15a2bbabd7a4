"""Serving without the proposer at all: when it pays, when the pods are restarted for it, and the way back."""

from copy import deepcopy
from dataclasses import replace

import pytest
from tests.unit.tuning.bench import CROWD, FREE, REPETITIVE, Bench, Cost, Traffic, some_settings
from tests.unit.tuning.test_closed_loop import DEMO

from specfleet.api.schedule import flat
from specfleet.tuning.decision import HardOff, Hold, LoadProposer, Push
from specfleet.tuning.estimates import Gain
from specfleet.tuning.hard_off import mean_gain
from specfleet.tuning.memory import from_json, to_json
from specfleet.tuning.profile import BLOCK_SECONDS
from specfleet.tuning.settings import PoolSettings
from specfleet.tuning.unloaded import Judged, LastPause, next_pause

HOUR = 3600.0
MINUTE = 60.0
SEEDS = range(2)
# Nothing is accepted, drafts are dear, and a step that makes none pays a fifth for the proposer all the same.
# One step in nine proposes nothing, or no load would be needed to judge it (test_rejection).
USELESS = Traffic(users=12, chance=0.05, draft_share=0.89)
TAXED = Cost(knee=40, tax=0.2, draft=0.008, per_depth=0.002)
SOME = some_settings()


def test_gains_are_weighed_by_time_and_their_errors_do_not_cancel() -> None:
    found = mean_gain({2: 3000.0, 9: 1000.0}, {2: Gain(-0.20, 0.04), 9: Gain(0.08, 0.08)})

    assert found.expected == pytest.approx(-0.13)
    assert found.sd == pytest.approx(0.05)


@pytest.fixture(scope="module")
def tried() -> Bench:
    """A pool whose proposer does not earn its tax, right after the trial without it has begun."""
    bench = Bench(USELESS, cost=TAXED).run(HOUR)
    assert not bench.decisions(HardOff)
    while not bench.decisions(HardOff):
        bench.step()
        assert bench.now < 1_000_000.0 + 2 * HOUR
    return bench


@pytest.fixture(scope="module")
def unloaded(tried: Bench) -> Bench:
    """The same after the trial."""
    return deepcopy(tried).run(25 * MINUTE)


@pytest.mark.fault("vllm#49986")
def test_a_proposer_that_may_not_earn_its_tax_is_unloaded_on_trial_within_two_hours(tried: Bench) -> None:
    ((_, off),) = tried.decisions(HardOff)

    assert isinstance(off, HardOff)
    assert off.trial
    assert " ms against " in off.reason


def test_a_trial_that_shows_a_gain_becomes_a_pause(unloaded: Bench) -> None:
    assert unloaded.outcomes[-1][1].state == "HardOff"
    assert unloaded.table == flat(0)
    held = unloaded.memory.unloaded
    assert held is not None
    assert (held.trial, held.pause) == (False, 6 * HOUR)
    # 1.05 tokens at a step of 10 ms more, or 20 % of tax, against neither.
    assert unloaded.memory.judged is not None
    assert unloaded.memory.judged.saved == pytest.approx(1 - 1 / 1.17, abs=0.03)


def test_a_trial_that_shows_a_loss_ends_with_it(tried: Bench) -> None:
    bench = deepcopy(tried).run(10 * MINUTE)
    held, found = bench.memory.unloaded, bench.memory.judged
    assert held is not None
    assert found is not None
    over = replace(held, since=bench.now - 20 * MINUTE)
    bench.memory = replace(bench.memory, unloaded=over, judged=replace(found, at=bench.now, saved=-0.05))

    assert isinstance(bench.step().decision, LoadProposer)
    bench.run(10 * MINUTE)

    assert bench.memory.unloaded is None
    assert bench.memory.last_pause is None
    assert len(bench.decisions(HardOff)) == 1
    (restored, *_) = [one for at, one in bench.decisions(Push) if at > bench.now - 10 * MINUTE]
    assert "the table from before" in restored.reason  # type: ignore[attr-defined]


def judged_before(tried: Bench, settings: PoolSettings) -> Bench:
    """Give the pool right before its trial, which has been worth it for an hour."""
    bench, hour_ago = deepcopy(tried), tried.now - HOUR
    found = Judged(bench.now, hour_ago, 0.15, 0.11, 0.2, 4.0, 12.0, 1, 0.047, 0.040, hour_ago)
    bench.memory = replace(bench.memory, unloaded=None, judged=found)
    bench.loaded, bench.settings, bench.outcomes = True, settings, []
    return bench


@pytest.mark.parametrize(
    ("most", "used", "expected"),
    [
        pytest.param(6, 4, True, id="two-are-left"),
        pytest.param(6, 5, False, id="one-is-left"),
        pytest.param(1, 0, True, id="there-is-one-only"),
        pytest.param(1, 1, False, id="none-is-left"),
    ],
)
def test_a_trial_has_pushes_left_to_take_the_table_down_and_bring_it_back(
    tried: Bench, most: int, used: int, expected: bool
) -> None:
    bench = judged_before(tried, some_settings(most=most))
    pushes = tuple(bench.now - MINUTE * number for number in range(used))
    bench.memory = replace(bench.memory, tried_at=None, pushes=pushes)

    bench.step()

    assert bool(bench.decisions(HardOff)) == expected


def test_a_table_from_before_waits_for_a_push_as_every_other() -> None:
    bench = Bench(CROWD).run(5 * MINUTE)
    last = bench.now
    pushes = tuple(last - MINUTE * number for number in range(6))
    bench.memory = replace(bench.memory, restore=flat(3), pushes=pushes)

    waits = bench.step().decision
    bench.now = last + 55 * MINUTE - bench.settings.scrape_seconds
    still = bench.step().decision
    restored = bench.step().decision

    assert isinstance(waits, Hold)
    assert isinstance(still, Hold)  # exactly an hour after the first of them
    assert waits.kind == "PushLimit"
    assert "the table from before, but 6 of 6 pushes an hour are used" in waits.reason
    assert isinstance(restored, Push)


@pytest.mark.parametrize("mode", ["Observe", "Recommend"])
def test_only_mode_enforce_restarts_pods_and_recommend_says_why_it_would(mode: str, tried: Bench) -> None:
    bench = judged_before(tried, some_settings(mode=mode))

    bench.step()

    assert not bench.decisions(HardOff)
    said = bench.outcomes[-1][1].hard_off
    assert (said is not None and "+15% less" in said) == (mode == "Recommend")


def late(bench: Bench) -> Bench:
    """The same at the end of its pause."""
    bench = deepcopy(bench)
    held = bench.memory.unloaded
    assert held is not None
    bench.memory = replace(bench.memory, unloaded=replace(held, since=bench.now - held.pause))
    return bench


def test_a_proposer_is_tried_again_after_the_pause_and_the_next_one_is_twice_as_long(unloaded: Bench) -> None:
    bench = late(unloaded)

    assert isinstance(bench.step().decision, LoadProposer)
    last = bench.memory.last_pause
    assert [next_pause(last, SOME.proposer), next_pause(last, "another")] == [12 * HOUR, 6 * HOUR]
    assert next_pause(LastPause("", 7 * 24 * HOUR), "") == 8 * 24 * HOUR


def test_a_proposer_that_still_does_not_pay_after_the_pause_is_out_again_within_three_hours(
    unloaded: Bench,
) -> None:
    bench = late(unloaded).run(3 * HOUR)

    held = bench.memory.unloaded
    assert held is not None
    assert (held.trial, held.pause) == (False, 12 * HOUR)


@pytest.mark.fault("TRT-LLM#12905")
def test_a_proposer_that_has_come_to_pay_stays_after_the_pause(unloaded: Bench) -> None:
    bench = late(unloaded)
    bench.traffic = replace(USELESS, chance=0.8)

    bench.run(30 * MINUTE)

    assert len(bench.decisions(HardOff)) == 1
    assert bench.depth > 0


def test_another_proposer_is_loaded_at_once(unloaded: Bench) -> None:
    bench = deepcopy(unloaded)
    bench.settings = replace(SOME, proposer="another")

    outcome = bench.step()

    assert outcome.memory.unloaded is None
    assert outcome.state != "HardOff"


@pytest.mark.parametrize(
    "settings", [some_settings(mode="Recommend"), some_settings(pin=flat(2))], ids=["mode", "pin"]
)
def test_whoever_takes_the_say_from_the_tuner_gets_the_proposer_back(
    settings: PoolSettings, unloaded: Bench
) -> None:
    bench = deepcopy(unloaded)
    bench.settings = settings

    assert isinstance(bench.step().decision, LoadProposer)


def test_a_pin_of_depth_zero_needs_no_proposer(unloaded: Bench) -> None:
    bench = deepcopy(unloaded)
    bench.settings = some_settings(pin=flat(0))

    assert not isinstance(bench.step().decision, LoadProposer)


def test_paused_leaves_it_as_it_is(unloaded: Bench) -> None:
    bench = late(unloaded)
    bench.settings = some_settings(paused=True)

    assert isinstance(bench.step().decision, Hold)
    assert bench.memory.unloaded is not None


def test_it_outlives_the_operator(unloaded: Bench) -> None:
    memory = unloaded.memory

    assert from_json(to_json(memory)) == replace(memory, good_passes=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_load_of_the_demo_does_not_cost_a_pool_its_proposer(seed: int) -> None:
    """20 minutes of repetitive text, free text and a crowd; then the same weighed as if it had been a day."""
    bench = Bench(REPETITIVE, settings=some_settings(pace=DEMO), cost=Cost(tax=0.05), seed=seed)
    for traffic in (REPETITIVE, FREE, CROWD, REPETITIVE):
        bench.traffic = traffic
        bench.run(5 * MINUTE)
    assert not bench.decisions(HardOff)

    day = tuple(replace(one, seconds=72 * one.seconds) for one in bench.memory.profile)
    bench.memory = replace(bench.memory, profile=day)
    bench.step()

    assert bench.memory.judged is not None
    assert bench.memory.judged.hoped_since is None


def test_a_day_is_kept_in_blocks(tried: Bench) -> None:
    profile = tried.memory.profile
    hours = (tried.now - 1_000_000.0) / HOUR

    assert len(profile) == pytest.approx(hours * HOUR / BLOCK_SECONDS, abs=2)
    assert sum(one.seconds for one in profile) == pytest.approx(hours * HOUR, rel=0.03)
