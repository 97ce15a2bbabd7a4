"""A canary's course: design/tuning.md, sections 10.2 and 11."""

import math
from dataclasses import replace

import pytest

from specfleet.tuning.verdict import (
    Accept,
    Canary,
    Guards,
    Noise,
    NoVerdict,
    RollBack,
    SliceMinute,
    Undecided,
    Verdict,
    alpha_per_guard,
    judge,
)
from specfleet.tuning.verdict.judge import FULL_MINUTES, WARM_UP_MINUTES, Minute, Reference

QUIET = Noise(0.05)


def a_slice(
    token_seconds: float = 0.02,
    completions: float = 60.0,
    waiting: float = 0.0,
    failures: float = 0.0,
    timely: float | None = None,
) -> SliceMinute:
    tokens = 200.0 * max(completions, 1.0)
    return SliceMinute(
        pods=1,
        seconds=60.0,
        completions=completions,
        decode_seconds=token_seconds * tokens,
        decode_tokens=tokens,
        waiting=waiting,
        failures=failures,
        first_tokens=completions,
        timely_first_tokens=timely,
    )


def a_minute(
    canary: SliceMinute,
    reference: SliceMinute | None = None,
    name: Reference = "control",
    dispersion: float = 1.0,
) -> Minute:
    return Minute(canary, {name: reference or a_slice()}, QUIET, QUIET, dispersion)


def course(
    minutes: list[Minute | None], guards: Guards | None = None, canary: Canary | None = None
) -> tuple[int, Verdict]:
    """Give the minute in which a canary ended and how; the last minute and Undecided: it did not."""
    state, verdict = canary or Canary(), Undecided()
    for number, minute in enumerate(minutes, start=1):
        state, verdict = judge(state, minute, guards or Guards())
        if not isinstance(verdict, Undecided):
            return number, verdict
    return len(minutes), verdict


def test_the_week_s_false_roll_backs_are_shared_out() -> None:
    assert alpha_per_guard(20, 5) == pytest.approx(0.005)


def test_a_canary_that_is_a_fifth_slower_is_rolled_back_with_the_numbers() -> None:
    minute, verdict = course([a_minute(a_slice(0.024))] * FULL_MINUTES)

    assert minute == WARM_UP_MINUTES + 5
    assert isinstance(verdict, RollBack)
    assert verdict.reason.startswith(
        "against control: time per output token +18.2% over 5 min, 3% is allowed; L"
    )


def test_a_slower_canary_is_rolled_back_against_the_active_slice_too() -> None:
    both = Minute(a_slice(0.02), {"control": a_slice(0.02), "active": a_slice(0.016)}, QUIET, QUIET)

    _, verdict = course([both] * 30)

    assert isinstance(verdict, RollBack)
    assert verdict.reason.startswith("against active")


def test_minutes_of_warm_up_are_not_tested() -> None:
    slow, equal = a_minute(a_slice(0.026)), a_minute(a_slice())

    _, verdict = course([slow] * WARM_UP_MINUTES + [equal] * 20)

    assert not isinstance(verdict, RollBack)


def test_a_clearly_better_canary_is_accepted_after_twenty_minutes_and_not_before() -> None:
    minute, verdict = course([a_minute(a_slice(0.018))] * FULL_MINUTES)

    assert minute == 20
    assert isinstance(verdict, Accept)


def test_an_equal_canary_under_noise_is_accepted_at_full_length() -> None:
    noisy = [
        replace(a_minute(a_slice(0.02 * math.exp(0.1 * (-1) ** i))), latency_noise=Noise(0.1, 1.5))
        for i in range(FULL_MINUTES)
    ]

    minute, verdict = course(noisy)

    assert minute == FULL_MINUTES
    assert verdict == Accept("no regression in 60 min of data")


def test_a_thin_canary_ends_without_a_verdict() -> None:
    minute, verdict = course([a_minute(a_slice(0.03, completions=19.0))] * FULL_MINUTES)

    assert minute == FULL_MINUTES
    assert verdict == NoVerdict("60 min of data and 0 comparable blocks in 60 min")


def test_missing_data_freezes_the_evidence_and_ends_nothing_before_the_full_length() -> None:
    state = Canary()
    for _ in range(7):
        state, _ = judge(state, a_minute(a_slice(0.024)), Guards())
    before = state.comparisons
    for minute in [None, Minute(a_slice(), {})] * 10:
        state, verdict = judge(state, minute, Guards())
        assert verdict == Undecided()

    assert state.comparisons == before
    assert (state.elapsed, state.seen) == (27, 7)


