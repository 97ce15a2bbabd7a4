"""Depths are told apart although the machine drifts: A/B/A comparisons, and their uncertainty."""

import math
import random

import pytest

from specfleet.tuning.cost import Point, StepCost
from specfleet.tuning.windows import Window, Windows, remember

SCRAPE = 15.0


def run(*spans: tuple[int, int], level: list[float], ratio: float = 1.0) -> StepCost:
    """Run spans of (depth, windows) one after another; depth 3 takes ``ratio`` of the time of depth 2."""
    windows: Windows = ()
    depths = [depth for depth, count in spans for _ in range(count)]
    for i, (depth, factor) in enumerate(zip(depths, level, strict=True)):
        seconds = 0.1 * factor * (ratio if depth == 3 else 1.0)
        windows = remember(windows, Window(SCRAPE * i, depth, 1.0, 1.0 + depth, seconds, 150.0))
    return StepCost(windows, SCRAPE * (len(depths) - 1))


def log_ratio(cost: StepCost) -> float:
    return math.log(cost.seconds(1.0, 4.0, 3) / cost.seconds(1.0, 3.0, 2))


def uncertainty(cost: StepCost) -> float:
    return cost.uncertainty(Point(1.0, 4.0, 3), Point(1.0, 3.0, 2))


def drift(windows: int, per_window: float) -> list[float]:
    return [math.exp(per_window * i) for i in range(windows)]


@pytest.mark.fault("vllm#48944")
@pytest.mark.parametrize("per_window", [0.01, -0.01, 0.02])
def test_a_steady_drift_cancels_between_the_spans_before_and_after_a_probe(per_window: float) -> None:
    # Depths are equal. Against the span before alone, two windows of drift would show as 2 % to 4 %.
    cost = run((2, 6), (3, 2), (2, 6), level=drift(14, per_window))

    assert log_ratio(cost) == pytest.approx(0.0, abs=0.004)


def test_the_span_after_a_probe_makes_the_comparison_surer() -> None:
    half = run((2, 6), (3, 2), level=drift(8, 0.0))
    whole = run((2, 6), (3, 2), (2, 2), level=drift(10, 0.0))

    assert uncertainty(whole) < 0.9 * uncertainty(half)


def test_a_restless_machine_is_trusted_less_and_a_calm_one_more() -> None:
    draw = random.Random(3)
    calm = run((2, 10), (3, 2), (2, 10), level=[math.exp(draw.gauss(0, 0.003)) for _ in range(22)])
    restless = run((2, 10), (3, 2), (2, 10), level=[math.exp(draw.gauss(0, 0.08)) for _ in range(22)])

    assert uncertainty(restless) > 2 * uncertainty(calm)


def test_three_probes_are_surer_than_one() -> None:
    one = run((2, 6), (3, 2), (2, 6), level=drift(14, 0.0))
    three = run(*[(2, 6), (3, 2)] * 3, (2, 6), level=drift(30, 0.0))

    assert uncertainty(three) < 0.85 * uncertainty(one)


def test_a_real_difference_is_found_under_drift() -> None:
    cost = run(*[(2, 6), (3, 2)] * 3, (2, 6), level=drift(30, 0.01), ratio=1.10)

    assert log_ratio(cost) == pytest.approx(math.log(1.10), abs=0.02)


def test_one_window_of_a_busy_machine_is_not_taken_for_the_depth() -> None:
    level = drift(30, 0.0)
    level[6] = 1.5  # the first window of the first probe

    cost = run(*[(2, 6), (3, 2)] * 3, (2, 6), level=level)

    assert log_ratio(cost) < 0.06


def test_the_uncertainty_is_about_as_large_as_the_errors_are() -> None:
    errors = []
    for seed in range(60):
        draw, level, now = random.Random(seed), [], 0.0
        for _ in range(22):
            now = 0.97 * now + draw.gauss(0, 0.03)
            level.append(math.exp(now + draw.gauss(0, 0.02)))
        cost = run((2, 10), (3, 2), (2, 10), level=level)
        errors.append(log_ratio(cost) / uncertainty(cost))

    spread = math.sqrt(sum(error**2 for error in errors) / len(errors))
    assert 0.4 < spread < 1.3
