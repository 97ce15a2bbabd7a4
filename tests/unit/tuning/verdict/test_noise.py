"""Noise from A/A data: design/tuning.md, section 10.2."""

import math

import numpy as np
import pytest

from specfleet.tuning.verdict.noise import SAFETY, dispersion_of, noise_of


def correlated(lag1: float, length: int = 60_000, sd: float = 0.2) -> list[float | None]:
    draw = np.random.default_rng(3)
    steps = draw.normal(0.0, sd * math.sqrt(1 - lag1**2), length)
    values, last = [], 0.0
    for step in steps:
        last = lag1 * last + float(step)
        values.append(last)
    return list(values)


@pytest.mark.parametrize("lag1", [0.0, 0.41])
def test_h_is_the_weighted_sum_of_the_autocorrelations_of_eight_lags(lag1: float) -> None:
    expected = math.sqrt(1 + 2 * sum((1 - j / 9) * lag1**j for j in range(1, 9)))

    noise = noise_of(correlated(lag1))

    assert noise is not None
    assert noise.sigma == pytest.approx(0.2, rel=0.03)
    assert noise.h == pytest.approx(SAFETY * expected, rel=0.06)


def test_noise_that_alternates_does_not_make_h_smaller_than_its_safety() -> None:
    noise = noise_of([0.1 * (-1) ** i for i in range(60)])

    assert noise is not None
    assert noise.h == SAFETY


def test_a_lasting_difference_of_equal_slices_counts_as_noise() -> None:
    noise = noise_of([0.1] * 60)

    assert noise is not None
    assert noise.sigma == pytest.approx(0.1)
    # All autocorrelations are 1: h^2 = 1 + 2 (8/9 + ... + 1/9) = 9.
    assert noise.h == pytest.approx(SAFETY * 3.0)


def test_minutes_without_a_block_are_left_out_and_keep_the_others_apart() -> None:
    whole = correlated(0.6)

    noise = noise_of([x if i % 3 else None for i, x in enumerate(whole)])

    assert noise is not None
    assert noise.sigma == pytest.approx(0.2, rel=0.03)
    full = noise_of(whole)
    assert full is not None
    assert noise.h == pytest.approx(full.h, rel=0.06)


def test_half_an_hour_is_the_least() -> None:
    assert noise_of([0.1] * 29) is None


def test_coin_flips_have_no_excess_dispersion_and_clustered_failures_have() -> None:
    draw = np.random.default_rng(5)
    single = draw.binomial(100, 0.1, (4_000, 2))
    # Failures that come in threes: the variance of a count is three times that of single ones.
    clustered = 3 * draw.binomial(33, 0.1, (4_000, 2))

    flips = dispersion_of([(float(a), 100.0, float(b), 100.0) for a, b in single])
    threes = dispersion_of([(float(a), 100.0, float(b), 100.0) for a, b in clustered])

    assert flips == pytest.approx(SAFETY**2 * 0.9, rel=0.1)
    assert threes == pytest.approx(SAFETY**2 * 2.7, rel=0.1)


def test_failures_that_last_for_minutes_disperse_more_than_those_that_do_not() -> None:
    draw = np.random.default_rng(6)
    rates = np.repeat(draw.choice([0.05, 0.35], 600), 10)
    lasting = [(float(draw.binomial(100, rate)), 100.0, 20.0, 100.0) for rate in rates]
    mixed = [lasting[i] for i in draw.permutation(len(lasting))]

    assert (dispersion_of(lasting) or 0.0) > 4 * (dispersion_of(mixed) or math.inf)


def test_without_failures_dispersion_is_not_known() -> None:
    assert dispersion_of([(0.0, 100.0, 0.0, 100.0)] * 60 + [None]) is None
