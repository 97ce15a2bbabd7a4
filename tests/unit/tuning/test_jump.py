"""Acceptance jumps: design/tuning.md, section 12."""

import random

from specfleet.tuning.jump import JumpWatch


def watch(shares: list[float], reached: float = 400.0) -> list[bool]:
    state, found = JumpWatch(), []
    for share in shares:
        state, jumped = state.after(share * reached, reached)
        found.append(jumped)
    return found


def test_a_change_from_free_to_repetitive_text_is_seen_in_one_interval() -> None:
    assert watch([0.1] * 5 + [0.8])[-1]


def test_a_change_the_other_way_is_seen_as_fast() -> None:
    assert watch([0.8] * 5 + [0.1])[-1]


def test_the_swings_of_single_requests_are_no_jump() -> None:
    draw = random.Random(7)

    assert not any(watch([0.5 + draw.uniform(-0.1, 0.1) for _ in range(500)]))


def test_a_slow_drift_is_followed_without_a_jump() -> None:
    assert not any(watch([0.8 - 0.004 * i for i in range(100)]))


def test_small_intervals_are_collected_until_they_say_something() -> None:
    assert watch([0.1] * 9 + [0.9] * 3, reached=60.0)[-3:] == [False, False, True]


def test_a_jump_is_the_sum_of_distances_over_noise_passing_five() -> None:
    # Noise is sqrt(.24 * 4 / 400) + .025 = .0740. A fall of .30 adds 4.05 - 1.5, then (with the reference at
    # .885) 3.85 - 1.5: 4.91. A fall of .32 adds 2.82 and 2.61: 5.43.
    assert watch([0.9] + [0.6] * 2)[-1] is False
    assert watch([0.9] + [0.58] * 2)[-1] is True


def test_without_drafting_steps_nothing_is_concluded() -> None:
    state, jumped = JumpWatch(reference=0.8).after(0.0, 0.0)

    assert (state.reference, jumped) == (0.8, False)