def test_an_outage_until_the_full_length_gives_no_verdict() -> None:
    minute, verdict = course([a_minute(a_slice())] * 15 + [None] * 60)

    assert minute == FULL_MINUTES
    assert isinstance(verdict, NoVerdict)


def test_under_a_queue_completed_requests_are_compared_and_not_time_per_token() -> None:
    canary = a_slice(0.01, completions=50.0, waiting=6.0)

    _, verdict = course([a_minute(canary, a_slice(completions=60.0, waiting=6.0))] * 30)

    assert isinstance(verdict, RollBack)
    assert "completed request" in verdict.reason


def test_one_queueing_slice_makes_a_block_that_does_not_count() -> None:
    block = a_minute(a_slice(0.024, waiting=3.0), a_slice(waiting=1.9))

    _, verdict = course([block] * FULL_MINUTES)

    assert isinstance(verdict, NoVerdict)


def test_failing_requests_roll_back_though_the_rest_is_fast() -> None:
    _, verdict = course([a_minute(a_slice(0.016, failures=12.0))] * 30)

    assert isinstance(verdict, RollBack)
    assert "failed requests" in verdict.reason


def test_late_first_tokens_roll_back() -> None:
    block = a_minute(a_slice(timely=50.0), a_slice(timely=59.0))

    _, verdict = course([block] * FULL_MINUTES)

    assert isinstance(verdict, RollBack)
    assert "first tokens late" in verdict.reason


def test_out_of_memory_in_the_canary_alone_ends_it_at_once() -> None:
    killed = replace(a_slice(), out_of_memory=1)

    minute, verdict = course([a_minute(killed)])

    assert minute == 1
    assert isinstance(verdict, RollBack)
    assert isinstance(course([a_minute(killed, killed)])[1], Undecided)
    assert isinstance(course([a_minute(killed)], Guards(out_of_memory_allowed=1))[1], Undecided)


def test_preemptions_end_it_in_the_second_minute() -> None:
    preempting, little = replace(a_slice(), preemptions=30.0), replace(a_slice(), preemptions=16.0)

    assert course([a_minute(preempting)] * 5)[0] == 2
    assert isinstance(course([a_minute(preempting)] * 5)[1], RollBack)
    assert isinstance(course([a_minute(preempting, little)] * 5)[1], Undecided)


def test_half_again_the_time_per_token_ends_it_in_the_third_minute_even_in_warm_up() -> None:
    minute, verdict = course([a_minute(a_slice(0.031))] * 5)

    assert minute == 3
    assert isinstance(verdict, RollBack)


def test_twenty_points_fewer_first_tokens_in_time_end_it() -> None:
    minute, verdict = course([a_minute(a_slice(timely=40.0), a_slice(timely=58.0))] * 10)

    assert minute == 5
    assert isinstance(verdict, RollBack)
    assert "67% of the first tokens in time, 97% in the reference" in verdict.reason


def test_slices_whose_queues_differ_by_chance_are_not_held_against_a_canary() -> None:
    # 28 points fewer in time: seen between equal saturated pods, whose counts vary 40 times as coin flips.
    block = a_minute(a_slice(timely=38.0), a_slice(timely=55.0), dispersion=40.0)

    assert not isinstance(course([block] * 20)[1], RollBack)


@pytest.mark.parametrize("waiting", [(5.0, 0.0), (0.0, 5.0), (5.0, 5.0)])
def test_first_tokens_are_not_compared_while_a_slice_queues(waiting: tuple[float, float]) -> None:
    # Of two equal pods near saturation one had none of its first tokens in time for five minutes, one 91 %.
    canary, reference = a_slice(timely=0.0, waiting=waiting[0]), a_slice(timely=55.0, waiting=waiting[1])

    assert not isinstance(course([a_minute(canary, reference)] * FULL_MINUTES)[1], RollBack)


def test_half_again_the_time_per_token_is_no_trip_while_a_slice_queues() -> None:
    assert isinstance(course([a_minute(a_slice(0.031, waiting=3.0))] * 10)[1], Undecided)


def test_a_queue_that_grows_for_five_minutes_in_the_canary_alone_ends_it() -> None:
    growing = [a_minute(a_slice(waiting=float(i))) for i in range(10)]
    both = [a_minute(a_slice(waiting=float(i)), a_slice(waiting=float(i))) for i in range(10)]

    minute, verdict = course(growing)

    assert minute == 6
    assert isinstance(verdict, RollBack)
    assert isinstance(course(both)[1], Undecided)
