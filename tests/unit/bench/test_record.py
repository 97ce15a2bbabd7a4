"""Load points of real engines: the run in the middle is kept, with the range of all."""

from dev.bench.record import middle_of


def test_a_run_that_another_process_slowed_down_is_not_the_one_that_is_kept() -> None:
    runs = [{"tokenSeconds": seconds, "events": number} for number, seconds in enumerate((0.03, 0.09, 0.031))]

    assert middle_of(runs) == {"tokenSeconds": 0.031, "events": 2, "tokenSecondsRange": [0.03, 0.09]}
