"""The e-value of paired blocks: design/tuning.md, section 10.2, and simulation."""

import math

import numpy as np
import pytest

from specfleet.tuning.verdict.mixture import MIXTURE_SD, Evidence, likelihood_ratio
from specfleet.tuning.verdict.noise import Noise, noise_of

CANARY_MINUTES = 57  # the full length less the warm-up


def first_alarm(log_ratios: np.ndarray, scale: float, alpha: float, margin: float = 0.03) -> np.ndarray:
    """Minutes until L > 1/alpha with n >= 5, of each path; the length plus one: never.

    L grows with the mean, so each n has a mean beyond which it alarms; found here by bisection of our L.
    """
    minutes = log_ratios.shape[1]
    means = log_ratios.cumsum(axis=1) / np.arange(1, minutes + 1)
    limits = [
        least_alarming_mean(n, scale, alpha, margin) if n >= 5 else math.inf for n in range(1, minutes + 1)
    ]
    alarms = means > np.array(limits)
    return np.where(alarms.any(axis=1), alarms.argmax(axis=1) + 1, minutes + 1)


def least_alarming_mean(n: int, scale: float, alpha: float, margin: float) -> float:
    low, high = -1.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (low, middle)
            if likelihood_ratio(middle - margin, scale / math.sqrt(n)) > 1 / alpha
            else (middle, high)
        )
    return high


def autoregressive(draw: np.random.Generator, paths: int, minutes: int, sd: float, lag1: float) -> np.ndarray:
    noise = draw.normal(0.0, sd * math.sqrt(1 - lag1**2), (paths, minutes))
    values = np.empty_like(noise)
    values[:, 0] = draw.normal(0.0, sd, paths)
    for i in range(1, minutes):
        values[:, i] = lag1 * values[:, i - 1] + noise[:, i]
    return values


@pytest.mark.parametrize(
    ("excess", "blocks", "expected"),
    [
        pytest.param(0.07, 10, 1.895, id="seven-points-in-ten-blocks"),
        pytest.param(0.0, 10, 0.4286, id="at-the-margin"),
        pytest.param(-0.03, 60, 0.0775, id="equal-slices-for-an-hour"),
        pytest.param(0.17, 5, 10.02, id="twenty-percent-slower"),
    ],
)
def test_l_is_that_of_the_design(excess: float, blocks: int, expected: float) -> None:
    assert likelihood_ratio(excess, 0.15 / math.sqrt(blocks)) == pytest.approx(expected, rel=5e-4)


def test_l_is_the_integral_of_the_likelihood_over_a_half_normal_excess() -> None:
    excess, error = 0.04, 0.03
    theta = np.linspace(0.0, 1.5, 150_001)
    prior = 2.0 * np.exp(-(theta**2) / (2 * MIXTURE_SD**2)) / (MIXTURE_SD * math.sqrt(2 * math.pi))
    likelihood = np.exp((theta * excess - theta**2 / 2) / error**2)

    assert likelihood_ratio(excess, error) == pytest.approx(np.trapezoid(prior * likelihood, theta), rel=1e-5)


@pytest.mark.parametrize("excess", [-5.0, -0.9, 0.9, 5.0])
def test_l_stays_finite_far_from_the_margin(excess: float) -> None:
    assert 0.0 < likelihood_ratio(excess, 0.005) < math.inf


def test_noise_that_is_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="standard error"):
        likelihood_ratio(0.1, 0.0)


def test_evidence_of_equal_bands_is_the_plain_mean_over_n() -> None:
    evidence = Evidence()
    for x in (0.0, 0.2, 0.1, 0.1, 0.1):
        evidence = evidence.plus(x, Noise(0.15))

    assert evidence.mean == pytest.approx(0.1)
    assert evidence.above(0.03) == pytest.approx(likelihood_ratio(0.07, 0.15 / math.sqrt(5)))


def test_a_noisy_band_weighs_less() -> None:
    evidence = Evidence().plus(0.0, Noise(0.1)).plus(0.5, Noise(0.1, h=2.0))

    assert evidence.mean == pytest.approx(0.1)


def test_above_and_below_are_mirror_images() -> None:
    slower, faster = Evidence().plus(0.2, Noise(0.1)), Evidence().plus(-0.2, Noise(0.1))

    assert slower.above(0.0) == pytest.approx(faster.below(0.0))


def test_no_block_is_no_evidence() -> None:
    assert Evidence().above(0.03) == Evidence().below(0.03) == 1.0


@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_a_canary_at_the_margin_is_rolled_back_no_more_often_than_alpha(alpha: float) -> None:
    draw = np.random.default_rng(11)
    paths = 40_000
    x = draw.normal(0.03, 0.15, (paths, CANARY_MINUTES))

    rate = np.mean(first_alarm(x, 0.15, alpha) <= CANARY_MINUTES)

    assert rate <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / paths)
    assert rate >= 0.1 * alpha, "a test that never alarms proves nothing"


def test_an_equal_canary_is_hardly_ever_rolled_back() -> None:
    x = np.random.default_rng(12).normal(0.0, 0.15, (40_000, CANARY_MINUTES))

    assert np.mean(first_alarm(x, 0.15, 0.005) <= CANARY_MINUTES) < 0.001


# The judges' bench of design/simulator.md: per-minute sd .12 under moderate load, +10 % and +20 % step cost.
@pytest.mark.parametrize(
    ("step_cost", "minutes"), [pytest.param(1.10, 20, id="ten"), pytest.param(1.20, 6, id="twenty")]
)
def test_with_known_noise_a_slower_canary_is_noticed_within_the_target(
    step_cost: float, minutes: int
) -> None:
    # The queue amplifies: +10 % step cost moved the mean by 14 %.
    slowdown = 1.4 * math.log(step_cost)
    x = np.random.default_rng(13).normal(slowdown, 0.12, (4_000, CANARY_MINUTES))

    assert np.median(first_alarm(x, 0.12, 0.005)) <= minutes


def test_with_noise_from_an_hour_of_equal_slices_a_slower_canary_is_still_found_in_time() -> None:
    draw = np.random.default_rng(15)
    noise = noise_of([float(x) for x in autoregressive(draw, 1, 60, 0.12, 0.09)[0]])
    assert noise is not None
    slower = autoregressive(draw, 4_000, CANARY_MINUTES, 0.12, 0.09) + 1.4 * math.log(1.10)

    assert np.mean(first_alarm(slower, noise.scale, 0.005) <= CANARY_MINUTES) > 0.9


def test_equal_canaries_under_correlated_noise_stay_within_the_design_s_false_alarms() -> None:
    draw = np.random.default_rng(14)
    # Saturated load: sd .27, lag-1 autocorrelation .41; sigma and h from other data of the same kind.
    noise = noise_of([float(x) for x in autoregressive(draw, 1, 600, 0.27, 0.41)[0]])
    assert noise is not None
    x = np.clip(autoregressive(draw, 10_000, CANARY_MINUTES, 0.27, 0.41), -0.5, 0.5)

    rate = np.mean(first_alarm(x, noise.scale, 0.01) <= CANARY_MINUTES)

    assert rate <= 0.024
