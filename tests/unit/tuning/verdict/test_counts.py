"""The test on counts: design/tuning.md, section 10.2."""

import math

import numpy as np
import pytest

from specfleet.tuning.verdict.counts import CountEvidence


def beta_binomial(canary: int, reference: int) -> float:
    """Closed form for slices of equal size: a Beta(4, 4) prior on the canary's share, cut at one half."""
    a, b = canary + 4, reference + 4
    beta = math.gamma(a) * math.gamma(b) / math.gamma(a + b)
    upper = sum(math.comb(a + b - 1, k) for k in range(a)) / 2 ** (a + b - 1)
    prior = math.gamma(4) ** 2 / math.gamma(8) / 2
    return float(2.0 ** (canary + reference) * beta * upper / prior)


@pytest.mark.parametrize(("canary", "reference"), [(12, 3), (5, 5), (3, 12), (40, 20)])
def test_equal_slices_give_the_beta_binomial(canary: int, reference: int) -> None:
    evidence = CountEvidence().plus((canary, 500), (reference, 500), margin=0.0)

    assert evidence.above() == pytest.approx(beta_binomial(canary, reference), rel=1e-3)


def test_under_two_hundred_requests_nothing_is_said() -> None:
    evidence = CountEvidence().plus((60, 99), (0, 100), margin=0.0)

    assert evidence.above() == 1.0
    assert evidence.plus((0, 1), (0, 0.5), margin=0.0).above() > 1e6


def test_failures_in_proportion_to_the_requests_are_no_evidence() -> None:
    evidence = CountEvidence().plus((10, 100), (190, 1900), margin=0.0)

    assert evidence.above() < 1.0


def test_failures_within_the_margin_are_no_evidence_and_beyond_it_are() -> None:
    within = CountEvidence().plus((14, 1000), (5, 1000), margin=0.01)
    beyond = CountEvidence().plus((50, 1000), (5, 1000), margin=0.01)

    assert within.above() < 1.0
    assert beyond.above() > 200.0


def test_a_slice_without_requests_adds_nothing() -> None:
    evidence = CountEvidence().plus((30, 300), (10, 300), margin=0.0)

    assert evidence.plus((5, 5), (0, 0), margin=0.0) == evidence


def test_dispersion_takes_the_logs_down_in_proportion() -> None:
    plain = CountEvidence().plus((30, 300), (10, 300), margin=0.0)
    damped = CountEvidence().plus((30, 300), (10, 300), margin=0.0, dispersion=2.0)

    assert damped.logs == pytest.approx([log / 2 for log in plain.logs])


@pytest.mark.parametrize("margin", [0.0, 0.01])
def test_a_canary_at_the_margin_trips_no_more_often_than_alpha_whatever_the_rate_does(margin: float) -> None:
    draw = np.random.default_rng(21)
    alpha, canaries, trips = 0.05, 400, 0
    for _ in range(canaries):
        evidence, worst = CountEvidence(), 0.0
        # Slices of unequal size; the failure rate of both swings from block to block.
        for rate in draw.uniform(0.01, 0.2, 20):
            canary, reference = draw.binomial(30, rate + margin), draw.binomial(90, rate)
            evidence = evidence.plus((canary, 30), (reference, 90), margin)
            worst = max(worst, evidence.above())
        trips += worst > 1 / alpha

    assert trips / canaries <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / canaries)


def test_twice_the_failures_are_found_within_a_canary() -> None:
    draw = np.random.default_rng(22)
    found = 0
    for _ in range(100):
        evidence = CountEvidence()
        for _ in range(57):
            evidence = evidence.plus((draw.binomial(60, 0.10), 60), (draw.binomial(60, 0.05), 60), 0.01)
        found += evidence.above() > 200

    assert found >= 90
