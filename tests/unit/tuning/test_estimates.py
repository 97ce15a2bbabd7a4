"""The objective that depths are compared by (design/tuning.md, section 6)."""

import pytest

from specfleet.tuning.cost import StepCost
from specfleet.tuning.estimates import Estimates, Gain
from specfleet.tuning.survival import Survival
from specfleet.tuning.windows import Window

# Of 1,000 decode steps of a sequence 20 drafted one token, and 10 of these were accepted: E_1 = 1.01.
FREE_TEXT = Survival(reached={0: 1000.0, 1: 1000.0}, drafted={1: 20.0}, accepted={1: 10.0})


def windows(seconds_by_depth: dict[int, float], turns: int = 1) -> tuple[Window, ...]:
    return tuple(
        Window(15.0 * turn, depth, 1.0, 1.02 if depth else 1.0, seconds, 200.0)
        for turn in range(turns)
        for depth, seconds in seconds_by_depth.items()
    )


def test_a_depth_0_that_is_slower_time_and_again_pays_a_tax_and_is_no_refuge() -> None:
    taxed = Estimates(FREE_TEXT, StepCost(windows({0: 0.120, 1: 0.100}, turns=6), 75.0))
    untaxed = Estimates(FREE_TEXT, StepCost(windows({0: 0.100, 1: 0.105}, turns=6), 75.0))

    assert taxed.rate(1.0, 1) / taxed.rate(1.0, 0) == pytest.approx(1.01 * 1.2, rel=0.05)
    assert (taxed.least_depth(1.0), untaxed.least_depth(1.0)) == (1, 0)


def test_a_dear_depth_counts_as_dear() -> None:
    estimates = Estimates(FREE_TEXT, StepCost(windows({0: 0.100, 1: 0.127}, turns=6), 75.0))

    gain = estimates.rate(1.0, 1) / estimates.rate(1.0, 0)

    assert gain == pytest.approx(1.01 / 1.27, rel=0.05)


def test_a_gain_counts_with_its_20_percent_quantile() -> None:
    # 80 % of a normal distribution lie above .8416 standard deviations below its mean.
    assert Gain(0.05, 0.02).cautious == pytest.approx(0.05 - 0.8416 * 0.02, abs=1e-4)
    assert Gain(0.02, 0.05).cautious < 0.0


def test_the_chance_of_a_gain_is_that_of_a_normal_distribution() -> None:
    # One standard deviation below the expected value: 84.13 %.
    assert Gain(0.035, 0.02).chance_over(0.015) == pytest.approx(0.8413, abs=1e-4)
    assert Gain(0.015, 0.02).chance_over(0.015) == pytest.approx(0.5)


def test_in_a_queue_a_shallower_depth_counts_with_what_is_expected_of_it() -> None:
    cost = StepCost(windows({1: 0.100, 2: 0.110}, turns=6), 75.0)
    calm, queued = (Estimates(FREE_TEXT, cost, throughput=throughput) for throughput in (False, True))

    down, up = queued.gain(1.0, 1, 2), queued.gain(1.0, 2, 1)

    assert queued.score(1.0, 1, 2) == pytest.approx(down.expected)
    assert queued.score(1.0, 2, 1) == pytest.approx(up.cautious)
    assert calm.score(1.0, 1, 2) == pytest.approx(down.cautious)
